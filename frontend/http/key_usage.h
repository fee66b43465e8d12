/*
 * What each API key has used in the last minute, against its limits (struct key_limits). Time is passed in; the table is
 * bounded by the number of keys.
 *
 * Each limit per minute is a token bucket: it holds at most the limit, is full at first, and fills at limit / 60 s. A request
 * is admitted while every bucket holds something; its tokens and images are taken when they are known, so a bucket may become
 * negative by the requests in progress, and refuses until it has filled again.
 */
#ifndef SHOAL_FRONTEND_HTTP_KEY_USAGE_H
#define SHOAL_FRONTEND_HTTP_KEY_USAGE_H

#include <stdint.h>

#include "frontend/base/client_key.h"
#include "frontend/base/text_buffer.h"

struct key_usage;

enum key_verdict {
    KEY_ADMITTED,
    KEY_OVER_REQUESTS,
    KEY_OVER_TOKENS,
    KEY_OVER_IMAGES,
    KEY_OVER_CONCURRENT
};

struct key_usage *key_usage_create(uint32_t max_keys);
void key_usage_destroy(struct key_usage *usage);

/* Admits one request and counts it as in progress until key_usage_end(). Otherwise *retry_after_s says when to come again (at
 * least 1). A key without limits is always admitted and takes no room. If the table is full of keys in use, admits. */
enum key_verdict key_usage_begin(struct key_usage *usage, const struct client_key *key,
                                 const struct key_limits *limits, int64_t now_ms,
                                 uint32_t *retry_after_s);
/* Ends an admitted request. */
void key_usage_end(struct key_usage *usage, const struct client_key *key);

void key_usage_take_tokens(struct key_usage *usage, const struct client_key *key, uint64_t tokens,
                           int64_t now_ms);
void key_usage_take_images(struct key_usage *usage, const struct client_key *key, uint64_t images,
                           int64_t now_ms);

/* Appends x-ratelimit-{limit,remaining,reset}-{requests,tokens,images} for the limits that are set (OpenAI's names; reset is
 * the time until the bucket is full). */
void key_usage_append_headers(struct key_usage *usage, const struct client_key *key, int64_t now_ms,
                              struct text_buffer *out);

#endif
