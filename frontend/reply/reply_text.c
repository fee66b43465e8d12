/*
 * Tokens to text: special tokens are dropped, bytes joined to whole characters (utf8_stream.h).
 *
 * If a parser follows, the special tokens that spell its marks give their text. These tokens are
 * few and were listed once, so only a special token costs a search in the list.
 */
#include "frontend/reply/reply_text.h"

#include <stdlib.h>

#include "frontend/base/utf8_stream.h"
#include "proto/must.h"

enum { REPLACEMENT_BYTES = 3 }; /* of U+FFFD */

struct reply_text {
    const struct tokenizer *tokenizer;
    const struct token_list *shown; /* special tokens that give text, or NULL */
    struct utf8_stream utf8;
    bool at_start; /* nothing decoded yet: the tokenizer's leading space is dropped */
};

struct reply_text *reply_text_create(const struct tokenizer *tokenizer)
{
    struct reply_text *reply = must_alloc(1, sizeof *reply);
    reply->tokenizer = tokenizer;
    reply->at_start = true;
    return reply;
}

void reply_text_destroy(struct reply_text *reply)
{
    free(reply);
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

size_t reply_text_push(struct reply_text *reply, uint32_t token, struct text_buffer *out)
{
    if (is_hidden(reply, token))
        return 0;
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
    bool broke_off =
        reply->utf8.pending_bytes > 0 && count > 0 &&
        ((uint8_t)bytes[0] < reply->utf8.next_low || (uint8_t)bytes[0] > reply->utf8.next_high);
    utf8_stream_push(&reply->utf8, bytes, count, out);
    return broke_off ? REPLACEMENT_BYTES : 0;
}

void reply_text_finish(struct reply_text *reply, struct text_buffer *out)
{
    utf8_stream_finish(&reply->utf8, out);
}

void reply_text_write_all(const struct tokenizer *tokenizer, const struct token_list *tokens,
                          struct text_buffer *out)
{
    struct utf8_stream utf8 = {0};
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes;
        size_t count;
        tokenizer_token_bytes(tokenizer, tokens->ids[i], &bytes, &count);
        utf8_stream_push(&utf8, bytes, count, out);
    }
    utf8_stream_finish(&utf8, out);
}
