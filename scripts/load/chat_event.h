/*
 * The content of one event of a streamed chat that a load tool needs.
 */
#ifndef SHOAL_SCRIPTS_LOAD_CHAT_EVENT_H
#define SHOAL_SCRIPTS_LOAD_CHAT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"

struct chat_event {
    bool done;      /* [DONE] */
    bool has_text;  /* nonempty content, reasoning or piece of a tool call */
    bool finished;  /* a finish_reason */
    bool has_usage; /* the next two are set */
    bool is_error;
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    char error[96]; /* code and message */
};

/* RESULT_CORRUPT: neither [DONE] nor a JSON object. */
enum result chat_event_read(const char *data, size_t length,
                            struct chat_event *event) RESULT_CHECKED;

#endif
