/*
 * The kinds of rotary embeddings: from what a checkpoint states, whichever format, to inverse
 * frequencies and a magnitude (struct rope_config). Formulas: Hugging Face transformers,
 * modeling_rope_utils.py, whose names the kinds have.
 *
 * Transformers changes the table of `longrope` and `dynamic` while a sequence grows. Here a model
 * has one table, because what was computed for a row may depend neither on what came after it nor
 * on who else is served. It is the table for the longest sequence that the context allows.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_ROPE_SCALING_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_ROPE_SCALING_H

#include <stdbool.h>

#include "worker/plan/model_config.h"

enum rope_kind {
    ROPE_KIND_PLAIN,
    ROPE_KIND_LINEAR,
    ROPE_KIND_LLAMA3,
    ROPE_KIND_YARN,
    ROPE_KIND_LONGROPE,
    ROPE_KIND_DYNAMIC,
    ROPE_KIND_PROPORTIONAL
};

/* Fields that no kind is named for are everybody's. */
struct rope_scaling {
    enum rope_kind kind;
    float base;
    uint32_t dims;               /* even, at least 2 (dynamic: 4), at most ROPE_DIMS_MAX */
    uint32_t context_tokens;     /* of the model, scaling included */
    uint32_t original_tokens;    /* llama3, yarn, longrope, dynamic: context before scaling */
    float factor;                /* all but plain; above 0 */
    float magnitude;             /* 0: what the kind has for its other fields */
    float low_frequency_factor;  /* llama3 */
    float high_frequency_factor; /* llama3; above the low one */
    float beta_fast, beta_slow;  /* yarn */
    float mscale, mscale_all;    /* yarn; where one of them is 0, both are as good as absent */
    bool fractional_bounds;      /* yarn: the ramp begins and ends between dimensions */
    uint32_t rotated_pairs;      /* proportional: the pairs behind them keep still */
    float divisors[ROPE_DIMS_MAX / 2]; /* longrope [dims / 2], of rope_scaling_is_long() */
};

/* Sets dims, magnitude and inverse frequencies; the pairing is not its business. */
void rope_scaling_apply(const struct rope_scaling *scaling, struct rope_config *rope);

/* Which of a longrope's two lists of divisors the context calls for. */
bool rope_scaling_is_long(const struct rope_scaling *scaling);

#endif
