/*
 * What the frontend says to a worker through the submit ring: "run this", "cancel it", "drain",
 * "forget your cached prefixes".
 * Every field is written by the frontend and read by the worker.
 *
 *   offset field                rule
 *   0      kind                 S1: a value of enum submit_kind
 *   4      flags                S2: only SUBMIT_FLAG_* bits
 *   8      request              S3: slot < LIMIT_LIVE_REQUESTS
 *   16     payload_offset       S4: offset + payload_bytes lies in the slab, 64-byte aligned
 *   24     payload_bytes        S5: exactly what the counts below need
 *   32     payload_generation   S6: equals the slab chunk's generation word when read
 *   36     prompt_tokens        S7: 1..LIMIT_CONTEXT_TOKENS; ids that follow in the payload
 *   40     generated_tokens     S8: < prompt_tokens; how many of the last were generated (replay)
 *   44     max_new_tokens       S9: 1..LIMIT_CONTEXT_TOKENS; not counting generated_tokens
 *   48     logit_bias_count     S10: <= LIMIT_LOGIT_BIAS
 *   52     stop_token_count     S11: <= LIMIT_STOP_TOKENS
 *   56     sampling             S12: sampling_params_check()
 *   112    min_tokens           S14: <= LIMIT_CONTEXT_TOKENS; of the whole answer, that before a
 *                                    replay included
 *   116    top_logprobs         S15: <= LIMIT_TOP_LOGPROBS, and 0 without SUBMIT_FLAG_LOGPROBS
 *   120    prefix_count         S16: <= LIMIT_PREFIX_TOKENS
 *   124    think_start_count    S17: <= LIMIT_THINK_TOKENS
 *   128    think_end_count      S17: likewise; not 0 with a SUBMIT_FLAG_THINKING_* flag
 *   132    thinking_budget      S17: 0 without SUBMIT_FLAG_THINKING_BUDGET
 *   136    image_bytes          S18: records and pixels; 0 without images, else at least what
 *                                    image_count records need, and <= LIMIT_REQUEST_IMAGE_BYTES
 *   144    image_count          S18: <= LIMIT_REQUEST_IMAGES
 *   148    cache_salt           any; prefixes and features are shared among requests of one salt
 * only 164    reserved             S13: zero
 *
 * Payload (little-endian, in the slab, private to this request until the worker gives it back with
 * TOKEN_EVENT_PAYLOAD_DONE): u32 prompt_ids[prompt_tokens], u32 stop_ids[stop_token_count],
 * struct logit_bias_entry[logit_bias_count], u32 prefix_ids[prefix_count],
 * u32 think_start_ids[think_start_count], u32 think_end_ids[think_end_count]. With images, from
 * the next multiple of 64 on: struct image_record[image_count] and their pixels
 * (proto/image_record.h), image_bytes in all.
 *
 * Forced tokens. A forced token stands where a drawn one would, whatever the logits, the parameters
 * and the stop ids say, and is in all else a token like any other: told, cached, counted by
 * penalties and max_new_tokens, with its log-probability. Which are forced depends on the generated
 * tokens alone, so a replay forces the same ones.
 * - The prefix: the answer begins with prefix_ids. With SUBMIT_FLAG_THINKING_OPEN it begins behind
 *   the first end of thinking instead.
 * - Thinking begins behind think_start_ids, wherever they are generated, and with
 *   SUBMIT_FLAG_THINKING_OPEN also at the prompt's end; it ends with think_end_ids.
 * - The budget: when thinking_budget tokens have been generated while thinking, the next ones are
 *   what is missing of think_end_ids (all of it, unless its beginning has just been generated).
 *   Thinking that begins again goes on with what is left of the budget. When nothing is left and
 *   think_start_ids is one token, that token cannot be drawn outside of thinking; a longer one can,
 *   and is ended at once.
 */
#ifndef SHOAL_PROTO_SUBMIT_RECORD_H
#define SHOAL_PROTO_SUBMIT_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/image_record.h"
#include "proto/limits.h"
#include "proto/result.h"
#include "proto/sampling_params.h"

/* A request as both processes name it: a slot of the frontend's table and that slot's generation.
 * Never a pointer. */
struct request_id {
    uint32_t slot;
    uint32_t generation;
};

enum submit_kind {
    SUBMIT_RUN = 1,
    SUBMIT_CANCEL = 2, /* only kind and request count; an unknown request has just ended */
    SUBMIT_DRAIN = 3,  /* finish what is running, then exit with status 0 */
    SUBMIT_RESET = 4   /* forget cached prefixes and features; what runs goes on */
};

#define SUBMIT_FLAG_IGNORE_END      1u  /* do not stop at stop ids (benchmarks) */
#define SUBMIT_FLAG_LOGPROBS        2u  /* compute the logprob of every token (else it is 0) */
#define SUBMIT_FLAG_THINKING_OPEN   4u  /* the prompt ends inside of thinking */
#define SUBMIT_FLAG_THINKING_BUDGET 8u  /* thinking_budget counts */
#define SUBMIT_FLAG_NO_PREFIX_CACHE 16u /* take no cached prefix, and leave none behind */
#define SUBMIT_FLAG_ALL             31u

struct logit_bias_entry {
    uint32_t token;
    float bias; /* [-100, 100]; added to the logit */
};

struct submit_record {
    uint32_t kind;
    uint32_t flags;
    struct request_id request;
    uint64_t payload_offset;
    uint64_t payload_bytes;
    uint32_t payload_generation;
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
    uint32_t cache_salt[4]; /* a keyed hash of whose request it is; zeros: nobody's in particular */
    uint32_t reserved[7];
};
_Static_assert(sizeof(struct submit_record) == 192, "ring slot is 192 bytes");
_Static_assert(offsetof(struct submit_record, sampling) == 56, "byte map");
_Static_assert(offsetof(struct submit_record, min_tokens) == 112, "byte map");
_Static_assert(offsetof(struct submit_record, image_bytes) == 136, "byte map");
_Static_assert(offsetof(struct submit_record, cache_salt) == 148, "byte map");

/* Payload bytes that the counts of `record` need. */
uint64_t submit_record_payload_bytes(const struct submit_record *record);
/* Where in the payload its image part begins: a multiple of 64. */
uint64_t submit_record_image_offset(const struct submit_record *record);

/*
 * Rules S1-S18 against a slab of `slab_bytes`; RESULT_CORRUPT, and the words begin with the rule's
 * name. Pure: looks only at the (already copied-out) record. S6 is payload_view()'s to check, and
 * the token ids inside the payload are the worker's, against its vocabulary, while it copies them;
 * image records are image_record_check()'s.
 */
enum result submit_record_check(const struct submit_record *record, uint64_t slab_bytes,
                                struct error_text *error) RESULT_CHECKED;

#endif
