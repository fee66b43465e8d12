/*
 * What the files that make up plan_check.h share. A rule is named check_<stem>, returns NULL or the error
 * text, and is found by the table in plan_check.c.
 */
#ifndef SHOAL_WORKER_PLAN_PLAN_CHECK_RULES_H
#define SHOAL_WORKER_PLAN_PLAN_CHECK_RULES_H

#include <math.h>
#include <stddef.h>

#include "worker/plan/plan.h"

struct op_view {
    const struct plan *plan;
    const struct plan_op *op;
    const struct plan_tensor *x;   /* first input, or NULL */
    const struct plan_tensor *y;   /* second input, or NULL */
    const struct plan_tensor *out; /* or NULL */
    const struct plan_weight *w;   /* first weight, or NULL */
};

static inline bool slice_fits(const struct column_slice *slice, const struct plan_tensor *tensor)
{
    return slice->heads > 0 && slice->head_dim > 0 &&
           (uint64_t)slice->offset + (uint64_t)slice->heads * slice->head_dim <= tensor->columns;
}

static inline bool same_shape(const struct plan_tensor *a, const struct plan_tensor *b)
{
    return a->rows == b->rows && a->columns == b->columns;
}

static inline bool positive(float value)
{
    return isfinite(value) && value > 0.0f;
}

/* For ops whose scale may be negative. */
static inline const char *check_factor(float scale)
{
    return isfinite(scale) && scale != 0.0f ? NULL : "the scale is 0 or not finite";
}

static inline const char *check_norm(const struct op_view *v, uint32_t columns, float epsilon)
{
    if (v->w && (v->w->rows != 1 || v->w->columns != columns))
        return "the weight is not one row of the normalized columns";
    return positive(epsilon) ? NULL : "epsilon is not positive";
}

/* Of recurrent layers: plan_check_recurrent.c. */
const char *check_short_conv(const struct op_view *v);
const char *check_gated_delta(const struct op_view *v);
const char *check_ssm_scan(const struct op_view *v);
const char *check_group_norm_gate(const struct op_view *v);
const char *check_scale_parts(const struct op_view *v);
const char *check_head_norm_gate(const struct op_view *v);

/* Of features that rows attend to, of sounds and canvases: plan_check_sound.c. */
const char *check_cross_attention(const struct op_view *v);
const char *check_seeing_rows(const struct op_view *v);
const char *check_patch_table(const struct op_view *v);
const char *check_sound_rows(const struct op_view *v);
const char *check_sound_taps(const struct op_view *v);
const char *check_near_attention(const struct op_view *v);
const char *check_line_moments(const struct op_view *v);
const char *check_past_norm(const struct op_view *v);
const char *check_embed_over(const struct op_view *v);

/* Of maps: plan_check_map.c. */
const char *check_conv_2d(const struct op_view *v);
const char *check_conv_depthwise(const struct op_view *v);
const char *check_part_norm(const struct op_view *v);

#endif
