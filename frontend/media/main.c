/*
 * The program `shoal-media`: decodes images for `shoal`, which starts it with a socket and a shared
 * area as descriptors and its own process id as argument. It has one thread, and no secrets: its environment and its
 * descriptors are chosen by the frontend (media_child.c).
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontend/media/media_record.h"
#include "frontend/media/media_sandbox.h"
#include "frontend/media/media_service.h"
#include "shm/peer_watch.h"

/* A decoder's memory is kept for the next image: giving it back and taking it again costs as much as
 * decoding a small one. */
#define KEPT_HEAP_BYTES (32 << 20)

int main(int argc, char *argv[])
{
    char *end = NULL;
    long parent = argc == 2 ? strtol(argv[1], &end, 10) : 0;
    if (parent <= 0 || *end != '\0') {
        fprintf(stderr, "shoal-media: started by `shoal` only\n");
        return 2;
    }
    if (peer_watch_die_with_parent((pid_t)parent) != RESULT_OK)
        return 1;
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_HEAP_BYTES / 2);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_HEAP_BYTES);
    struct media_service service;
    if (!media_service_open(&service))
        return 1;
    uint32_t sandbox = media_sandbox_enter(MEDIA_SOCKET_FD, MEDIA_SANDBOX_ALL);
    return media_service_run(&service, sandbox);
}
