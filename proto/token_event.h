/*
 * Events from a worker to the frontend, through the event ring: sampled tokens, the end of a
 * request, payloads given back. All events of one step are committed together, so a step costs at
 * most one wake-up.
 *
 * Byte map of struct token_event, 64 bytes. Written by the worker.
 *
 *   offset  size  field               rule
 *   0       4     kind                T1: a value of enum token_event_kind
 *   4       4     finish              T2: FINISHED: enum finish_reason; else 0
 *   4       4     alternative_count   T12: ALTERNATIVES: 1..TOKEN_EVENT_ALTERNATIVES_MAX
 *   8       8     request             T3: slot < LIMIT_LIVE_REQUESTS; stale generations are dropped
 *   8       8     adapter             T19: ADAPTER: slot < LIMIT_ADAPTERS
 *   16      4     token               T4: TOKEN, PROMPT_TOKEN: < vocabulary
 *   20      4     index               T5: TOKEN: 0-based count of generated tokens, contiguous; a
 *                                         replay continues where the first run stopped
 *                                         PROMPT_TOKEN: its place in the prompt, from 1 on,
 *                                         contiguous
 *   24      4     logprob             T6: TOKEN, PROMPT_TOKEN: <= 0, finite or -INFINITY
 *   28      4     failure             T7: FAILED: enum result; ADAPTER: likewise, or 0 if the worker now has what
 *                                         the entry says; else 0
 *   32      4     prompt_done         T8: PROGRESS: prompt tokens computed so far, <= prompt_total
 *   32      4     cached_images       T14: TOKEN: images of the request that were not encoded for
 *                                          it, <= LIMIT_REQUEST_RECORDS
 *   36      4     prompt_total        T8: PROGRESS: <= LIMIT_CONTEXT_TOKENS
 *   36      4     draft_position      T16: TOKEN: n if the token equals the n-th draft of its step;
 *                                          else 0; <= LIMIT_DRAFT_TOKENS
 *   36      4     rank                T18: PROMPT_TOKEN: 1..vocabulary
 *   40      4     cached_tokens       T9: TOKEN, PROGRESS: prompt tokens taken from the prefix
 *                                         cache, <= LIMIT_CONTEXT_TOKENS
 *   44      4     payload_generation  T10: PAYLOAD_DONE: the chunk's generation
 *   44      4     draft_tokens        T15: TOKEN: tokens drafted for the step, on its first token;
 *                                          else 0; <= LIMIT_DRAFT_TOKENS
 *   48      8     payload_offset      T10: PAYLOAD_DONE: inside the slab, 64-byte aligned
 *   48      4     mirostat_mu         T17: TOKEN: [-10^9, 10^9]: sampling_params.mirostat_mu for the
 *                                          next draw
 *   56      8     step_time_us        T11: PROGRESS: duration of the step; else 0
 *   4       4     value_count         T17: VECTOR: 1..TOKEN_EVENT_VALUES_MAX
 *   16      48    values              T17: VECTOR: value_count finite numbers; unused ones are zero
 *   16      48    alternatives        T12: ALTERNATIVES: alternative_count pairs of a token
 *                                          < vocabulary and its logprob (as T6), in descending
 *                                          order; unused pairs are zero
 *
 * Log-probabilities are natural logarithms of the raw distribution: softmax of the model's logits
 * before bias, penalties, temperature and filters. Forced tokens have one too. A rank is the number
 * of tokens whose logit is at least the token's, itself included.
 *
 * If the submit record asks for alternatives, those of a token precede its TOKEN event, in as many
 * ALTERNATIVES events as they need, in descending order, ties by id; T13: at most top_logprobs of
 * them. A TOKEN event takes all alternatives since the TOKEN event before it. If the worker dies
 * between them, the frontend drops the incomplete alternatives, and the replay sends all of them
 * again. Alternatives of a PROMPT_TOKEN precede it likewise, at most score_top of them.
 *
 * A worker that pools (proto/pooling.h) sends the vector of a request's text, in as many VECTOR
 * events as it needs, before the one TOKEN event of the request. If the worker dies between them,
 * the frontend drops the incomplete vector, and the replay sends all of it again.
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
    TOKEN_EVENT_FINISHED = 2,     /* last event of a request that ended or was cancelled */
    TOKEN_EVENT_FAILED = 3,       /* last event of a request that was refused or failed */
    TOKEN_EVENT_PAYLOAD_DONE = 4, /* the worker will not read this payload again */
    TOKEN_EVENT_PROGRESS = 5,     /* prompt tokens computed so far; at most one per step */
    TOKEN_EVENT_ALTERNATIVES = 6, /* alternatives of the request's next TOKEN or PROMPT_TOKEN */
    TOKEN_EVENT_PROMPT_TOKEN = 7, /* log-probability of a prompt token (run_params.score_from) */
    TOKEN_EVENT_VECTOR = 8,       /* the next numbers of the request's vector */
    TOKEN_EVENT_ADAPTER = 9 /* the answer to SUBMIT_ADAPTER; gauge `failure` says why it failed */
};

/*
 * A token and the natural logarithm of its probability.
 *
 * Byte map of struct token_logprob, 8 bytes. Written by the worker.
 *
 *   offset  size  field    rule
 *   0       4     token    T4
 *   4       4     logprob  T6
 */
struct token_logprob {
    uint32_t token;
    float logprob;
};
_Static_assert(sizeof(struct token_logprob) == 8, "crosses shared memory: layout is fixed");
#define TOKEN_EVENT_ALTERNATIVES_MAX 6u
#define TOKEN_EVENT_VALUES_MAX       12u

enum finish_reason {
    FINISH_NONE = 0,
    FINISH_STOP_TOKEN = 1, /* the stop token itself was sent as the TOKEN event before this one */
    FINISH_LENGTH = 2,     /* max_new_tokens or the context's end */
    FINISH_CANCELLED = 3,
    FINISH_GRAMMAR = 4 /* the grammar allows nothing but the end */
};

struct token_event {
    uint32_t kind;
    union {
        uint32_t finish;
        uint32_t alternative_count; /* ALTERNATIVES */
        uint32_t value_count;       /* VECTOR */
    };
    union {
        struct request_id request;
        struct adapter_id adapter; /* ADAPTER */
    };
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
            union {
                uint32_t prompt_total;
                uint32_t draft_position; /* TOKEN */
                uint32_t rank;           /* PROMPT_TOKEN */
            };
            uint32_t cached_tokens;
            union {
                uint32_t payload_generation;
                uint32_t draft_tokens; /* TOKEN */
            };
            union {
                uint64_t payload_offset;
                float mirostat_mu; /* TOKEN */
            };
            uint64_t step_time_us;
        };
        struct token_logprob alternatives[TOKEN_EVENT_ALTERNATIVES_MAX]; /* ALTERNATIVES */
        float values[TOKEN_EVENT_VALUES_MAX];                            /* VECTOR */
    };
};
_Static_assert(sizeof(struct token_event) == 64, "ring slot is 64 bytes");

/* Checks rules T1-T12 and T14-T18 against a vocabulary and a slab. RESULT_CORRUPT, and the error text
 * begins with the rule's name. Pure. */
enum result token_event_check(const struct token_event *event, uint32_t vocab_tokens,
                              uint64_t slab_bytes, struct error_text *error) RESULT_CHECKED;

#endif
