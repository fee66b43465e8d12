/*
 * The tower of Qwen3-VL and Qwen3.5: Qwen2-VL's, with a learned position table that is interpolated
 * to each image's size in addition to the rope, and with further mergers after some layers, whose
 * outputs the text model adds to its first layers (deepstack; Qwen3.5 has none). The further
 * mergers norm the joined rows, the last merger joins normed rows:
 *
 *   feature = W2 . gelu(W1 . join(norm(x)) + bias) + bias;   part k = the same of norm_k(join(x))
 *
 * Stages: those of the layers, each merger in its layer's last stage, and the features.
 */
#include <stdio.h>

#include "worker/model/build/tower_blocks.h"
#include "worker/model/checkpoint/family_list.h"

struct merger_tensors {
    plan_tensor_id square;  /* [features, joined] */
    plan_tensor_id wide;    /* [features, joined] */
    plan_tensor_id feature; /* [features, text_hidden] */
};

static uint32_t square_of(const struct vision_config *c)
{
    return c->vision.merge_side * c->vision.merge_side;
}

/* Computes the feature from the square, by the two matrices of `name`. */
static void list_matrices(struct plan_builder *b, const struct vision_config *c, const char *name,
                          uint32_t part, const struct merger_tensors *m)
{
    uint32_t joined = square_of(c) * c->tower.hidden;
    char first[STORED_NAME_BYTES], second[STORED_NAME_BYTES];
    snprintf(first, sizeof first, "%s.fc1", name);
    snprintf(second, sizeof second, "%s.fc2", name);
    tower_blocks_linear(b, m->square, &(const struct tower_linear){first, joined, joined, true},
                        m->wide);
    plan_ops_activate(b, m->wide, ACTIVATION_GELU_ERF);
    tower_blocks_linear(b, m->wide,
                        &(const struct tower_linear){second, c->vision.text_hidden, joined, true},
                        m->feature);
    plan_ops_feature_write(b, m->feature, part);
}

static void list_deepstack(struct plan_builder *b, const struct vision_config *c, uint32_t number,
                           const struct tower_tensors *t, const struct merger_tensors *m)
{
    char name[STORED_NAME_BYTES], norm[STORED_NAME_BYTES + 8];
    snprintf(name, sizeof name, "v.deepstack.%u",
             c->deepstack_by_layer ? c->deepstack[number] : number);
    snprintf(norm, sizeof norm, "%s.norm", name);
    plan_ops_join_rows(b, t->residual, square_of(c), m->square);
    tower_blocks_norm(b, false, m->square, square_of(c) * c->tower.hidden, norm, m->square);
    list_matrices(b, c, name, number + 1, m);
}

void tower_qwen3_vl_list_ops(struct plan_builder *b, const struct vision_config *c)
{
    static const struct tower_form form = {
        .joined_qkv = true, .rotates = true, .activation = ACTIVATION_GELU_TANH};
    uint32_t joined = square_of(c) * c->tower.hidden;
    struct tower_tensors t = tower_blocks_add_tensors(b, c, &form);
    const struct merger_tensors m = {
        .square = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined),
        .wide = plan_builder_tensor(b, PLAN_ROWS_FEATURES, joined),
        .feature = plan_builder_tensor(b, PLAN_ROWS_FEATURES, c->vision.text_hidden),
    };
    tower_blocks_list_patches(b, c, &(const struct tower_patches){.bias = true, .gain = 1.0f}, &t);
    tower_blocks_positions(b, c, POSITIONS_LINEAR, &t);
    for (uint32_t layer = 0; layer < c->layers; layer++) {
        tower_blocks_list_layer(b, c, &form, layer, &t);
        for (uint32_t k = 0; k < c->vision.deepstack_layers; k++)
            if (c->deepstack[k] == layer)
                list_deepstack(b, c, k, &t, &m);
        plan_builder_end_stage(b);
    }
    tower_blocks_norm(b, false, t.residual, c->tower.hidden, "mm.norm", t.normed);
    plan_ops_join_rows(b, t.normed, square_of(c), m.square);
    list_matrices(b, c, "mm", 0, &m);
    plan_builder_end_stage(b);
}
