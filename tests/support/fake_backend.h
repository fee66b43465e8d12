/*
 * A backend without a model, for tests of the engine: the next token is a hash of all tokens before
 * it and of everything that the sampler would look at.
 *
 * It keeps real paged memory in which every cell says which prefix it belongs to, and aborts when a
 * row's block tables lead it to a cell that is not exactly its own sequence's: a block shared,
 * given back too early, or never written.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H
#define SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H

#include "worker/backend/backend.h"

/* `vocab_tokens` bounds the tokens that come out. Needs no load(). */
struct backend *fake_backend_create(const struct kv_layout *layout,
                                    const uint32_t kv_blocks[KV_GROUPS_MAX], uint32_t vocab_tokens);

/* The prefix hash of a sequence: begin with 0 and add its tokens in order. */
uint64_t fake_backend_hash(uint64_t prefix, uint32_t token);
/* What is drawn after the sequence `prefix`. */
struct sampled_token fake_backend_draw(uint64_t prefix, uint32_t vocab_tokens,
                                       const struct row_sampling *sampling);

struct fake_backend_totals {
    uint64_t steps;
    uint64_t rows;
    uint32_t most_rows; /* of one step */
};
struct fake_backend_totals fake_backend_totals(const struct backend *backend);
/* The next step_run() returns `result`. */
void fake_backend_fail_next(struct backend *backend, enum result result);

#endif
