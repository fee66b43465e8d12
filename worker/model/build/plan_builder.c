/*
 * Turns a family's list of ops into a plan that backends can run without further checks.
 *
 * Shapes are checked op by op (plan_check.c). This file tracks what depends on the order: which
 * tensors have been written, and which layers have stored keys. At the end, a tensor of the
 * checkpoint that no op used is refused: it means that the file states something that the family
 * does not know - a bias, an adapter, an expert - and running without it would give fluent
 * nonsense. Excepted is a short list of tensors that other programs store and that repeat what the
 * config says.
 *
 * Bounds: ids are 16 bits; layers, ops and tensors of a layer are few, so the arrays stay small
 * whatever the file says.
 */
#include "worker/model/build/plan_builder.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/model/build/builder_state.h"
#include "worker/plan/plan_check.h"

#define OPS_MAX     32768u /* LIMIT_LAYERS layers of at most 62 ops, and a head */
#define WEIGHTS_MAX 32768u

/* Endings of names of tensors that may stay unused: rotary frequencies that old converters stored
 * beside the base they follow from, and adapters for requests with images or sounds (phi4mm). */
static const char *const harmless_endings[] = {
    ".attn_rot_embd",        ".rotary_emb.inv_freq",  ".lora_A.vision.weight",
    ".lora_B.vision.weight", ".lora_A.speech.weight", ".lora_B.speech.weight",
};

struct plan_builder *plan_builder_create(const struct plan_source *source,
                                         const struct model_config *config,
                                         struct error_text *error)
{
    struct plan_builder *builder = calloc(1, sizeof(*builder));
    if (!builder)
        return NULL;
    size_t tensor_count = tensor_table_count(source->tensors);
    builder->source = *source;
    builder->error = error;
    builder->plan = calloc(1, sizeof(*builder->plan));
    builder->used = calloc(tensor_count + 1, sizeof(*builder->used));
    builder->weight_of = malloc((tensor_count + 1) * sizeof(*builder->weight_of));
    if (builder->plan)
        builder->plan->tensors = calloc(TENSORS_MAX, sizeof(*builder->plan->tensors));
    if (!builder->plan || !builder->plan->tensors || !builder->used || !builder->weight_of) {
        plan_builder_destroy(builder);
        return NULL;
    }
    memset(builder->weight_of, 0xff, (tensor_count + 1) * sizeof(*builder->weight_of));
    builder->plan->config = *config;
    if (source->vision) {
        builder->plan->vision = *source->vision;
        return builder;
    }
    builder->result = kv_layout_init(&builder->plan->kv, config, error);
    if (builder->result == RESULT_OK)
        builder->result = state_layout_init(&builder->plan->state, config, error);
    return builder;
}

void plan_builder_destroy(struct plan_builder *builder)
{
    if (!builder)
        return;
    plan_destroy(builder->plan);
    free(builder->used);
    free(builder->weight_of);
    free(builder);
}

const struct model_config *plan_builder_config(const struct plan_builder *builder)
{
    return &builder->plan->config;
}

void plan_builder_set_caches(struct plan_builder *builder, const struct kv_layout *layout)
{
    must(builder->plan->config.borrows_caches);
    builder->plan->kv = *layout;
}

plan_tensor_id plan_builder_tensor(struct plan_builder *builder, enum plan_rows rows,
                                   uint32_t columns)
{
    struct plan *plan = builder->plan;
    if (builder->result != RESULT_OK)
        return 0;
    must(plan->tensor_count < TENSORS_MAX);
    plan->tensors[plan->tensor_count] = (struct plan_tensor){.rows = rows, .columns = columns};
    return (plan_tensor_id)plan->tensor_count++;
}

plan_tensor_id plan_builder_hidden_in(struct plan_builder *builder, uint32_t columns)
{
    plan_tensor_id tensor = plan_builder_tensor(builder, PLAN_ROWS_STEP, columns);
    if (builder->result != RESULT_OK)
        return 0;
    builder->written[tensor] = true;
    builder->plan->takes_hidden = true;
    builder->plan->hidden_in = tensor;
    return tensor;
}

void plan_builder_hidden_out(struct plan_builder *builder, plan_tensor_id tensor)
{
    if (builder->result != RESULT_OK)
        return;
    must(builder->written[tensor]);
    builder->plan->keeps_hidden = true;
    builder->plan->hidden_out = tensor;
}

void plan_builder_refuse(struct plan_builder *builder, const char *words)
{
    if (builder->result == RESULT_OK)
        builder->result = error_set(builder->error, RESULT_UNSUPPORTED, "%s", words);
}

/* Room for one more element in an array of at most `most`. */
static bool make_room(struct plan_builder *builder, void **array, uint32_t count,
                      uint32_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*array, wanted * element_bytes);
    if (!grown) {
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Joins the dimensions that make up the columns into one, and the others into another. A tensor's
 * bytes are in its file, so no product of its dimensions overflows. */
static void flatten(const struct checkpoint_tensor *tensor, uint64_t columns, uint64_t *first,
                    uint64_t *second)
{
    const uint64_t *have = tensor->dimensions;
    uint32_t used = 1;
    *first = have[0];
    *second = 1;
    while (*first < columns && used < TENSOR_DIMENSIONS_MAX)
        *first *= have[used++];
    for (; used < TENSOR_DIMENSIONS_MAX; used++)
        *second *= have[used];
}

static enum result tensor_check(const struct checkpoint_tensor *tensor, const char *name,
                                struct weight_shape shape, struct error_text *error)
{
    uint32_t rows = shape.vector ? 1 : shape.turned ? shape.columns : shape.rows;
    uint32_t columns = shape.turned ? shape.rows : shape.columns;
    uint32_t deep = shape.experts > 0 ? shape.experts : 1;
    const uint64_t *have = tensor->dimensions;
    uint64_t first = have[0], second = have[1], third = have[2];
    if (shape.taps && (first == 1 || second == 1)) { /* drop the extra dimension */
        first = first == 1 ? second : first;
        second = third;
        third = 1;
    }
    bool flat = true;
    for (uint32_t i = 3; i < TENSOR_DIMENSIONS_MAX; i++)
        flat &= have[i] == 1;
    if (shape.flat) {
        flatten(tensor, columns, &first, &second);
        third = 1;
        flat = true;
    }
    if (first != columns || second != rows || third != deep || !flat) {
        char experts[16] = "";
        if (shape.experts > 0)
            snprintf(experts, sizeof experts, ", %u", deep);
        return error_set(error, RESULT_INVALID,
                         "tensor %s is [%llu, %llu, %llu, %llu], not [%u, %u%s] (fastest first)",
                         name, (unsigned long long)have[0], (unsigned long long)have[1],
                         (unsigned long long)have[2], (unsigned long long)have[3], columns, rows,
                         experts);
    }
    bool plain = builder_is_float(tensor->type) && tensor->source.layout == WEIGHT_IN_PLACE;
    bool floats = shape.vector || shape.taps || shape.flat || shape.turned || shape.parts > 0;
    if (!tensor->readable || (floats && !plain))
        return error_set(error, RESULT_UNSUPPORTED, "tensor %s is of type %s, not F32, F16 or BF16",
                         name, tensor->type_name);
    return RESULT_OK;
}

static uint32_t tensor_index(const struct plan_builder *builder,
                             const struct checkpoint_tensor *tensor)
{
    return (uint32_t)(tensor - tensor_table_at(builder->source.tensors, 0));
}

/* Describes a transposed weight: stored columns become rows. The matrices of a stack follow each
 * other. */
static void turn(struct plan_builder *builder, struct plan_weight *weight)
{
    uint64_t row_bytes = (uint64_t)weight->columns * ggml_type_block(weight->type).bytes;
    weight->source = (struct weight_source){.layout = WEIGHT_TRANSPOSED,
                                            .type = weight->type,
                                            .data = weight->data,
                                            .row_bytes = row_bytes,
                                            .block_rows = weight->rows};
    if (weight->experts == 0)
        return;
    weight->parts = calloc(weight->experts, sizeof *weight->parts);
    if (!weight->parts) {
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
        return;
    }
    for (uint32_t expert = 0; expert < weight->experts; expert++) {
        const uint8_t *matrix = (const uint8_t *)weight->data + expert * weight->rows * row_bytes;
        weight->parts[expert] = (struct plan_weight_part){.data = matrix, .source = weight->source};
        weight->parts[expert].source.data = matrix;
    }
}

plan_weight_id builder_add_weight(struct plan_builder *builder,
                                  const struct checkpoint_tensor *tensor, const char *name,
                                  struct weight_shape shape)
{
    struct plan *plan = builder->plan;
    must(plan->weight_count < WEIGHTS_MAX);
    void *array = plan->weights;
    if (!make_room(builder, &array, plan->weight_count, &builder->weight_capacity,
                   sizeof(*plan->weights)))
        return 0;
    plan->weights = array;
    struct plan_weight *weight = &plan->weights[plan->weight_count];
    *weight = (struct plan_weight){
        .type = tensor->type,
        .rows = shape.vector ? 1 : shape.rows,
        .columns = shape.columns,
        .experts = shape.experts,
        .data = tensor->data,
        .data_bytes = tensor->data_bytes,
        .source = tensor->source,
    };
    snprintf(weight->name, sizeof(weight->name), "%s", name);
    if (shape.turned)
        turn(builder, weight);
    if (shape.parts > 0)
        weight->source = (struct weight_source){.layout = WEIGHT_INTERLEAVED,
                                                .type = weight->type,
                                                .data = weight->data,
                                                .row_bytes = (uint64_t)weight->columns *
                                                             ggml_type_block(weight->type).bytes,
                                                .group = weight->columns / shape.parts};
    return (plan_weight_id)plan->weight_count++;
}

static const struct checkpoint_tensor *find_in(const struct plan_source *source, const char *asked,
                                               struct stored_name *stored)
{
    snprintf(stored->text, sizeof stored->text, "%s", asked);
    const struct checkpoint_tensor *found = NULL;
    if (source->naming)
        found =
            tensor_naming_find(source->naming, source->tensors,
                               (struct naming_place){source->prefix, source->layer}, asked, stored);
    if (found || strcmp(stored->text, asked) != 0)
        return found;
    return tensor_table_find(source->tensors, stored->text);
}

/* Finds the tensor that a family calls `asked`; sets `stored` to its name in the checkpoint. */
const struct checkpoint_tensor *builder_find_tensor(const struct plan_builder *builder,
                                                    const char *asked, struct stored_name *stored)
{
    return find_in(&builder->source, asked, stored);
}

/* The same, with its shape checked, and marked as used. NULL if it is missing or has another shape,
 * or after an error. */
const struct checkpoint_tensor *builder_find_checked(struct plan_builder *builder,
                                                     const char *asked, struct weight_shape shape,
                                                     struct stored_name *stored)
{
    if (builder->result != RESULT_OK)
        return NULL;
    const struct checkpoint_tensor *tensor = builder_find_tensor(builder, asked, stored);
    builder->result =
        tensor ? tensor_check(tensor, stored->text, shape, builder->error)
               : error_set(builder->error, RESULT_INVALID, "tensor %s is missing", stored->text);
    if (builder->result != RESULT_OK)
        return NULL;
    builder->used[tensor_index(builder, tensor)] = true;
    return tensor;
}

static plan_weight_id find_weight(struct plan_builder *builder, const char *asked,
                                  struct weight_shape shape)
{
    struct stored_name name;
    const struct checkpoint_tensor *tensor = builder_find_checked(builder, asked, shape, &name);
    if (!tensor)
        return 0;
    uint32_t index = tensor_index(builder, tensor);
    if (builder->weight_of[index] == PLAN_NONE)
        builder->weight_of[index] = builder_add_weight(builder, tensor, name.text, shape);
    return builder->weight_of[index];
}

static struct stored_name format_name(const char *format, va_list arguments)
{
    struct stored_name name;
    int length = vsnprintf(name.text, sizeof(name.text), format, arguments);
    must(length > 0 && (size_t)length < sizeof(name.text));
    return name;
}

static plan_weight_id find_named(struct plan_builder *builder, struct weight_shape shape,
                                 const char *name_format, va_list arguments)
{
    if (builder->result != RESULT_OK)
        return 0;
    struct stored_name name = format_name(name_format, arguments);
    return find_weight(builder, name.text, shape);
}

plan_weight_id plan_builder_matrix(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                   const char *name_format, ...)
{
    const struct weight_shape shape = {.rows = rows, .columns = columns};
    va_list arguments;
    va_start(arguments, name_format);
    plan_weight_id id = find_named(builder, shape, name_format, arguments);
    va_end(arguments);
    return id;
}

plan_weight_id plan_builder_target_matrix(struct plan_builder *builder, uint32_t rows,
                                          uint32_t columns, const char *name)
{
    const struct weight_shape shape = {.rows = rows, .columns = columns};
    struct stored_name stored;
    must(builder->source.target);
    if (builder->result != RESULT_OK)
        return 0;
    const struct checkpoint_tensor *tensor = find_in(builder->source.target, name, &stored);
    builder->result = tensor ? tensor_check(tensor, stored.text, shape, builder->error)
                             : error_set(builder->error, RESULT_INVALID,
                                         "tensor %s of the model is missing", stored.text);
    return builder->result == RESULT_OK ? builder_add_weight(builder, tensor, stored.text, shape)
                                        : (plan_weight_id)0;
}

static bool has_same_bytes(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b)
{
    return a && b && a->readable && b->readable && a->type == b->type &&
           a->source.layout == b->source.layout && a->data_bytes == b->data_bytes &&
           memcmp(a->data, b->data, a->data_bytes) == 0;
}

plan_weight_id plan_builder_shared_matrix(struct plan_builder *builder, uint32_t rows,
                                          uint32_t columns, const char *name)
{
    struct stored_name stored;
    must(builder->source.target);
    const struct checkpoint_tensor *own = builder_find_tensor(builder, name, &stored);
    const struct checkpoint_tensor *theirs = find_in(builder->source.target, name, &stored);
    if (own && !has_same_bytes(own, theirs))
        return plan_builder_matrix(builder, rows, columns, "%s", name);
    plan_builder_use_in_config(builder, name);
    return plan_builder_target_matrix(builder, rows, columns, name);
}

plan_weight_id plan_builder_vector(struct plan_builder *builder, uint32_t columns,
                                   const char *name_format, ...)
{
    const struct weight_shape shape = {.columns = columns, .vector = true};
    va_list arguments;
    va_start(arguments, name_format);
    plan_weight_id id = find_named(builder, shape, name_format, arguments);
    va_end(arguments);
    return id;
}

float plan_builder_number(struct plan_builder *builder, const char *name_format, ...)
{
    const struct weight_shape shape = {.columns = 1, .vector = true};
    struct stored_name stored;
    va_list arguments;
    va_start(arguments, name_format);
    struct stored_name asked = format_name(name_format, arguments);
    va_end(arguments);
    const struct checkpoint_tensor *tensor =
        builder_find_checked(builder, asked.text, shape, &stored);
    if (!tensor)
        return 0.0f;
    const struct weight_source floats = {.scale_type = tensor->type};
    float number = weight_layout_float(&floats, tensor->data, 0);
    if (isnan(number))
        builder->result =
            error_set(builder->error, RESULT_INVALID, "tensor %s is no number", stored.text);
    return number;
}

plan_weight_id plan_builder_taps(struct plan_builder *builder, uint32_t channels, uint32_t taps,
                                 const char *name_format, ...)
{
    const struct weight_shape shape = {.rows = channels, .columns = taps, .taps = true};
    va_list arguments;
    va_start(arguments, name_format);
    plan_weight_id id = find_named(builder, shape, name_format, arguments);
    va_end(arguments);
    return id;
}

plan_weight_id plan_builder_flat(struct plan_builder *builder, uint32_t rows, uint32_t columns,
                                 const char *name_format, ...)
{
    const struct weight_shape shape = {.rows = rows, .columns = columns, .flat = true};
    va_list arguments;
    va_start(arguments, name_format);
    plan_weight_id id = find_named(builder, shape, name_format, arguments);
    va_end(arguments);
    return id;
}

plan_weight_id plan_builder_transposed(struct plan_builder *builder, uint32_t rows,
                                       uint32_t columns, const char *name)
{
    if (builder->result != RESULT_OK)
        return 0;
    return find_weight(builder, name,
                       (struct weight_shape){.rows = rows, .columns = columns, .turned = true});
}

plan_weight_id plan_builder_interleaved(struct plan_builder *builder, uint32_t rows,
                                        uint32_t columns, uint32_t parts, const char *name)
{
    must(columns % parts == 0);
    if (builder->result != RESULT_OK)
        return 0;
    return find_weight(
        builder, name,
        (struct weight_shape){.rows = rows, .columns = columns, .flat = true, .parts = parts});
}

plan_weight_id plan_builder_stack(struct plan_builder *builder, uint32_t count, uint32_t rows,
                                  uint32_t columns, const char *name)
{
    if (builder->result != RESULT_OK)
        return 0;
    return find_weight(builder, name,
                       (struct weight_shape){.rows = rows, .columns = columns, .experts = count});
}

uint64_t plan_builder_fastest(const struct plan_builder *builder, const char *name)
{
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_tensor(builder, name, &stored);
    return tensor ? tensor->dimensions[0] : 0;
}

bool plan_builder_has(const struct plan_builder *builder, const char *name_format, ...)
{
    struct stored_name stored;
    va_list arguments;
    va_start(arguments, name_format);
    struct stored_name name = format_name(name_format, arguments);
    va_end(arguments);
    return builder_find_tensor(builder, name.text, &stored) != NULL;
}

void plan_builder_leave_layer(struct plan_builder *builder, uint32_t layer)
{
    char part[32];
    snprintf(part, sizeof part, builder->source.naming ? "layers.%u." : "blk.%u.", layer);
    if (builder->result != RESULT_OK)
        return;
    for (uint32_t i = 0; i < tensor_table_count(builder->source.tensors); i++) {
        struct gguf_string name = tensor_table_at(builder->source.tensors, i)->name;
        if (memmem(name.bytes, name.length, part, strlen(part)))
            builder->used[i] = true;
    }
}

void plan_builder_use_in_config(struct plan_builder *builder, const char *name)
{
    struct stored_name stored;
    const struct checkpoint_tensor *tensor = builder_find_tensor(builder, name, &stored);
    if (tensor)
        builder->used[tensor_index(builder, tensor)] = true;
}

/* Whether the checkpoint has tensor `name` with other contents than tensor `like`. */
static bool has_other_rows(const struct plan_builder *builder, const char *name, const char *like)
{
    struct stored_name stored;
    const struct checkpoint_tensor *a = builder_find_tensor(builder, name, &stored);
    const struct checkpoint_tensor *b = a ? builder_find_tensor(builder, like, &stored) : NULL;
    return a && b &&
           (a->data_bytes != b->data_bytes || a->type != b->type ||
            memcmp(a->data, b->data, a->data_bytes) != 0);
}

/* A config that ties while the checkpoint has an output matrix of its own is wrong: the matrix is
 * used, as transformers does since version 5. */
plan_weight_id plan_builder_output_matrix(struct plan_builder *builder,
                                          const struct model_config *config,
                                          plan_weight_id embedding)
{
    struct stored_name stored;
    if (!config->tied_embeddings && !builder_find_tensor(builder, "output.weight", &stored) &&
        builder->source.prefix && !builder->source.prefix[0]) {
        builder->plan->lacks_head = true;
        return embedding;
    }
    if (!config->tied_embeddings || has_other_rows(builder, "output.weight", "token_embd.weight"))
        return plan_builder_matrix(builder, config->vocab_tokens, config->hidden, "output.weight");
    plan_builder_use_in_config(builder, "output.weight");
    return embedding;
}

/* --- experts ---------------------------------------------------------------------------------- */

/* The name of one expert's matrix, from the name of the stack. */
static struct stored_name expert_name(const char *stack, uint32_t expert)
{
    static const char ending[] = "_exps";
    struct stored_name name;
    const char *at = strstr(stack, ending);
    must(at);
    int length = snprintf(name.text, sizeof name.text, "%.*s.%u%s", (int)(at - stack), stack,
                          expert, at + sizeof ending - 1);
    must(length > 0 && (size_t)length < sizeof name.text);
    return name;
}

/* Adds one expert's matrix to the weight of expert 0. */
static void join_expert(struct plan_builder *builder, struct plan_weight *weight, uint32_t expert,
                        const char *stack, struct weight_shape shape)
{
    struct stored_name asked = expert_name(stack, shape.first + expert), stored;
    const struct checkpoint_tensor *tensor =
        builder_find_checked(builder, asked.text, shape, &stored);
    if (!tensor)
        return;
    bool alike = tensor->source.layout == weight->source.layout &&
                 (tensor->type == weight->type || tensor->source.layout != WEIGHT_IN_PLACE);
    if (!alike)
        builder->result = error_set(builder->error, RESULT_UNSUPPORTED,
                                    "tensor %s is of type %s, and expert 0's of another",
                                    stored.text, tensor->type_name);
    if (builder->result != RESULT_OK)
        return;
    if (tensor->type != weight->type)
        weight->type = weight_source_wide_type(&weight->source);
    weight->parts[expert] =
        (struct plan_weight_part){.data = tensor->data, .source = tensor->source};
}

static plan_weight_id find_experts(struct plan_builder *builder, const char *stack,
                                   struct weight_shape shape)
{
    struct stored_name stored, first = expert_name(stack, shape.first);
    uint32_t experts = shape.experts;
    if (!shape.ranged && (builder_find_tensor(builder, stack, &stored) ||
                          !builder_find_tensor(builder, first.text, &stored)))
        return find_weight(builder, stack, shape);
    shape.experts = 0;
    plan_weight_id id = find_weight(builder, first.text, shape);
    if (builder->result != RESULT_OK || builder->plan->weights[id].experts > 0)
        return id;
    struct plan_weight *weight = &builder->plan->weights[id];
    weight->parts = calloc(experts, sizeof *weight->parts);
    if (!weight->parts) {
        builder->result = error_set(builder->error, RESULT_OUT_OF_MEMORY, "no memory for a plan");
        return id;
    }
    weight->experts = experts;
    weight->data_bytes *= experts;
    for (uint32_t expert = 0; expert < experts && builder->result == RESULT_OK; expert++)
        join_expert(builder, weight, expert, stack, shape);
    for (uint32_t expert = 0; expert < experts; expert++)
        weight->parts[expert].source.type = weight->type;
    weight->source.type = weight->type;
    return id;
}

plan_weight_id plan_builder_turned_experts(struct plan_builder *builder, uint32_t experts,
                                           uint32_t rows, uint32_t columns, const char *name_format,
                                           ...)
{
    const struct weight_shape shape = {
        .rows = rows, .columns = columns, .experts = experts, .turned = true};
    va_list arguments;
    va_start(arguments, name_format);
    plan_weight_id id = find_named(builder, shape, name_format, arguments);
    va_end(arguments);
    return id;
}

plan_weight_id plan_builder_experts(struct plan_builder *builder, uint32_t experts, uint32_t rows,
                                    uint32_t columns, const char *name_format, ...)
{
    if (builder->result != RESULT_OK)
        return 0;
    va_list arguments;
    va_start(arguments, name_format);
    struct stored_name name = format_name(name_format, arguments);
    va_end(arguments);
    return find_experts(
        builder, name.text,
        (struct weight_shape){.rows = rows, .columns = columns, .experts = experts});
}

plan_weight_id plan_builder_expert_range(struct plan_builder *builder, struct expert_range range,
                                         uint32_t rows, uint32_t columns, const char *name_format,
                                         ...)
{
    if (builder->result != RESULT_OK)
        return 0;
    va_list arguments;
    va_start(arguments, name_format);
    struct stored_name name = format_name(name_format, arguments);
    va_end(arguments);
    return find_experts(builder, name.text,
                        (struct weight_shape){.rows = rows,
                                              .columns = columns,
                                              .experts = range.count,
                                              .ranged = true,
                                              .first = range.first});
}

/* --- ops -------------------------------------------------------------------------------------- */

/* Checks that everything the op reads has been written. */
static enum result order_check(const struct plan_builder *builder, const struct plan_op *op)
{
    uint32_t number = builder->plan->op_count;
    for (size_t i = 0; i < OP_INPUTS_MAX && op->inputs[i] != PLAN_NONE; i++)
        if (!builder->written[op->inputs[i]])
            return error_set(builder->error, RESULT_INVALID,
                             "op %u %s: tensor %u is read before it is written", number,
                             op_stem_name(op->stem), op->inputs[i]);
    if (op->stem == OP_moe_combine && op->params.moe_combine.add && !builder->written[op->output])
        return error_set(builder->error, RESULT_INVALID,
                         "op %u moe_combine: tensor %u is added to before it is written", number,
                         op->output);
    if (op->stem == OP_attention && !builder->plan->config.borrows_caches &&
        !builder->cached[op->params.attention.layer])
        return error_set(builder->error, RESULT_INVALID,
                         "op %u attention: layer %u has stored no keys", number,
                         op->params.attention.layer);
    return RESULT_OK;
}

/* Checks that a route chooses among as many experts as the op's weights hold. */
static enum result route_check(const struct plan_builder *builder, const struct plan_op *op)
{
    uint32_t scored = 0, experts = 0;
    switch (op->stem) {
    case OP_moe_linear: experts = builder->plan->weights[op->weights[0]].experts; break;
    case OP_moe_gate:
    case OP_moe_combine:
        if (op->weights[0] != PLAN_NONE)
            experts = builder->plan->weights[op->weights[0]].rows;
        break;
    default: return RESULT_OK;
    }
    scored = builder->routed[op->inputs[1]];
    if (scored == 0)
        return error_set(builder->error, RESULT_INVALID, "op %u %s: tensor %u is no route",
                         builder->plan->op_count, op_stem_name(op->stem), op->inputs[1]);
    if (experts > 0 && experts != scored)
        return error_set(builder->error, RESULT_INVALID, "op %u %s (%s): %u experts of %u scored",
                         builder->plan->op_count, op_stem_name(op->stem),
                         builder->plan->weights[op->weights[0]].name, experts, scored);
    return RESULT_OK;
}

void plan_builder_append(struct plan_builder *builder, struct plan_op op)
{
    struct plan *plan = builder->plan;
    if (builder->result != RESULT_OK)
        return;
    must(plan->op_count < OPS_MAX);
    builder->result = plan_op_check(plan, &op, plan->op_count, builder->error);
    if (builder->result == RESULT_OK)
        builder->result = order_check(builder, &op);
    if (builder->result == RESULT_OK)
        builder->result = route_check(builder, &op);
    void *array = plan->ops;
    if (builder->result != RESULT_OK ||
        !make_room(builder, &array, plan->op_count, &builder->op_capacity, sizeof(*plan->ops)))
        return;
    plan->ops = array;
    plan->ops[plan->op_count++] = op;
    if (op.output != PLAN_NONE) {
        builder->written[op.output] = true;
        builder->routed[op.output] = op.stem == OP_moe_route ? plan->tensors[op.inputs[0]].columns
                                     : op.stem == OP_head_route
                                         ? plan->tensors[op.output].columns / 2
                                         : 0;
    }
    if (op.stem == OP_kv_write)
        builder->cached[op.params.kv_write.layer] = true;
}

/* --- the end ---------------------------------------------------------------------------------- */

void plan_builder_end_stage(struct plan_builder *builder)
{
    must(builder->plan->vision.patch_side > 0 && builder->stages < PLAN_STAGES_MAX);
    builder->plan->stage_ends[builder->stages++] = builder->plan->op_count;
}

static bool answers_for(const struct plan_builder *builder, struct gguf_string name)
{
    const char *const *part = builder->source.parts;
    for (; part && *part; part++)
        if (name.length >= strlen(*part) && memcmp(name.bytes, *part, strlen(*part)) == 0)
            return true;
    return !builder->source.parts;
}

static bool is_harmless(const struct plan_builder *builder, struct gguf_string name)
{
    if (builder->source.naming && tensor_naming_is_other_part(builder->source.naming, name))
        return true;
    for (size_t i = 0; i < sizeof(harmless_endings) / sizeof(harmless_endings[0]); i++) {
        size_t length = strlen(harmless_endings[i]);
        if (name.length >= length &&
            memcmp(name.bytes + name.length - length, harmless_endings[i], length) == 0)
            return true;
    }
    return false;
}

static enum result check_all_used(const struct plan_builder *builder)
{
    uint32_t count = tensor_table_count(builder->source.tensors);
    for (uint32_t i = 0; i < count; i++) {
        const struct checkpoint_tensor *tensor = tensor_table_at(builder->source.tensors, i);
        struct gguf_string name = tensor->name;
        if (!builder->used[i] && !tensor->part && answers_for(builder, name) &&
            !is_harmless(builder, name))
            return error_set(builder->error, RESULT_UNSUPPORTED,
                             "tensor %.*s is not part of architecture %s as this build knows it",
                             (int)(name.length < 100 ? name.length : 100), name.bytes,
                             builder->plan->config.architecture);
    }
    return RESULT_OK;
}

static enum result check_logits(const struct plan_builder *builder, plan_tensor_id logits)
{
    const struct plan *plan = builder->plan;
    if (logits >= plan->tensor_count || !builder->written[logits] ||
        plan->tensors[logits].rows != PLAN_ROWS_LOGITS ||
        (!plan->config.encoder && plan->tensors[logits].columns != plan_drawn_tokens(plan)))
        return error_set(builder->error, RESULT_INVALID,
                         "the logits are no written tensor of [logit rows, vocabulary]");
    return RESULT_OK;
}

enum result plan_builder_finish(struct plan_builder *builder, plan_tensor_id logits,
                                struct plan **plan)
{
    *plan = NULL;
    if (builder->result == RESULT_OK && builder->source.vision)
        must(logits == PLAN_NONE && builder->stages > 1 &&
             builder->plan->stage_ends[builder->stages - 1] == builder->plan->op_count);
    else if (builder->result == RESULT_OK && (logits != PLAN_NONE || !builder->plan->takes_hidden))
        builder->result = check_logits(builder, logits);
    if (builder->result == RESULT_OK)
        builder->result = check_all_used(builder);
    if (builder->result != RESULT_OK)
        return builder->result;
    builder->plan->logits = logits;
    if (builder->plan->config.encoder && !builder->source.vision)
        builder->plan->lacks_head = builder->plan->pools = true;
    if (builder->source.vision)
        builder->plan->vision.stages = builder->stages - 1;
    *plan = builder->plan;
    builder->plan = NULL;
    return RESULT_OK;
}
