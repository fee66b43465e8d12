/*
 * Functions over finished plans, which plan_builder.c makes.
 */
#include "worker/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/must.h"

uint32_t plan_weight_matrices(const struct plan_weight *weight)
{
    return weight->experts > 0 ? weight->experts : 1;
}

struct plan_weight_part plan_weight_part(const struct plan_weight *weight, uint32_t number)
{
    must(number < plan_weight_matrices(weight));
    if (weight->parts)
        return weight->parts[number];
    uint64_t matrix_bytes = weight->data_bytes / plan_weight_matrices(weight);
    return (struct plan_weight_part){
        .data = (const uint8_t *)weight->data + number * matrix_bytes,
        .source = weight->source,
        .first_row = (uint64_t)number * weight->rows,
    };
}

static double elements_of(const struct plan_weight *weight)
{
    return (double)weight->rows * weight->columns * plan_weight_matrices(weight);
}

/* Weights of the type, of matrices only. */
static double count_elements(const struct plan *plan, enum ggml_type type)
{
    double elements = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        if (plan->weights[w].type == type && plan->weights[w].rows > 1)
            elements += elements_of(&plan->weights[w]);
    return elements;
}

/* As it is kept: NVFP4's factor, which is the same in a whole row, does not count. */
static double bits_of(enum ggml_type type)
{
    struct ggml_block block = ggml_type_block(type);
    uint32_t bytes = block.bytes - (type == GGML_NVFP4 ? (uint32_t)sizeof(float) : 0);
    return 8 * (double)bytes / (double)block.elements;
}

double plan_weight_bits(const struct plan *plan)
{
    double elements = 0, bits = 0;
    for (int type = 0; type < GGML_TYPE_END; type++) {
        if (ggml_type_block((enum ggml_type)type).elements == 0)
            continue;
        double count = count_elements(plan, (enum ggml_type)type);
        elements += count;
        bits += count * bits_of((enum ggml_type)type);
    }
    return elements > 0 ? bits / elements : 0;
}

void plan_weight_types(const struct plan *plan, char *text, size_t capacity)
{
    double all = 0;
    size_t length = 0;
    must(capacity > 0);
    text[0] = 0;
    for (int type = 0; type < GGML_TYPE_END; type++)
        all += count_elements(plan, (enum ggml_type)type);
    for (int type = 0; type < GGML_TYPE_END && length < capacity; type++) {
        double count = count_elements(plan, (enum ggml_type)type);
        if (count > 0)
            length += (size_t)snprintf(text + length, capacity - length, "%s%s %.1f %%",
                                       length > 0 ? ", " : "", ggml_type_name((enum ggml_type)type),
                                       100 * count / all);
    }
}

bool plan_op_keeps_output(const struct plan_op *op)
{
    switch (op_facts(op->stem)->output) {
    case OP_OUTPUT_IN_PLACE:
    case OP_OUTPUT_KEPT: return true;
    case OP_OUTPUT_BY_PARAMS: return op->params.moe_combine.add;
    default: return false;
    }
}

uint32_t plan_drawn_tokens(const struct plan *plan)
{
    const struct model_config *config = &plan->config;
    return config->logit_tokens > 0 ? config->logit_tokens : config->vocab_tokens;
}

uint32_t plan_logit_columns(const struct plan *plan)
{
    return plan->tensors[plan->logits].columns;
}

enum result plan_pool(struct plan *plan, struct error_text *error)
{
    uint32_t first = 0;
    if (plan->config.encoder)
        return RESULT_OK; /* it was built so */
    while (first < plan->op_count && plan->ops[first].output != plan->logits)
        first++;
    bool last = first < plan->op_count && plan->ops[first].stem == OP_linear;
    for (uint32_t i = first + 1; i < plan->op_count; i++)
        last = last && plan->ops[i].output == plan->logits;
    if (!last)
        return error_set(error, RESULT_UNSUPPORTED, "its vectors cannot be pooled");
    plan->logits = plan->ops[first].inputs[0];
    plan->op_count = first;
    plan->pools = true;
    return RESULT_OK;
}

uint32_t plan_ones(const struct plan *plan)
{
    uint32_t widest = LIMIT_HEAD_DIM;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        if (op->stem == OP_head_norm && op->params.head_norm.slice.head_dim > widest)
            widest = op->params.head_norm.slice.head_dim;
    }
    return widest;
}

void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        free(plan->weights[w].parts);
    plan_destroy(plan->sound);
    for (uint32_t c = 0; c < plan->computed_count; c++)
        free(plan->computed[c]);
    free((void *)plan->computed);
    free(plan->tensors);
    free(plan->weights);
    free(plan->ops);
    free(plan);
}
