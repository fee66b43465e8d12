/*
 * The script of an answer: the steps from which the events of its stream are written, so that a
 * stream can be repeated from any event, while the answer is made and afterwards. Steps take less
 * than a tenth of the memory of their events.
 *
 *   QUEUED | STARTED -> RUNNING (after QUEUED) -> pieces of the answer -> COMPLETED | INCOMPLETE |
 *   FAILED | CANCELLED
 *
 * In memory and in state files (response_file.h) a step is its kind (1 byte), the lengths of its
 * two texts (4 bytes each, little-endian), and the texts.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_SCRIPT_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "frontend/base/text_buffer.h"

enum response_step_kind {
    STEP_QUEUED = 1, /* a background answer begins */
    STEP_STARTED,    /* another answer begins */
    STEP_RUNNING,    /* first token of a background answer */
    STEP_CONTENT,    /* text; its log-probabilities, as JSON separated by commas */
    STEP_REASONING,  /* text; `more`: empty, or anything if the text is the item's summary */
    STEP_CALL_BEGIN, /* label (response_calls.h); the call's id */
    STEP_ARGUMENTS,  /* text of the open call's arguments */
    STEP_CALL_END,
    STEP_LOGPROBS,  /* log-probabilities that no text follows, in `more` */
    STEP_COMPLETED, /* this and the following are last */
    STEP_INCOMPLETE,
    STEP_FAILED, /* message; the error's code ("": none) */
    STEP_CANCELLED
};

struct response_step {
    enum response_step_kind kind;
    const char *text; /* NULL if empty, like `more` */
    size_t text_bytes;
    const char *more;
    size_t more_bytes;
};

bool response_step_is_last(enum response_step_kind kind);
void response_script_append(struct text_buffer *script, const struct response_step *step);
/* Reads the step at *offset, which points into `script`, and moves *offset behind it. False at the
 * end, and if the bytes there are not a step. */
bool response_script_read(const char *script, size_t script_bytes, size_t *offset,
                          struct response_step *step);

#endif
