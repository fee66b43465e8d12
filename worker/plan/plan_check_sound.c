/*
 * The shape rules of ops for sounds.
 */
#include "worker/plan/plan_check_rules.h"

static const char *check_tap(const struct op_view *v, uint32_t tap, uint64_t columns)
{
    if (v->out->rows != PLAN_ROWS_PATCHES || v->plan->vision.mels == 0)
        return "it is not for rows of sounds";
    if (tap >= SOUND_TAPS)
        return "the tap does not exist";
    return v->out->columns == SOUND_TAPS * columns ? NULL : "the output is not three times as wide";
}

const char *check_sound_rows(const struct op_view *v)
{
    return check_tap(v, v->op->params.sound_rows.tap, v->plan->vision.mels);
}

const char *check_sound_taps(const struct op_view *v)
{
    if (v->x->rows != v->out->rows || v->x == v->out)
        return "the output is not another tensor of as many rows";
    return check_tap(v, v->op->params.sound_taps.tap, v->x->columns);
}
