/*
 * How far a download is: a bar on a terminal, otherwise plain lines, or JSON objects for programs.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_PROGRESS_H
#define SHOAL_FRONTEND_HUB_HUB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "frontend/hub/hub_listing.h"

struct hub_progress {
    FILE *out; /* NULL: nothing is shown */
    bool terminal;
    bool json;
    const char *file;
    const char *hash;
    uint64_t size;
    uint64_t from; /* bytes that an earlier try had */
    uint64_t done;
    int64_t begun_ms;
    int64_t shown_ms;
    unsigned shown_tenth;
};

/* `json`: a line for each state, in the form of Ollama's POST /api/pull: {"status", "digest", "total", "completed"}. */
void hub_progress_init(struct hub_progress *progress, FILE *out, bool json);
/* `file` and its hash stay until the end. */
void hub_progress_begin(struct hub_progress *progress, const struct hub_file *file, uint64_t from);
/* `done` of the file's bytes are there. */
void hub_progress_show(struct hub_progress *progress, uint64_t done);
/* `note`: what became of it ("complete"). */
void hub_progress_end(struct hub_progress *progress, const char *note);
/* JSON only: a state of the whole download. */
void hub_progress_status(struct hub_progress *progress, const char *status);
/* A line between files. */
void hub_progress_note(struct hub_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "98.1 MB", powers of 1000. */
void hub_size_write(uint64_t bytes, char text[16]);

#endif
