/*
 * The parameters of a request as the frontend sets them and the worker uses them. They cross shared
 * memory inside a submit record (proto/submit_record.h). submit_record_check() checks rules S2 to
 * S19 and S21 to S24, S26.
 *
 * Byte map of struct run_params, 224 bytes. Written by the frontend.
 *
 *   offset  size  field              rule
 *   0       4     flags              S2: only SUBMIT_FLAG_* bits
 *   4       4     prompt_tokens      S7: 1..LIMIT_CONTEXT_TOKENS; generated_tokens included
 *   8       4     generated_tokens   S8: < prompt_tokens; the last of the prompt ids, generated
 *                                         before a replay
 *   12      4     max_new_tokens     S9: 1..LIMIT_CONTEXT_TOKENS; generated_tokens not included
 *   16      4     logit_bias_count   S10: <= LIMIT_LOGIT_BIAS
 *   20      4     stop_token_count   S11: <= LIMIT_STOP_TOKENS
 *   24      104   sampling           S12: sampling_params_check()
 *   128     4     min_tokens         S14: <= LIMIT_CONTEXT_TOKENS; of the whole answer, the tokens
 *                                         before a replay included; no stop id is drawn earlier
 *   132     4     top_logprobs       S15: <= LIMIT_TOP_LOGPROBS; 0 without SUBMIT_FLAG_LOGPROBS
 *   136     4     prefix_count       S16: <= LIMIT_PREFIX_TOKENS
 *   140     4     think_start_count  S17: <= LIMIT_THINK_TOKENS
 *   144     4     think_end_count    S17: <= LIMIT_THINK_TOKENS; not 0 with a
 *                                         SUBMIT_FLAG_THINKING_* flag
 *   148     4     thinking_budget    S17: 0 without SUBMIT_FLAG_THINKING_BUDGET
 *   152     8     image_bytes        S18: records and pixels; 0 without images, else at least the
 *                                         size of image_count records, <= LIMIT_REQUEST_IMAGE_BYTES
 *   160     4     image_count        S18: <= LIMIT_REQUEST_RECORDS
 *   164     16    cache_salt         any; a keyed hash of API key and adapter, or zeros. Requests of
 *                                    equal salt share cached prefixes and features
 *   180     4     grammar_bytes      S19: <= LIMIT_GRAMMAR_BLOB_BYTES; 0: the answer is free
 *   184     4     score_from         S21: 0: prompt tokens have no log-probabilities; else the first
 *                                         one that needs one, <= prompt_tokens - generated_tokens;
 *                                         0 with images
 *   188     4     score_top          S21: <= LIMIT_TOP_LOGPROBS; 0 without score_from
 *   192     4     dry_breaker_words  S22: <= LIMIT_DRY_BREAKER_WORDS; proto/dry_breakers.h
 *   196     4     adapter            S23: <= LIMIT_ADAPTERS; 0: the model without an adapter; else
 *                                         1 + its slot (proto/adapter_memory.h)
 *   200     4     separator          S24: <= LIMIT_VOCAB_TOKENS; 0: all tokens have segment 0; else
 *                                         1 + the id after whose first place the segment is 1
 *   204     20    speech             S26: proto/speech_rules.h; zero: none
 *
 * Scores. With score_from the worker reports the log-probability of each prompt token from that place
 * on, given the tokens before it, with score_top alternatives (TOKEN_EVENT_PROMPT_TOKEN). The rows
 * before these tokens are computed even if the prefix cache has them. A replay asks for those that
 * are missing.
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
 *
 * The grammar (proto/grammar_blob.h) says which tokens may be drawn. It begins with the first token
 * after the prefix; with SUBMIT_FLAG_GRAMMAR_AFTER_THINKING also after the first end of thinking,
 * if the prompt ends inside of thinking or the answer begins with think-start (which may then be
 * drawn, if it is one token and no prefix precedes it). Where it begins follows from the generated
 * tokens alone. From there on no token is forced, a stop id can be drawn only where the grammar may
 * end, and the answer ends once the grammar allows nothing but the end. SUBMIT_FLAG_IGNORE_END and
 * min_tokens bar the stop ids as long as the grammar allows another token, and no longer.
 */
#ifndef SHOAL_PROTO_RUN_PARAMS_H
#define SHOAL_PROTO_RUN_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/sampling_params.h"
#include "proto/speech_rules.h"

#define SUBMIT_FLAG_IGNORE_END      1u  /* do not stop at stop ids (benchmarks) */
#define SUBMIT_FLAG_LOGPROBS        2u  /* compute the logprob of every token (else it is 0) */
#define SUBMIT_FLAG_THINKING_OPEN   4u  /* the prompt ends inside of thinking */
#define SUBMIT_FLAG_THINKING_BUDGET 8u  /* thinking_budget applies */
#define SUBMIT_FLAG_NO_PREFIX_CACHE 16u /* neither read nor fill the prefix cache */
/* the grammar begins after thinking; without a grammar no effect */
#define SUBMIT_FLAG_GRAMMAR_AFTER_THINKING 32u
#define SUBMIT_FLAG_NO_SPECULATION         64u /* no token is drafted */
#define SUBMIT_FLAG_ALL                    127u

struct run_params {
    uint32_t flags;
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    uint32_t max_new_tokens;
    uint32_t logit_bias_count;
    uint32_t stop_token_count;
    struct sampling_params sampling;
    uint32_t min_tokens;
    uint32_t top_logprobs;
    uint32_t prefix_count;
    uint32_t think_start_count;
    uint32_t think_end_count;
    uint32_t thinking_budget;
    uint64_t image_bytes;
    uint32_t image_count;
    uint32_t cache_salt[4];
    uint32_t grammar_bytes;
    uint32_t score_from;
    uint32_t score_top;
    uint32_t dry_breaker_words;
    uint32_t adapter;
    uint32_t separator;
    struct speech_rules speech;
};
_Static_assert(sizeof(struct run_params) == 224, "crosses shared memory: layout is fixed");

/*
 * An entry of the payload section LOGIT_BIAS.
 *
 * Byte map of struct logit_bias_entry, 8 bytes. Written by the frontend.
 *
 *   offset  size  field  rule
 *   0       4     token  < vocabulary (submit_payload_check())
 *   4       4     bias   [-100, 100], added to the logit, or -INFINITY: the token is not drawn
 */
struct logit_bias_entry {
    uint32_t token;
    float bias;
};
_Static_assert(sizeof(struct logit_bias_entry) == 8, "crosses shared memory: layout is fixed");

#endif
