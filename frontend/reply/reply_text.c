/*
 * Tokens to client text: special tokens dropped, bytes made whole characters, stop strings cut.
 *
 * Decoded text goes to `held`. After each token the earliest occurrence of any stop string in it is
 * looked for; if there is one, the text before it is final. Otherwise everything is released except
 * the longest tail that is a proper beginning of some stop string, so at most LIMIT_STOP_BYTES - 1
 * bytes are ever held and each push costs O(new bytes * stops) plus that bound.
 */
#include "frontend/reply/reply_text.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/reply/utf8_stream.h"
#include "proto/limits.h"
#include "proto/must.h"

struct reply_text {
    const struct tokenizer *tokenizer;
    struct utf8_stream utf8;
    struct text_buffer held; /* decoded, not yet released */
    struct stop_string stops[LIMIT_STOP_STRINGS];
    size_t stop_count;
    bool at_start; /* nothing decoded yet: a tokenizer's own leading space is dropped */
    bool stopped;
    size_t found; /* of stops: the one that ended the text; stop_count when none did */
};

struct reply_text *reply_text_create(const struct tokenizer *tokenizer,
                                     const struct stop_string *stops, size_t stop_count)
{
    must(stop_count <= LIMIT_STOP_STRINGS);
    struct reply_text *reply = must_alloc(1, sizeof *reply);
    reply->tokenizer = tokenizer;
    reply->at_start = true;
    for (size_t i = 0; i < stop_count; i++) {
        must(stops[i].length >= 1 && stops[i].length <= LIMIT_STOP_BYTES);
        char *copy = must_alloc(stops[i].length + 1, 1);
        memcpy(copy, stops[i].bytes, stops[i].length);
        reply->stops[i] = (struct stop_string){.bytes = copy, .length = stops[i].length};
    }
    reply->stop_count = reply->found = stop_count;
    return reply;
}

void reply_text_destroy(struct reply_text *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; i < reply->stop_count; i++)
        free((char *)(uintptr_t)reply->stops[i].bytes);
    text_buffer_fini(&reply->held);
    free(reply);
}

/* Position of the earliest stop string in the held text, and which it is; or SIZE_MAX. */
static size_t reply_text_find_stop(const struct reply_text *reply, size_t *which)
{
    size_t earliest = SIZE_MAX;
    for (size_t i = 0; i < reply->stop_count; i++) {
        const char *found = memmem(reply->held.bytes, reply->held.length, reply->stops[i].bytes,
                                   reply->stops[i].length);
        if (found && (size_t)(found - reply->held.bytes) < earliest) {
            earliest = (size_t)(found - reply->held.bytes);
            *which = i;
        }
    }
    return earliest;
}

/* Length of the longest tail of the held text with which some stop string begins. */
static size_t reply_text_open_tail(const struct reply_text *reply)
{
    size_t longest = 0;
    for (size_t i = 0; i < reply->stop_count; i++) {
        const struct stop_string *stop = &reply->stops[i];
        size_t most = stop->length - 1;
        if (most > reply->held.length)
            most = reply->held.length;
        for (size_t tail = most; tail > longest; tail--) {
            if (memcmp(reply->held.bytes + reply->held.length - tail, stop->bytes, tail) == 0) {
                longest = tail;
                break;
            }
        }
    }
    return longest;
}

/* Moves the first `count` held bytes to *out. */
static void reply_text_release(struct reply_text *reply, size_t count, struct text_buffer *out)
{
    text_buffer_append(out, reply->held.bytes, count);
    text_buffer_consume(&reply->held, count);
}

static bool reply_text_settle(struct reply_text *reply, struct text_buffer *out)
{
    if (reply->held.length == 0)
        return false;
    size_t stop = reply_text_find_stop(reply, &reply->found);
    if (stop != SIZE_MAX) {
        text_buffer_append(out, reply->held.bytes, stop);
        text_buffer_clear(&reply->held);
        reply->stopped = true;
        return true;
    }
    reply_text_release(reply, reply->held.length - reply_text_open_tail(reply), out);
    return false;
}

bool reply_text_push(struct reply_text *reply, uint32_t token, struct text_buffer *out)
{
    if (reply->stopped)
        return true;
    if (tokenizer_is_special(reply->tokenizer, token))
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
    utf8_stream_push(&reply->utf8, bytes, count, &reply->held);
    return reply_text_settle(reply, out);
}

void reply_text_finish(struct reply_text *reply, struct text_buffer *out)
{
    if (reply->stopped)
        return;
    utf8_stream_finish(&reply->utf8, &reply->held);
    if (!reply_text_settle(reply, out))
        reply_text_release(reply, reply->held.length, out);
    reply->stopped = true;
}

const char *reply_text_stop_string(const struct reply_text *reply)
{
    return reply->found < reply->stop_count ? reply->stops[reply->found].bytes : NULL;
}
