/*
 * The programs `shoal-media` and `shoal-av`: decode images and videos for `shoal`, which starts it with a socket and a shared
 * area as descriptors and its own process id as argument. It has one thread, and no secrets: its environment and its
 * descriptors are chosen by the frontend (media_child.c). With a number of seconds and a command after the process id it
 * becomes that command, confined, to read a PDF file (document_child.c).
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "frontend/document/document_exec.h"
#include "frontend/media/media_record.h"
#include "frontend/media/media_sandbox.h"
#include "frontend/media/media_service.h"
#include "shm/peer_watch.h"

/* A decoder's memory is kept for the next image: giving it back and taking it again costs as much as
 * decoding a small one. */
#define KEPT_HEAP_BYTES (32 << 20)

/* 0: not a number. */
static long number_read(const char *text)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    return *end == '\0' && number > 0 ? number : 0;
}

int main(int argc, char *argv[])
{
    long parent = argc >= 2 ? number_read(argv[1]) : 0;
    long cpu_seconds = argc >= 4 ? number_read(argv[2]) : 0;
    if (parent == 0 || (argc > 2 && cpu_seconds == 0)) {
        fprintf(stderr, "shoal-media: started by `shoal` only\n");
        return 2;
    }
    if (peer_watch_die_with_parent((pid_t)parent) != RESULT_OK)
        return 1;
    if (argc > 2)
        return document_exec((unsigned)cpu_seconds, argv + 3);
    /* Dates in a film are converted by the C library, which would read the zone's file then. */
    (void)setenv("TZ", "UTC0", 1);
    tzset();
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_HEAP_BYTES / 2);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_HEAP_BYTES);
    struct media_service service;
    if (!media_service_open(&service))
        return 1;
    uint32_t sandbox = media_sandbox_enter(MEDIA_SOCKET_FD, MEDIA_SANDBOX_ALL);
    return media_service_run(&service, sandbox);
}
