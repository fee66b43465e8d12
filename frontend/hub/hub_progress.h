/*
 * How far a download is: a bar on a terminal, otherwise plain lines.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_PROGRESS_H
#define SHOAL_FRONTEND_HUB_HUB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct hub_progress {
    FILE *out; /* NULL: nothing is shown */
    bool terminal;
    const char *file;
    uint64_t size;
    uint64_t from; /* bytes that an earlier try had */
    uint64_t done;
    int64_t begun_ms;
    int64_t shown_ms;
    unsigned shown_tenth;
};

void hub_progress_init(struct hub_progress *progress, FILE *out);
/* `file` stays until the end. */
void hub_progress_begin(struct hub_progress *progress, const char *file, uint64_t size,
                        uint64_t from);
/* `done` of the file's bytes are there. */
void hub_progress_show(struct hub_progress *progress, uint64_t done);
/* `note`: what became of it ("complete"). */
void hub_progress_end(struct hub_progress *progress, const char *note);
/* A line between files. */
void hub_progress_note(struct hub_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "98.1 MB", powers of 1000. */
void hub_size_write(uint64_t bytes, char text[16]);

#endif
