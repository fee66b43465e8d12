/*
 * The parts of an answer (reply_event.h) as items of the Responses API, and as the events of a
 * stream.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_WRITER_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_WRITER_H

#include <stdint.h>

#include "frontend/api/generation/reply_token.h"
#include "frontend/api/responses/call_input.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/reply/reply_event.h"
#include "frontend/reply/token_log.h"

enum responses_item_kind {
    RESPONSES_NO_ITEM = 0,
    RESPONSES_MESSAGE,
    RESPONSES_REASONING,
    RESPONSES_SUMMARY, /* a reasoning item whose text is its summary */
    RESPONSES_CALL,    /* the first of the calls, in the order of enum response_call_kind */
    RESPONSES_CUSTOM_CALL,
    RESPONSES_LOCAL_SHELL_CALL,
    RESPONSES_SHELL_CALL,
    RESPONSES_PATCH_CALL
};

struct cJSON;

struct responses_writer {
    const char *response_id;
    bool stream;                    /* write events */
    bool summarizes;                /* reasoning becomes items of the kind RESPONSES_SUMMARY */
    bool numbers_lines;             /* an `id:` line with each event's number */
    uint64_t first_sequence;        /* earlier events are not written */
    struct response_record *record; /* gets the steps; NULL: they are repeated from its script */
    const struct cJSON *labels; /* {name in the prompt: label} of calls that are shown in another
                                       way (response_calls.h); NULL: none */
    struct text_buffer *out;    /* target; set by the caller before each call */
    uint64_t sequence;          /* of the next event */
    size_t event_start;         /* of the open event, in `out` */

    struct response_items items; /* the finished ones */
    enum responses_item_kind open;
    struct text_buffer text;         /* of the open item */
    struct text_buffer name;         /* of the open call */
    struct text_buffer namespace;    /* likewise; empty: none */
    struct text_buffer call_id;      /* likewise */
    struct call_input input;         /* of a custom tool's open call */
    struct text_buffer logprobs_all; /* of the open message: JSON, separated by commas */
    struct text_buffer logprobs_new; /* of the next delta */

    const struct tokenizer *tokenizer; /* NULL: no log-probabilities */
    struct token_log *log;
    bool loose;                      /* text besides the open message's was pushed */
    const struct reply_token *token; /* being pushed, or NULL */
};

/* `response_id` and `tokenizer` (NULL: no log-probabilities) must outlive it. */
void responses_writer_init(struct responses_writer *writer, const char *response_id, bool stream,
                           const struct tokenizer *tokenizer);
void responses_writer_fini(struct responses_writer *writer);

/* The token whose events follow; NULL: none. Only messages show log-probabilities. */
void responses_writer_set_token(struct responses_writer *writer, const struct reply_token *token);
/* Call after the last token. `cut`: by a stop string. */
void responses_writer_end_tokens(struct responses_writer *writer, bool cut);

/* An event sink for struct reply_event; `context` is the writer. */
void responses_writer_take(void *context, const struct reply_event *event);
/* Finishes the open item, if any. `status`: "completed" or "incomplete". */
void responses_writer_close(struct responses_writer *writer, const char *status);
/* Writes an empty message for an empty answer. */
void responses_writer_end_empty(struct responses_writer *writer);

/* Writes the event response.<name> with the response; `status`: final if the response is finished,
 * otherwise what it shows. */
void responses_writer_tell(struct responses_writer *writer, const char *name,
                           struct response_record *record, enum response_status status);
/* `code` may be NULL. */
void responses_writer_tell_error(struct responses_writer *writer, const char *code,
                                 const char *message, size_t message_bytes);
/* Writes what a step of the answer itself (STEP_CONTENT to STEP_LOGPROBS) wrote when it was made.
 * False: the step cannot follow the ones before it. */
bool responses_writer_repeat(struct responses_writer *writer, const struct response_step *step);

#endif
