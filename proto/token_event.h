/*
 * What a worker says to the frontend through the event ring: tokens as they are sampled, the end of
 * requests, payloads given back. All events of one step are committed together, so a step costs at
 * most one wake-up. Every field is written by the worker and read by the frontend.
 *
 *   offset field               rule
 *   0      kind                T1: a value of enum token_event_kind
 *   4      finish              T2: enum finish_reason when kind is FINISHED, else 0; of
 *                                  ALTERNATIVES it is alternative_count, T12
 *   8      request             T3: slot < LIMIT_LIVE_REQUESTS; a stale generation is dropped
 *   16     token               T4: < vocabulary for TOKEN
 *   20     index               T5: TOKEN: 0-based count of tokens generated, contiguous; a replay
 *                                  goes on where the first run stopped
 *   24     logprob             T6: TOKEN: <= 0, finite or -INFINITY; natural log, raw distribution
 *   28     failure             T7: enum result when kind is FAILED, else 0
 *   32     prompt_done         T8: PROGRESS: prompt tokens computed so far, <= prompt_total;
 *                                  of TOKEN it is cached_images, T14: pictures of the request that
 *                                  were not encoded for it, <= LIMIT_REQUEST_IMAGES
 *   36     prompt_total        T8: PROGRESS: <= LIMIT_CONTEXT_TOKENS
 *   40     cached_tokens       T9: TOKEN, PROGRESS: prompt tokens taken from the prefix cache, <=
 * LIMIT_CONTEXT_TOKENS 44     payload_generation  T10: PAYLOAD_DONE: the chunk's generation 48
 * payload_offset      T10: PAYLOAD_DONE: inside the slab, 64-byte aligned 56     step_time_us T11:
 * PROGRESS: how long the step took that got so far; else 0
 *
 * of kind ALTERNATIVES from offset 16 on instead:
 *   16     alternatives        T12: alternative_count (1..TOKEN_EVENT_ALTERNATIVES_MAX) pairs of
 *                                  a token < vocabulary and its logprob (as T6), none above the
 *                                  one before it; zero behind them
 *
 * Log-probabilities are natural logarithms of the raw distribution: softmax of the logits as the
 * model gives them, before bias, penalties, temperature and filters, and for forced tokens too.
 *
 * The alternatives of a token, where the submit record wants some, come before its TOKEN event, in
 * as many ALTERNATIVES events as they need and in descending order, ties by id; T13: at most
 * top_logprobs of them. A TOKEN event takes those since the one before it. So a worker that dies
 * between them has told a part of what belongs to a token that it never told: the frontend drops
 * that part, and the replay tells all of it again.
 */
#ifndef SHOAL_PROTO_TOKEN_EVENT_H
#define SHOAL_PROTO_TOKEN_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"
#include "proto/submit_record.h"

enum token_event_kind {
    TOKEN_EVENT_TOKEN = 1,
    TOKEN_EVENT_FINISHED = 2,     /* the last event of a request that ended or was cancelled */
    TOKEN_EVENT_FAILED = 3,       /* the last event of one that was refused or cannot go on */
    TOKEN_EVENT_PAYLOAD_DONE = 4, /* the worker will not read this payload again */
    TOKEN_EVENT_PROGRESS = 5,    /* prompt tokens computed so far; at most one a step and request */
    TOKEN_EVENT_ALTERNATIVES = 6 /* of the request's next TOKEN event */
};

/* A token and the natural logarithm of its probability. */
struct token_logprob {
    uint32_t token;
    float logprob;
};
#define TOKEN_EVENT_ALTERNATIVES_MAX 6u

enum finish_reason {
    FINISH_NONE = 0,
    FINISH_STOP_TOKEN = 1, /* the stop token itself was sent as the TOKEN event before this one */
    FINISH_LENGTH = 2,     /* max_new_tokens or the context's end */
    FINISH_CANCELLED = 3
};

struct token_event {
    uint32_t kind;
    union {
        uint32_t finish;
        uint32_t alternative_count; /* ALTERNATIVES */
    };
    struct request_id request;
    union {
        struct {
            uint32_t token;
            uint32_t index;
            float logprob;
            uint32_t failure;
            union {
                uint32_t prompt_done;
                uint32_t cached_images; /* TOKEN */
            };
            uint32_t prompt_total;
            uint32_t cached_tokens;
            uint32_t payload_generation;
            uint64_t payload_offset;
            uint64_t step_time_us;
        };
        struct token_logprob alternatives[TOKEN_EVENT_ALTERNATIVES_MAX]; /* ALTERNATIVES */
    };
};
_Static_assert(sizeof(struct token_event) == 64, "ring slot is 64 bytes");

/* Rules T1-T12 and T14 against a vocabulary and a slab; RESULT_CORRUPT, and the words begin with
 * the rule's name. Pure. */
enum result token_event_check(const struct token_event *event, uint32_t vocab_tokens,
                              uint64_t slab_bytes, struct error_text *error) RESULT_CHECKED;

#endif
