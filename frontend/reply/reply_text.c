/*
 * Tokens to client text: special tokens dropped, bytes made whole characters (utf8_stream.h), stop
 * strings cut (stop_matcher.h).
 */
#include "frontend/reply/reply_text.h"

#include <stdlib.h>

#include "frontend/reply/utf8_stream.h"
#include "proto/must.h"

struct reply_text {
    const struct tokenizer *tokenizer;
    const struct token_list *shown; /* special tokens that give text, or NULL */
    struct utf8_stream utf8;
    struct text_buffer whole; /* scratch: characters that this push completed */
    struct stop_matcher stops;
    bool at_start; /* nothing decoded yet: a tokenizer's own leading space is dropped */
    bool finished;
};

struct reply_text *reply_text_create(const struct tokenizer *tokenizer,
                                     const struct stop_string *stops, size_t stop_count)
{
    struct reply_text *reply = must_alloc(1, sizeof *reply);
    reply->tokenizer = tokenizer;
    reply->at_start = true;
    stop_matcher_init(&reply->stops, stops, stop_count);
    return reply;
}

void reply_text_destroy(struct reply_text *reply)
{
    if (!reply)
        return;
    stop_matcher_fini(&reply->stops);
    text_buffer_fini(&reply->whole);
    free(reply);
}

static bool reply_text_settle(struct reply_text *reply, struct text_buffer *out)
{
    bool stopped = stop_matcher_push(&reply->stops, reply->whole.bytes, reply->whole.length, out);
    out->failed |= reply->whole.failed;
    text_buffer_clear(&reply->whole);
    return stopped;
}

void reply_text_show(struct reply_text *reply, const struct token_list *tokens)
{
    reply->shown = tokens;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_hidden(const struct reply_text *reply, uint32_t token)
{
    if (!tokenizer_is_special(reply->tokenizer, token))
        return false;
    const struct token_list *shown = reply->shown;
    return !shown || shown->count == 0 ||
           !bsearch(&token, shown->ids, shown->count, sizeof token, compare_ids);
}

bool reply_text_push(struct reply_text *reply, uint32_t token, struct text_buffer *out)
{
    if (reply->finished || reply->stops.found >= 0)
        return true;
    if (is_hidden(reply, token))
        return false;
    const char *bytes;
    size_t count;
    tokenizer_token_bytes(reply->tokenizer, token, &bytes, &count);
    if (reply->at_start && count > 0) {
        reply->at_start = false;
        if (bytes[0] == ' ' && tokenizer_strips_space(reply->tokenizer)) {
            bytes++;
            count--;
        }
    }
    utf8_stream_push(&reply->utf8, bytes, count, &reply->whole);
    return reply_text_settle(reply, out);
}

void reply_text_finish(struct reply_text *reply, struct text_buffer *out)
{
    if (reply->finished || reply->stops.found >= 0)
        return;
    utf8_stream_finish(&reply->utf8, &reply->whole);
    if (!reply_text_settle(reply, out))
        stop_matcher_release(&reply->stops, out);
    reply->finished = true;
}

const char *reply_text_stop_string(const struct reply_text *reply)
{
    return stop_matcher_string(&reply->stops);
}
