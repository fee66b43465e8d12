/*
 * The convolutions are products of unfolded rows, one for each of the three that the second one joins.
 *
 * Source: transformers, modeling_whisper.py, WhisperEncoder.
 */
#include "worker/model/build/sound_blocks.h"

#include "worker/model/build/tower_blocks.h"

static struct linear_weights one(plan_weight_id weight)
{
    return (struct linear_weights){weight, PLAN_NONE, PLAN_NONE};
}

/* out = gelu(the kernel over `x`'s three rows) */
static void list_kernel(struct plan_builder *b, plan_tensor_id x, plan_weight_id kernel,
                        plan_weight_id bias, plan_tensor_id out)
{
    plan_ops_linear(b, x, one(kernel), out);
    plan_ops_bias_add(b, out, one(bias));
    plan_ops_activate(b, out, ACTIVATION_GELU_ERF);
}

static void list_convolutions(struct plan_builder *b, const struct vision_config *c,
                              const struct tower_tensors *t)
{
    uint32_t hidden = c->tower.hidden, mels = c->vision.mels;
    plan_tensor_id joined = plan_builder_tensor(b, PLAN_ROWS_PATCHES, SOUND_TAPS * hidden);
    plan_weight_id kernels[] = {
        plan_builder_flat(b, hidden, SOUND_TAPS * mels, "a.conv1d.1.weight"),
        plan_builder_flat(b, hidden, SOUND_TAPS * hidden, "a.conv1d.2.weight")};
    plan_weight_id biases[] = {plan_builder_vector(b, hidden, "a.conv1d.1.bias"),
                               plan_builder_vector(b, hidden, "a.conv1d.2.bias")};
    for (uint32_t tap = 0; tap < SOUND_TAPS; tap++) {
        plan_ops_sound_rows(b, tap, t->pixels);
        if (tap == 0)
            plan_builder_end_stage(b);
        list_kernel(b, t->pixels, kernels[0], biases[0], t->normed);
        plan_ops_sound_taps(b, t->normed, tap, joined);
    }
    plan_builder_end_stage(b);
    list_kernel(b, joined, kernels[1], biases[1], t->residual);
}

plan_tensor_id sound_blocks_list(struct plan_builder *b, const struct vision_config *c,
                                 plan_weight_id table)
{
    const struct tower_form form = {.no_k_bias = true, .activation = ACTIVATION_GELU_ERF};
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    list_convolutions(b, c, &t);
    plan_ops_patch_positions(b, t.residual, table, PLAN_NONE,
                             (struct patch_positions_params){POSITIONS_LINE, c->table_side, false});
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        plan_builder_end_stage(b);
    }
    return t.residual;
}
