/*
 *   scores = Wscores . x [+ bias];  the K largest are chosen
 *   out += sum over the chosen of weight * (Wdown . act(Wgate . x, Wup . x) [+ bias])
 *   out += Wdown . (silu(Wgate . x) * Wup . x) of the expert that every row uses as it is
 *
 * Where rows of images have experts of their own (ernie4_5_vl_moe), both kinds are listed, each with weights of 0 in
 * the other rows, which backends leave out. Such a kind's matrices of scores are stored transposed, and its experts follow the text's.
 *
 * An expert that every row uses by a score of its own (qwen3_5) is listed by its family.
 */
#include "worker/model/build/expert_blocks.h"

#include <stdio.h>

/* Columns that an expert reads and gives. */
static uint32_t expert_columns(const struct model_config *c)
{
    return c->experts.latent > 0 ? c->experts.latent : c->hidden;
}

struct expert_tensors expert_blocks_add_tensors(struct plan_builder *b,
                                                const struct model_config *c, enum plan_rows rows)
{
    const struct expert_config *e = &c->experts;
    struct expert_tensors tensors = {
        .scores = plan_builder_tensor(b, rows, e->count),
        .route = plan_builder_tensor(b, rows, 2 * e->chosen),
        .gate_up = plan_builder_tensor(b, rows, e->chosen * 2 * e->feed_forward),
        .gated = plan_builder_tensor(b, rows, e->chosen * e->feed_forward),
        .down = plan_builder_tensor(b, rows, e->chosen * expert_columns(c)),
    };
    if (e->latent > 0) {
        tensors.latent_in = plan_builder_tensor(b, rows, e->latent);
        tensors.latent_out = plan_builder_tensor(b, rows, e->latent);
    }
    if (e->shared > 0) {
        tensors.shared_gate_up = plan_builder_tensor(b, rows, 2 * e->shared);
        tensors.shared_gated = plan_builder_tensor(b, rows, e->shared);
    }
    if (e->image_feed_forward > 0) {
        tensors.image_gate_up = plan_builder_tensor(b, rows, e->chosen * 2 * e->image_feed_forward);
        tensors.image_gated = plan_builder_tensor(b, rows, e->chosen * e->image_feed_forward);
    }
    return tensors;
}

/* out += the expert that every row uses. */
static void list_shared(struct plan_builder *b, const struct model_config *c,
                        const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                        const struct expert_tensors *t, plan_tensor_id out)
{
    uint32_t wide = c->experts.shared;
    plan_weight_id down =
        plan_builder_matrix(b, c->hidden, wide, "blk.%u.ffn_down_shexp.weight", layer);
    if (form->ungated) {
        plan_weight_id up =
            plan_builder_matrix(b, wide, c->hidden, "blk.%u.ffn_up_shexp.weight", layer);
        plan_ops_linear(b, x, (struct linear_weights){up, PLAN_NONE, PLAN_NONE}, t->shared_gated);
        plan_ops_activate(b, t->shared_gated, form->activation_alone);
        plan_ops_linear_add(b, t->shared_gated, down, out);
        return;
    }
    struct linear_weights gate_up = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    if (plan_builder_has(b, "blk.%u.ffn_gate_up_shexp.weight", layer)) {
        gate_up.first =
            plan_builder_matrix(b, 2 * wide, c->hidden, "blk.%u.ffn_gate_up_shexp.weight", layer);
    } else {
        gate_up.first =
            plan_builder_matrix(b, wide, c->hidden, "blk.%u.ffn_gate_shexp.weight", layer);
        gate_up.second =
            plan_builder_matrix(b, wide, c->hidden, "blk.%u.ffn_up_shexp.weight", layer);
    }
    plan_ops_linear(b, x, gate_up, t->shared_gate_up);
    plan_ops_gate(b, t->shared_gate_up, GATE_SILU, t->shared_gated);
    plan_ops_linear_add(b, t->shared_gated, down, out);
}

/* A stack [experts, rows, columns] of a layer, as the checkpoint stores its matrices. */
static plan_weight_id stack(struct plan_builder *b, const struct model_config *c, uint32_t rows,
                            uint32_t columns, const char *stem, uint32_t layer)
{
    if (c->experts.turned)
        return plan_builder_turned_experts(b, c->experts.count, rows, columns, "blk.%u.%s.weight",
                                           layer, stem);
    return plan_builder_experts(b, c->experts.count, rows, columns, "blk.%u.%s.weight", layer,
                                stem);
}

static struct linear_weights gate_up_stacks(struct plan_builder *b, const struct model_config *c,
                                            uint32_t layer)
{
    uint32_t wide = c->experts.feed_forward;
    if (plan_builder_has(b, "blk.%u.ffn_gate_up_exps.weight", layer))
        return (struct linear_weights){stack(b, c, 2 * wide, c->hidden, "ffn_gate_up_exps", layer),
                                       PLAN_NONE, PLAN_NONE};
    return (struct linear_weights){
        stack(b, c, wide, c->hidden, "ffn_gate_exps", layer),
        stack(b, c, wide, c->hidden, "ffn_up_exps", layer),
        PLAN_NONE,
    };
}

static struct linear_weights gate_up_biases(struct plan_builder *b, const struct model_config *c,
                                            uint32_t layer)
{
    uint32_t count = c->experts.count, wide = c->experts.feed_forward;
    if (plan_builder_has(b, "blk.%u.ffn_gate_up_exps.bias", layer))
        return (struct linear_weights){
            plan_builder_matrix(b, count, 2 * wide, "blk.%u.ffn_gate_up_exps.bias", layer),
            PLAN_NONE, PLAN_NONE};
    return (struct linear_weights){
        plan_builder_matrix(b, count, wide, "blk.%u.ffn_gate_exps.bias", layer),
        plan_builder_matrix(b, count, wide, "blk.%u.ffn_up_exps.bias", layer),
        PLAN_NONE,
    };
}

/* t->gated = activation(Wup . x) of the chosen experts. */
static void list_ungated(struct plan_builder *b, const struct model_config *c,
                         const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                         const struct expert_tensors *t)
{
    plan_weight_id up =
        stack(b, c, c->experts.feed_forward, expert_columns(c), "ffn_up_exps", layer);
    plan_ops_moe_linear(b, x, t->route, (struct linear_weights){up, PLAN_NONE, PLAN_NONE},
                        t->gated);
    plan_ops_activate(b, t->gated, form->activation_alone);
}

void expert_blocks_list_scored(struct plan_builder *b, const struct model_config *c,
                               const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                               const struct expert_tensors *t, plan_weight_id scales, bool add,
                               plan_tensor_id out)
{
    const struct linear_weights none = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    const struct expert_config *e = &c->experts;
    plan_weight_id down = stack(b, c, expert_columns(c), e->feed_forward, "ffn_down_exps", layer);
    plan_weight_id down_bias = PLAN_NONE;
    if (form->biases)
        down_bias = plan_builder_matrix(b, e->count, c->hidden, "blk.%u.ffn_down_exps.bias", layer);
    plan_ops_moe_route(b, t->scores, form->softmax_chosen, scales, t->route);
    if (form->ungated) {
        list_ungated(b, c, form, layer, x, t);
    } else {
        struct moe_gate_params gate = form->gate;
        struct linear_weights gate_up = gate_up_stacks(b, c, layer);
        plan_ops_moe_linear(b, x, t->route, gate_up, t->gate_up);
        gate.interleaved = form->gate.interleaved && gate_up.second == PLAN_NONE;
        plan_ops_moe_gate(b, t->gate_up, t->route,
                          form->biases ? gate_up_biases(b, c, layer) : none, gate, t->gated);
    }
    plan_ops_moe_linear(b, t->gated, t->route, (struct linear_weights){down, PLAN_NONE, PLAN_NONE},
                        t->down);
    plan_ops_moe_combine(b, t->down, t->route, down_bias, add, out);
}

/* out += Wup . experts(Wdown . x), the scores being those of x. */
static void list_latent(struct plan_builder *b, const struct model_config *c,
                        const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                        const struct expert_tensors *t, plan_weight_id choice, plan_tensor_id out)
{
    uint32_t latent = c->experts.latent;
    plan_weight_id down =
        plan_builder_matrix(b, latent, c->hidden, "blk.%u.ffn_latent_down.weight", layer);
    plan_weight_id up =
        plan_builder_matrix(b, c->hidden, latent, "blk.%u.ffn_latent_up.weight", layer);
    plan_ops_linear(b, x, (struct linear_weights){down, PLAN_NONE, PLAN_NONE}, t->latent_in);
    expert_blocks_list_scored(b, c, form, layer, t->latent_in, t, choice, false, t->latent_out);
    plan_ops_linear_add(b, t->latent_out, up, out);
}

/* out += the experts of rows of text, or of images. */
static void list_kind(struct plan_builder *b, const struct model_config *c, enum expert_rows rows,
                      uint32_t layer, plan_tensor_id x, const struct expert_tensors *t,
                      plan_tensor_id out)
{
    const struct linear_weights none = {PLAN_NONE, PLAN_NONE, PLAN_NONE};
    const struct expert_config *e = &c->experts;
    bool image = rows == EXPERTS_OF_IMAGES;
    const struct expert_range range = {.first = image ? e->count : 0, .count = e->count};
    uint32_t wide = image ? e->image_feed_forward : e->feed_forward;
    plan_tensor_id gate_up = image ? t->image_gate_up : t->gate_up;
    plan_tensor_id gated = image ? t->image_gated : t->gated;
    char scores[STORED_NAME_BYTES], bias[STORED_NAME_BYTES];
    snprintf(scores, sizeof scores, "blk.%u.ffn_%sgate_inp.weight", layer, image ? "image_" : "");
    snprintf(bias, sizeof bias, "blk.%u.exp_probs_b.bias", layer);
    plan_ops_linear(b, x,
                    (struct linear_weights){plan_builder_transposed(b, e->count, c->hidden, scores),
                                            PLAN_NONE, PLAN_NONE},
                    t->scores);
    plan_ops_moe_route_of(b, t->scores, rows,
                          plan_builder_part(b, 2, image ? 1 : 0, 1, e->count, bias), t->route);
    plan_ops_moe_linear(
        b, x, t->route,
        (struct linear_weights){plan_builder_expert_range(b, range, wide, c->hidden,
                                                          "blk.%u.ffn_gate_exps.weight", layer),
                                plan_builder_expert_range(b, range, wide, c->hidden,
                                                          "blk.%u.ffn_up_exps.weight", layer),
                                PLAN_NONE},
        gate_up);
    plan_ops_moe_gate(b, gate_up, t->route, none, (struct moe_gate_params){.activation = GATE_SILU},
                      gated);
    plan_ops_moe_linear(
        b, gated, t->route,
        (struct linear_weights){plan_builder_expert_range(b, range, c->hidden, wide,
                                                          "blk.%u.ffn_down_exps.weight", layer),
                                PLAN_NONE, PLAN_NONE},
        t->down);
    plan_ops_moe_combine(b, t->down, t->route, PLAN_NONE, true, out);
}

void expert_blocks_list(struct plan_builder *b, const struct model_config *c,
                        const struct expert_form *form, uint32_t layer, plan_tensor_id x,
                        const struct expert_tensors *t, plan_tensor_id out)
{
    uint32_t count = c->experts.count;
    if (c->experts.image_feed_forward > 0) {
        list_kind(b, c, EXPERTS_OF_TEXT, layer, x, t, out);
        list_kind(b, c, EXPERTS_OF_IMAGES, layer, x, t, out);
        if (c->experts.shared > 0)
            list_shared(b, c, form, layer, x, t, out);
        return;
    }
    plan_weight_id scores =
        plan_builder_matrix(b, count, c->hidden, "blk.%u.ffn_gate_inp.weight", layer);
    plan_ops_linear(b, x, (struct linear_weights){scores, PLAN_NONE, PLAN_NONE}, t->scores);
    if (form->biases) {
        plan_weight_id bias = plan_builder_vector(b, count, "blk.%u.ffn_gate_inp.bias", layer);
        plan_ops_bias_add(b, t->scores, (struct linear_weights){bias, PLAN_NONE, PLAN_NONE});
    }
    plan_weight_id choice = PLAN_NONE;
    if (c->experts.choice_bias)
        choice = plan_builder_vector(b, count, "blk.%u.exp_probs_b.bias", layer);
    if (c->experts.latent > 0)
        list_latent(b, c, form, layer, x, t, choice, out);
    else
        expert_blocks_list_scored(b, c, form, layer, x, t, choice, true, out);
    if (c->experts.shared > 0)
        list_shared(b, c, form, layer, x, t, out);
}
