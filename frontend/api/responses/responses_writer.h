/*
 * What an answer consists of (reply_event.h) as items of the Responses API, and as the events that
 * tell of them while they grow.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSES_WRITER_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSES_WRITER_H

#include <stdint.h>

#include "frontend/api/generation/api_format.h"
#include "frontend/api/responses/response_store.h"
#include "frontend/reply/reply_event.h"
#include "frontend/reply/token_log.h"

enum responses_item_kind {
    RESPONSES_NO_ITEM = 0,
    RESPONSES_MESSAGE,
    RESPONSES_REASONING,
    RESPONSES_CALL
};

struct responses_writer {
    const char *response_id;
    bool stream;             /* events are written */
    struct text_buffer *out; /* where to: the caller sets it before each call */
    uint64_t sequence;       /* of the next event */

    struct response_items items; /* those that are done */
    enum responses_item_kind open;
    struct text_buffer text;         /* of the open item */
    struct text_buffer name;         /* of the open call */
    struct text_buffer call_id;      /* likewise */
    struct text_buffer logprobs_all; /* of the open message: JSON with commas between */
    struct text_buffer logprobs_new; /* of the next delta */

    const struct tokenizer *tokenizer; /* NULL: no log-probabilities */
    struct token_log *log;
    bool loose;                      /* what came was not only the open message's text */
    const struct reply_token *token; /* in hand, or NULL */
};

/* `response_id` and `tokenizer` (NULL: without log-probabilities) outlive it. */
void responses_writer_init(struct responses_writer *writer, const char *response_id, bool stream,
                           const struct tokenizer *tokenizer);
void responses_writer_fini(struct responses_writer *writer);

/* A token whose events come now; NULL: it is over. Log-probabilities are shown of messages only. */
void responses_writer_set_token(struct responses_writer *writer, const struct reply_token *token);
/* No more tokens come. `cut`: by a stop string. */
void responses_writer_end_tokens(struct responses_writer *writer, bool cut);

/* Takes a struct reply_event: a sink. `context` is the writer. */
void responses_writer_take(void *context, const struct reply_event *event);
/* The open item, if there is one, is done. `status`: "completed" or "incomplete". */
void responses_writer_close(struct responses_writer *writer, const char *status);
/* A model that says nothing says an empty message. */
void responses_writer_end_empty(struct responses_writer *writer);

/* The event response.<name> with the response as it is now. */
void responses_writer_tell(struct responses_writer *writer, const char *name,
                           struct response_record *record);
void responses_writer_tell_error(struct responses_writer *writer, const struct api_error *error);

#endif
