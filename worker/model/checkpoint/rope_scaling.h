/*
 * Computes inverse frequencies and a magnitude (struct rope_config) from the rotary settings that a
 * checkpoint states in either format. Formulas and names of the kinds: Hugging Face transformers,
 * modeling_rope_utils.py.
 *
 * Transformers changes the table of `longrope` and `dynamic` while a sequence grows. Here a model
 * has one table, the one for the longest sequence that the context allows, because the values
 * computed for a row must not depend on later rows or on other requests.
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

/* A field's comment names the kinds that use it; fields without kinds are used by all. */
struct rope_scaling {
    enum rope_kind kind;
    float base;
    uint32_t dims;                     /* even, at least 2 (dynamic: 4), at most ROPE_DIMS_MAX */
    uint32_t context_tokens;           /* of the model, scaling included */
    uint32_t original_tokens;          /* llama3, yarn, longrope, dynamic: context before scaling */
    float factor;                      /* all but plain; above 0 */
    float magnitude;                   /* 0: the kind's own, computed from its other fields */
    float low_frequency_factor;        /* llama3 */
    float high_frequency_factor;       /* llama3; above the low one */
    float beta_fast, beta_slow;        /* yarn */
    float mscale, mscale_all;          /* yarn; if one is 0, both are ignored */
    bool fractional_bounds;            /* yarn: do not round the ramp's ends to whole dimensions */
    uint32_t rotated_pairs;            /* proportional: later pairs do not rotate */
    float divisors[ROPE_DIMS_MAX / 2]; /* longrope [dims / 2], of rope_scaling_is_long() */
};

/* Sets dims, magnitude and inverse frequencies; leaves the pairing as it is. */
void rope_scaling_apply(const struct rope_scaling *scaling, struct rope_config *rope);

/* Assigns the three axes to pairs: a section of the pairs for each, or in turn, where pairs after an
 * axis' last turn rotate by time. */
void rope_scaling_assign_axes(const uint32_t sections[3], bool in_turn, struct rope_config *rope);

/* Whether the context calls for longrope's long list of divisors. */
bool rope_scaling_is_long(const struct rope_scaling *scaling);

#endif
