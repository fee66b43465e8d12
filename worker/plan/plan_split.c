/*
 * Where a plan may be cut follows from its ops alone; families need not mark their layers.
 *
 * Ops that keep something between steps (keys and values, recurrent state) name their layer, and all
 * ops of one layer must be in one part. Between the last such op of some layers and the first one of
 * the layers after them a cut is best where the fewest columns live: the residual alone. Of equal
 * places the last one is chosen, which is after a layer's second half and not between its halves.
 *
 * The search takes time in proportion to ops times tensors, both bounded by the builder.
 */
#include "worker/plan/plan_split.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

/* The layer whose KV cache or recurrent state the op uses, or LIMIT_LAYERS. */
static uint32_t stateful_layer(const struct plan_op *op)
{
    switch (op->stem) {
    case OP_kv_write: return op->params.kv_write.layer;
    case OP_attention: return op->params.attention.layer;
    case OP_short_conv: return op->params.short_conv.layer;
    case OP_gated_delta: return op->params.gated_delta.layer;
    case OP_ssm_scan: return op->params.ssm_scan.layer;
    default: return LIMIT_LAYERS;
    }
}

/* One such op for each layer. */
static bool begins_layer(const struct plan *plan, const struct plan_op *op)
{
    return op->stem == OP_attention ||
           (op->stem == OP_short_conv &&
            !layer_kind_attends(plan->config.layer[op->params.short_conv.layer].kind));
}

static bool uses_features(const struct plan_op *op)
{
    return op->stem == OP_feature_add || op->stem == OP_cross_attention ||
           op->stem == OP_seeing_rows ||
           (op->stem == OP_embed_rows && op->params.embed_rows.features);
}

static bool reads(const struct plan_op *op, plan_tensor_id tensor)
{
    for (uint32_t i = 0; i < OP_INPUTS_MAX; i++)
        if (op->inputs[i] == tensor)
            return true;
    return op->output == tensor && plan_op_keeps_output(op);
}

/* Sets alive[t] for tensors whose values before op `at` are read by it or later. */
static void find_alive(const struct plan *plan, uint32_t at, bool *alive)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        alive[t] = t == plan->logits || (plan->keeps_hidden && t == plan->hidden_out);
    for (uint32_t i = plan->op_count; i-- > at;) {
        const struct plan_op *op = &plan->ops[i];
        if (op->output != PLAN_NONE && !plan_op_keeps_output(op))
            alive[op->output] = false;
        for (uint32_t t = 0; t < OP_INPUTS_MAX; t++)
            if (op->inputs[t] != PLAN_NONE)
                alive[op->inputs[t]] = true;
        if (op->output != PLAN_NONE && plan_op_keeps_output(op))
            alive[op->output] = true;
    }
}

/* Columns that live before op `at`; 0: they cannot be passed on. */
static uint64_t count_columns(const struct plan *plan, const bool *alive)
{
    uint64_t columns = 0;
    uint32_t count = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (!alive[t])
            continue;
        if (plan->tensors[t].rows != PLAN_ROWS_STEP || ++count > PLAN_PASSED_MAX)
            return 0;
        columns += plan->tensors[t].columns;
    }
    return columns;
}

/* The best of the places before ops [first, end], or 0. `alive` is scratch. */
static uint32_t best_place(const struct plan *plan, uint32_t first, uint32_t end, bool *alive)
{
    uint32_t best = 0;
    uint64_t fewest = UINT64_MAX;
    find_alive(plan, end, alive);
    for (uint32_t at = end; at >= first && at > 0; at--) {
        uint64_t columns = count_columns(plan, alive);
        if (columns > 0 && columns < fewest) {
            fewest = columns;
            best = at;
        }
        const struct plan_op *op = &plan->ops[at - 1];
        if (op->output != PLAN_NONE && !plan_op_keeps_output(op))
            alive[op->output] = false;
        for (uint32_t t = 0; t < plan->tensor_count; t++)
            if (reads(op, (plan_tensor_id)t))
                alive[t] = true;
    }
    return best;
}

uint32_t plan_split_cuts(const struct plan *plan, struct plan_cut cuts[LIMIT_LAYERS])
{
    uint32_t last_use[LIMIT_LAYERS] = {0};
    uint32_t features = 0; /* ops up to the last one that uses features */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t layer = stateful_layer(&plan->ops[i]);
        if (layer < LIMIT_LAYERS)
            last_use[layer] = i;
        if (uses_features(&plan->ops[i]))
            features = i + 1;
    }
    bool *alive = must_alloc(plan->tensor_count + 1, sizeof *alive);
    uint32_t count = 0, layers = 0;
    uint32_t open_until = 0; /* last op of the layers that have begun */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        uint32_t layer = stateful_layer(&plan->ops[i]);
        if (layer == LIMIT_LAYERS)
            continue;
        if (layers > 0 && i > open_until) {
            uint32_t first = open_until + 1 > features ? open_until + 1 : features;
            uint32_t at = best_place(plan, first, i, alive);
            if (at > 0)
                cuts[count++] = (struct plan_cut){at, layers};
        }
        open_until = last_use[layer] > open_until ? last_use[layer] : open_until;
        layers += begins_layer(plan, &plan->ops[i]);
    }
    free(alive);
    return count;
}

/* A tensor of step rows as wide as the model, if no other one lives before op `at`; else PLAN_NONE. */
static plan_tensor_id only_residual(const struct plan *plan, uint32_t at, bool *alive)
{
    plan_tensor_id found = PLAN_NONE;
    find_alive(plan, at, alive);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct plan_tensor *tensor = &plan->tensors[t];
        if (!alive[t] || tensor->rows != PLAN_ROWS_STEP || tensor->columns != plan->config.hidden)
            continue;
        if (found != PLAN_NONE)
            return PLAN_NONE;
        found = (plan_tensor_id)t;
    }
    return found;
}

uint32_t plan_split_residual(const struct plan *plan, uint32_t layers, plan_tensor_id *residual)
{
    uint32_t begun = 0, current = LIMIT_LAYERS, first = 0, end = 0, ended = 0;
    bool attended = false; /* the current layer has; another attention is another layer's */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        uint32_t layer = stateful_layer(op);
        if (layer == LIMIT_LAYERS)
            continue;
        if (layer != current || (op->stem == OP_attention && attended)) {
            attended = false;
            current = layer;
            if (begun++ == layers) {
                first = ended;
                end = i;
            }
        }
        attended = attended || op->stem == OP_attention;
        ended = i + 1;
    }
    if (end == 0 || begun != plan->config.layers)
        return 0;
    bool *alive = must_alloc(plan->tensor_count + 1, sizeof *alive);
    uint32_t at = best_place(plan, first, end, alive);
    *residual = at > 0 ? only_residual(plan, at, alive) : (plan_tensor_id)PLAN_NONE;
    free(alive);
    return *residual != PLAN_NONE ? at : 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Gives the tensor a number in the part, unless it has one. */
static plan_tensor_id take_tensor(const struct plan *plan, struct plan *part,
                                  plan_tensor_id *number, plan_tensor_id tensor)
{
    if (tensor == PLAN_NONE)
        return PLAN_NONE;
    if (number[tensor] == PLAN_NONE) {
        number[tensor] = (plan_tensor_id)part->tensor_count;
        part->tensors[part->tensor_count++] = plan->tensors[tensor];
    }
    return number[tensor];
}

static struct plan_weight copy_weight(const struct plan_weight *weight)
{
    struct plan_weight copy = *weight;
    if (weight->parts) {
        uint32_t matrices = plan_weight_matrices(weight);
        copy.parts = must_alloc(matrices, sizeof *copy.parts);
        memcpy(copy.parts, weight->parts, matrices * sizeof *copy.parts);
    }
    return copy;
}

static void take_ops(const struct plan *plan, uint32_t begin, uint32_t end, struct plan *part,
                     plan_tensor_id *tensor_number)
{
    plan_weight_id *weight_number = must_alloc(plan->weight_count + 1, sizeof *weight_number);
    memset(weight_number, 0xff, (plan->weight_count + 1) * sizeof *weight_number);
    for (uint32_t i = begin; i < end; i++) {
        struct plan_op *op = &part->ops[part->op_count++];
        *op = plan->ops[i];
        for (uint32_t t = 0; t < OP_INPUTS_MAX; t++)
            op->inputs[t] = take_tensor(plan, part, tensor_number, op->inputs[t]);
        op->output = take_tensor(plan, part, tensor_number, op->output);
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && op->weights[w] != PLAN_NONE; w++) {
            plan_weight_id *number = &weight_number[op->weights[w]];
            if (*number == PLAN_NONE) {
                *number = (plan_weight_id)part->weight_count;
                part->weights[part->weight_count++] = copy_weight(&plan->weights[op->weights[w]]);
            }
            op->weights[w] = *number;
        }
    }
    free(weight_number);
}

/* The layouts with the memory of the part's layers. */
static void keep_layers(struct plan *part)
{
    bool kept[LIMIT_LAYERS] = {false};
    struct kv_layout *kv = &part->kv;
    struct state_layout *state = &part->state;
    for (uint32_t i = 0; i < part->op_count; i++) {
        uint32_t layer = stateful_layer(&part->ops[i]);
        if (layer < LIMIT_LAYERS)
            kept[layer] = true;
    }
    uint32_t placed[KV_GROUPS_MAX] = {0};
    for (uint32_t layer = 0; layer < kv->layer_count; layer++) {
        uint32_t group = kv->layer_group[layer];
        if (group == KV_GROUP_NONE)
            continue;
        if (kept[layer])
            kv->layer_index[layer] = (uint16_t)placed[group]++;
        else
            kv->layer_group[layer] = KV_GROUP_NONE;
    }
    for (uint32_t g = 0; g < kv->group_count; g++)
        kv->groups[g].layers =
            kv->groups[g].kind == KV_OPENING ? placed[kv->groups[g].opening_of] : placed[g];
    state->layers = 0;
    for (uint32_t layer = 0; layer < part->config.layers; layer++) {
        if (state->layer_index[layer] == STATE_LAYER_NONE)
            continue;
        state->layer_index[layer] = kept[layer] ? (uint16_t)state->layers++ : STATE_LAYER_NONE;
    }
}

/* Lists the tensors that live before op `at` of the plan, by the part's numbers. */
static uint32_t list_alive(const struct plan *plan, uint32_t at, struct plan *part,
                           plan_tensor_id *number, plan_tensor_id *list)
{
    bool *alive = must_alloc(plan->tensor_count + 1, sizeof *alive);
    uint32_t count = 0;
    find_alive(plan, at, alive);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (!alive[t])
            continue;
        must(count < PLAN_PASSED_MAX && plan->tensors[t].rows == PLAN_ROWS_STEP);
        list[count++] = take_tensor(plan, part, number, (plan_tensor_id)t);
    }
    free(alive);
    return count;
}

static bool is_product(const struct plan_op *op)
{
    return op_facts(op->stem)->weights == OP_WEIGHTS_PRODUCT;
}

/* Whether a product of ops [begin, end) reads the values that the tensor has before them. */
static bool is_multiplied(const struct plan *plan, uint32_t begin, uint32_t end,
                          plan_tensor_id tensor)
{
    for (uint32_t i = begin; i < end; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (is_product(op) && op->inputs[0] == tensor)
            return true;
        if (op->output == tensor)
            return false;
    }
    return false;
}

/* The tensors that the part takes. Backends prepare the input of a product when an op writes it; so
 * one that a product reads as it is taken is copied by an op first. */
static void take_alive(const struct plan *plan, uint32_t begin, uint32_t end, struct plan *part,
                       plan_tensor_id *number)
{
    part->taken_count = list_alive(plan, begin, part, number, part->taken);
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        if (number[t] == PLAN_NONE || !is_multiplied(plan, begin, end, (plan_tensor_id)t))
            continue;
        plan_tensor_id copied = (plan_tensor_id)part->tensor_count;
        part->tensors[part->tensor_count++] = plan->tensors[t];
        part->ops[part->op_count++] = (struct plan_op){
            .stem = OP_stream_take,
            .inputs = {copied, PLAN_NONE},
            .output = number[t],
            .weights = {PLAN_NONE, PLAN_NONE, PLAN_NONE},
        };
        for (uint32_t i = 0; i < part->taken_count; i++)
            if (part->taken[i] == number[t])
                part->taken[i] = copied;
    }
}

struct plan *plan_split_part(const struct plan *plan, uint32_t begin, uint32_t end)
{
    must(begin < end && end <= plan->op_count);
    struct plan *part = must_alloc(1, sizeof *part);
    *part = *plan;
    part->tensor_count = part->weight_count = part->op_count = 0;
    part->tensors = must_alloc(plan->tensor_count + PLAN_PASSED_MAX, sizeof *part->tensors);
    part->weights = must_alloc(plan->weight_count + 1, sizeof *part->weights);
    part->ops = must_alloc(end - begin + PLAN_PASSED_MAX, sizeof *part->ops);
    plan_tensor_id *number = must_alloc(plan->tensor_count + 1, sizeof *number);
    memset(number, 0xff, (plan->tensor_count + 1) * sizeof *number);
    bool is_last = end == plan->op_count;
    if (begin > 0) {
        part->takes_hidden = false;
        take_alive(plan, begin, end, part, number);
    }
    take_ops(plan, begin, end, part, number);
    if (!is_last) {
        part->keeps_hidden = false;
        part->passed_count = list_alive(plan, end, part, number, part->passed);
    }
    part->logits = is_last ? take_tensor(plan, part, number, plan->logits) : PLAN_NONE;
    if (part->takes_hidden)
        part->hidden_in = take_tensor(plan, part, number, plan->hidden_in);
    if (part->keeps_hidden)
        part->hidden_out = take_tensor(plan, part, number, plan->hidden_out);
    keep_layers(part);
    free(number);
    return part;
}

uint64_t plan_split_weight_bytes(const struct plan *plan, uint32_t begin, uint32_t end)
{
    bool *used = must_alloc(plan->weight_count + 1, sizeof *used);
    uint64_t bytes = 0;
    for (uint32_t i = begin; i < end; i++)
        for (uint32_t w = 0; w < OP_WEIGHTS_MAX && plan->ops[i].weights[w] != PLAN_NONE; w++)
            used[plan->ops[i].weights[w]] = true;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        bytes += used[w] ? plan->weights[w].data_bytes : 0;
    free(used);
    return bytes;
}
