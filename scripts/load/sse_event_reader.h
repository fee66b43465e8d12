/*
 * Parses server-sent events from the bytes of a body, in pieces of any size.
 */
#ifndef SHOAL_SCRIPTS_LOAD_SSE_EVENT_READER_H
#define SHOAL_SCRIPTS_LOAD_SSE_EVENT_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.h"

#define SSE_EVENT_BYTES (1u << 20) /* one event's data, or one line; real ones have about 300 */

/* Initialized with all bytes zero. */
struct sse_event_reader {
    char *line; /* malloc'd as needed; sse_event_reader_fini() frees */
    size_t line_length;
    size_t line_capacity;
    char *data; /* of the current event */
    size_t data_length;
    size_t data_capacity;
    bool has_data;
    bool after_return; /* a line feed now belongs to the preceding line end */
};

void sse_event_reader_fini(struct sse_event_reader *reader);
/* Calls `event` for each complete event that has data, which is NUL-terminated; if that returns
 * anything but RESULT_OK, so does this. RESULT_TOO_LARGE: the bound is exceeded. RESULT_CORRUPT: a
 * zero byte. */
enum result sse_event_reader_feed(struct sse_event_reader *reader, const char *bytes, size_t count,
                                  enum result (*event)(void *context, const char *data,
                                                       size_t length),
                                  void *context) RESULT_CHECKED;

#endif
