/*
 * A frontend for tests: submits requests through real rings and slab, collects events, and checks
 * the contract of every event (valid fields, order, contiguous indices, one payload freed, nothing
 * after the end). Aborts if an event breaks it.
 */
#ifndef SHOAL_TESTS_SUPPORT_TEST_FRONTEND_H
#define SHOAL_TESTS_SUPPORT_TEST_FRONTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/payload_slab.h"
#include "tests/support/process_pair.h"

struct test_request {
    const uint32_t *prompt; /* [prompt_tokens] */
    uint32_t prompt_tokens;
    uint32_t generated_tokens;
    uint32_t max_new_tokens;
    uint32_t flags;
    struct sampling_params sampling;
    const uint32_t *stop_ids;
    uint32_t stop_token_count;
    const struct logit_bias_entry *logit_bias;
    uint32_t logit_bias_count;
    uint32_t min_tokens;
    uint32_t top_logprobs;
    const uint32_t *forced_ids; /* prefix, start and end of thinking behind each other */
    uint32_t prefix_count;
    uint32_t think_start_count;
    uint32_t think_end_count;
    uint32_t thinking_budget;
    const void *grammar; /* [grammar_bytes] proto/grammar_blob.h */
    uint32_t grammar_bytes;
    const uint8_t *image_part; /* [image_bytes] records and pixels (proto/image_record.h) */
    uint64_t image_bytes;
    uint32_t image_count;
    uint32_t cache_salt;
    uint32_t score_from; /* prompt tokens from here on are scored; 0: none */
    uint32_t score_top;
};

/* A request with default sampling; `prompt` stays the caller's. */
struct test_request test_request_of(const uint32_t *prompt, uint32_t prompt_tokens,
                                    uint32_t max_new_tokens);

/* The reply to one request. */
struct test_reply {
    bool live; /* submitted, and its last event not seen */
    struct request_id id;
    uint32_t first_index; /* generated_tokens of the request */
    uint32_t top_logprobs;
    uint32_t *tokens;                   /* [token_count] */
    float *logprobs;                    /* [token_count] */
    struct token_logprob *alternatives; /* [token_count, LIMIT_TOP_LOGPROBS] */
    uint32_t *alternative_counts;       /* [token_count], and one more: of the next token */
    uint32_t token_count;
    uint32_t token_capacity;
    uint32_t score_from; /* of the request; likewise score_top */
    uint32_t score_top;
    uint32_t score_end;   /* place of the first token that is not of the prompt */
    uint32_t score_count; /* prompt tokens scored so far */
    float *scores;        /* [score_count]; owned */
    uint32_t prompt_done;
    uint32_t prompt_total;
    uint32_t cached_tokens; /* as its first token says */
    uint32_t cached_images; /* as the last token said */
    uint32_t drafted;       /* tokens drafted for the last step that drafted any, */
    uint32_t accepted;      /* and how many of them came */
    bool payload_done;
    enum finish_reason finish; /* FINISH_NONE when it failed */
    enum result failure;
};

struct test_frontend {
    struct process_pair pair;
    struct payload_slab *slab;
    uint32_t vocab_tokens;
    uint32_t live_count;
    uint64_t event_count;
    uint64_t draft_tokens;                            /* of all replies */
    uint64_t accepted_drafts[LIMIT_DRAFT_TOKENS + 1]; /* by draft_position */
    struct test_reply replies[LIMIT_LIVE_REQUESTS];   /* by slot */
};

struct test_frontend_sizes {
    uint32_t submit_capacity;
    uint32_t event_capacity;
    uint64_t slab_bytes;
    uint32_t vocab_tokens;
};
struct test_frontend *test_frontend_create(const struct test_frontend_sizes *sizes);
void test_frontend_destroy(struct test_frontend *frontend);

/* Returns false if the ring or the slab has no room. The slot must not be live; its previous reply is
 * cleared and its generation incremented. */
bool test_frontend_submit(struct test_frontend *frontend, uint32_t slot,
                          const struct test_request *request);
/* Submits records unchanged; aborts if the ring is full. */
void test_frontend_send(struct test_frontend *frontend, const struct submit_record *record);
/* Submits a vocabulary of that payload (proto/token_table.h). */
void test_frontend_send_vocabulary(struct test_frontend *frontend,
                                   const struct token_table_sizes *sizes, const void *payload);
/* One where token t is the byte t; token 0, which has no bytes, ends the text. */
void test_frontend_send_bytes(struct test_frontend *frontend);
void test_frontend_cancel(struct test_frontend *frontend, uint32_t slot);
void test_frontend_drain(struct test_frontend *frontend);
void test_frontend_reset_cache(struct test_frontend *frontend);

/* Takes all available events; returns their number. */
uint32_t test_frontend_collect(struct test_frontend *frontend);
/* Collects until no request is live, sleeping on the doorbell. Aborts after patience_ms. */
void test_frontend_finish(struct test_frontend *frontend, int patience_ms);

#endif
