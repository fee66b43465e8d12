/*
 * A backend without a model, for tests of the engine: the next token is a hash of all tokens before
 * it and of everything that the sampler would look at.
 *
 * It keeps real paged memory in which every cell says which prefix it belongs to, and aborts when a
 * row's block tables lead it to a cell that is not exactly its own sequence's: a block shared,
 * given back too early, or never written. Recurrent state it keeps likewise: a slot's is the hash
 * of the rows that moved it on, and a row that finds another sequence's there, or its own at
 * another position, aborts. It computes a step at the earliest moment that its contract allows,
 * when the step is launched, or at the latest, when it is waited for; what is right in both is
 * right whenever a device gets to it.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H
#define SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H

#include "tests/support/fake_vision.h"
#include "worker/backend/host/backend.h"

struct fake_backend_options {
    const struct kv_layout *layout; /* outlives the backend */
    uint32_t kv_blocks[KV_GROUPS_MAX];
    uint32_t state_slots;  /* 0: rows have no recurrent state */
    uint32_t vocab_tokens; /* bounds the tokens that come out */
    uint32_t step_depth;
    bool late;         /* a step is computed when it is waited for, not when it is launched */
    bool counts_ahead; /* counts get the tokens that the step before drew */
    const struct model_vision *vision; /* NULL: no pictures; the next two are of them */
    uint32_t patch_rows;
    uint32_t feature_rows;
};
/* Needs no load(). */
struct backend *fake_backend_create(const struct fake_backend_options *options);

/* The prefix hash of a sequence: begin with 0 and add its tokens in order; for rows that are not
 * text, what fake_vision_row() makes of them. */
uint64_t fake_backend_hash(uint64_t prefix, uint64_t token);
/* What is drawn after the sequence `prefix`. */
struct sampled_token fake_backend_draw(uint64_t prefix, uint32_t vocab_tokens,
                                       const struct row_sampling *sampling);

struct fake_backend_totals {
    uint64_t steps;
    uint64_t rows;
    uint32_t most_rows;   /* of one step */
    uint64_t steps_ahead; /* launched while another one was under way */
    uint64_t rows_ahead;  /* whose token was not yet read */
};
struct fake_backend_totals fake_backend_totals(const struct backend *backend);
/* Zeros without pictures. */
struct fake_vision_totals fake_backend_vision_totals(const struct backend *backend);
/* The next step_launch(), or step_wait(), returns `result`. */
void fake_backend_fail_launch(struct backend *backend, enum result result);
void fake_backend_fail_wait(struct backend *backend, enum result result);

#endif
