/*
 * The parameters of a request as the frontend sets them and the worker uses them. They cross shared
 * memory inside a submit record (proto/submit_record.h), so the layout is fixed. Rules S2-S18 are
 * checked by submit_record_check().
 *
 *   offset  field              rule
 *   0       flags              S2: only SUBMIT_FLAG_* bits
 *   4       prompt_tokens      S7: 1..LIMIT_CONTEXT_TOKENS; generated_tokens included
 *   8       generated_tokens   S8: < prompt_tokens; the last of the prompt ids, generated before a
 *                                  replay
 *   12      max_new_tokens     S9: 1..LIMIT_CONTEXT_TOKENS; generated_tokens not included
 *   16      logit_bias_count   S10: <= LIMIT_LOGIT_BIAS
 *   20      stop_token_count   S11: <= LIMIT_STOP_TOKENS
 *   24      sampling           S12: sampling_params_check()
 *   80      min_tokens         S14: <= LIMIT_CONTEXT_TOKENS; of the whole answer, the tokens before
 *                                   a replay included
 *   84      top_logprobs       S15: <= LIMIT_TOP_LOGPROBS, and 0 without SUBMIT_FLAG_LOGPROBS
 *   88      prefix_count       S16: <= LIMIT_PREFIX_TOKENS
 *   92      think_start_count  S17: <= LIMIT_THINK_TOKENS
 *   96      think_end_count    S17: <= LIMIT_THINK_TOKENS; not 0 with a SUBMIT_FLAG_THINKING_* flag
 *   100     thinking_budget    S17: 0 without SUBMIT_FLAG_THINKING_BUDGET
 *   104     image_bytes        S18: records and pixels; 0 without images, else at least what
 *                                   image_count records need, and <= LIMIT_REQUEST_IMAGE_BYTES
 *   112     image_count        S18: <= LIMIT_REQUEST_IMAGES
 *   116     cache_salt         any; cached prefixes and features are shared by requests of one salt
 *   132     reserved           S13: zero
 *   160     (size)
 *
 * Forced tokens. A forced token takes the place of a drawn one, whatever the logits, the sampling
 * parameters and the stop ids are. In all else it is a token like any other: sent, cached, counted
 * by penalties and max_new_tokens, with its log-probability. Which tokens are forced depends on the
 * generated tokens alone, so a replay forces the same ones.
 * - The prefix: the answer begins with the prefix ids. With SUBMIT_FLAG_THINKING_OPEN they follow
 *   the first end of thinking instead.
 * - Thinking begins after the think-start ids, wherever they are generated, and with
 *   SUBMIT_FLAG_THINKING_OPEN also at the prompt's end; it ends with the think-end ids.
 * - The budget: once thinking_budget tokens have been generated while thinking, the next tokens are
 *   the missing part of the think-end ids (all of them, unless their beginning has just been
 *   generated). A later thinking block has what is left of the budget. When nothing is left and
 *   the think-start is one token, that token cannot be drawn outside of thinking; a longer
 *   think-start can be drawn, and its block is ended at once.
 */
#ifndef SHOAL_PROTO_RUN_PARAMS_H
#define SHOAL_PROTO_RUN_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/sampling_params.h"

#define SUBMIT_FLAG_IGNORE_END      1u  /* do not stop at stop ids (benchmarks) */
#define SUBMIT_FLAG_LOGPROBS        2u  /* compute the logprob of every token (else it is 0) */
#define SUBMIT_FLAG_THINKING_OPEN   4u  /* the prompt ends inside of thinking */
#define SUBMIT_FLAG_THINKING_BUDGET 8u  /* thinking_budget applies */
#define SUBMIT_FLAG_NO_PREFIX_CACHE 16u /* neither read nor fill the prefix cache */
#define SUBMIT_FLAG_ALL             31u

struct run_params {
    uint32_t flags;
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    uint32_t max_new_tokens;
    uint32_t logit_bias_count;
    uint32_t stop_token_count;
    struct sampling_params sampling;
    uint32_t min_tokens; /* stop ids cannot be drawn before that many were generated */
    uint32_t top_logprobs;
    uint32_t prefix_count;
    uint32_t think_start_count;
    uint32_t think_end_count;
    uint32_t thinking_budget;
    uint64_t image_bytes;
    uint32_t image_count;
    uint32_t cache_salt[4]; /* a keyed hash of the API key; zeros: shared by all clients */
    uint32_t reserved[7];
};
_Static_assert(sizeof(struct run_params) == 160, "crosses shared memory: layout is fixed");

struct logit_bias_entry {
    uint32_t token;
    float bias; /* [-100, 100]; added to the logit */
};
_Static_assert(sizeof(struct logit_bias_entry) == 8, "crosses shared memory: layout is fixed");

#endif
