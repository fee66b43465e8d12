/*
 * A backend without a model, for tests of the engine: the next token is a hash of all tokens before
 * it and of everything that the sampler would look at.
 *
 * It keeps real paged memory in which every cell records the prefix it belongs to. It aborts if the
 * block tables of a row lead to a cell of another sequence: a block that is shared, was freed too
 * early, or was never written. Likewise for recurrent state: a slot holds the hash of the rows that
 * advanced it, and a row aborts if it finds the state of another sequence or position there. A place
 * of a deferred row holds its value and position, and may be read in the step after the one that wrote it.
 *
 * A step is computed either at the earliest moment that the contract allows (at launch) or at the
 * latest (when it is waited for). A scheduler that is right in both modes is right for any device.
 */
#ifndef SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H
#define SHOAL_TESTS_SUPPORT_FAKE_BACKEND_H

#include "tests/support/fake_vision.h"
#include "worker/backend/host/backend.h"

struct fake_backend_options {
    const struct kv_layout *layout; /* outlives the backend */
    uint32_t kv_blocks[KV_GROUPS_MAX];
    uint32_t state_slots; /* 0: rows have no recurrent state */
    uint32_t deferred_places;
    uint32_t vocab_tokens; /* bounds the tokens that come out */
    uint32_t step_depth;
    bool late;         /* a step is computed when it is waited for, not when it is launched */
    bool masks_follow; /* steps may await masks */
    bool counts_ahead; /* the backend adds the previous step's tokens to counts */
    const struct model_vision *vision; /* NULL: no images; the next two are for images */
    uint32_t patch_rows;
    uint32_t feature_rows;
};
/* The backend is ready without load(). */
struct backend *fake_backend_create(const struct fake_backend_options *options);

/* The prefix hash of a sequence: begin with 0 and add its tokens in order; for rows of images add
 * the value of fake_vision_row() instead of the token. */
uint64_t fake_backend_hash(uint64_t prefix, uint64_t token);
/* The token drawn after the sequence with hash `prefix`. */
struct sampled_token fake_backend_draw(uint64_t prefix, uint32_t vocab_tokens,
                                       const struct row_sampling *sampling);

struct fake_backend_totals {
    uint64_t steps;
    uint64_t rows;
    uint32_t most_rows;        /* of one step */
    uint64_t steps_ahead;      /* launched while another one was under way */
    uint64_t rows_ahead;       /* whose token was not yet read */
    uint64_t steps_awaiting;   /* launched before their masks, as the next two */
    uint64_t late_masks;       /* draws that got their mask after the launch of their step */
    uint64_t free_beside_late; /* draws without a mask in steps that awaited masks */
};
struct fake_backend_totals fake_backend_totals(const struct backend *backend);
/* All zeros for a model without vision. */
struct fake_vision_totals fake_backend_vision_totals(const struct backend *backend);
/* At each launch that awaits masks the number is noted; must() have risen when the masks come. */
void fake_backend_watch_masks(struct backend *backend, const _Atomic uint64_t *masks_computed);
/* Makes the next step_launch(), or step_wait(), return `result`. */
void fake_backend_fail_launch(struct backend *backend, enum result result);
void fake_backend_fail_wait(struct backend *backend, enum result result);

#endif
