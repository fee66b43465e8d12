/*
 * Both formats become one list of tensors with the names of their weights; the rest is the same: find
 * the weight, pair the tensors, compare shapes, read every value.
 *
 * The number of tensors is bounded by twice the plan's weights before anything is searched, so a file
 * of many tiny tensors costs nothing.
 */
#include "worker/model/lora/lora_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "proto/safetensors_file.h"
#include "worker/model/lora/lora_config.h"

#define TENSORS_FILE "adapter_model.safetensors"
#define NAME_BYTES   (LIMIT_GGUF_NAME_BYTES + 1)

/* Where decoder layers may lie in a model; the same in the checkpoint's and the adapter's names. */
static const char *const LAYER_PREFIXES[] = {"",
                                             "model.",
                                             "language_model.",
                                             "language_model.model.",
                                             "model.language_model.",
                                             "model.text_model.",
                                             "text_model."};

struct lora_source {
    const struct plan *plan;
    struct lora_adapter *adapter;
    const char *file;          /* for error texts */
    struct lora_config config; /* of a PEFT adapter */
    bool has_config;
    float alpha; /* of a GGUF adapter */
};

/* One half of a pair as its file has it. */
struct lora_half {
    char name[NAME_BYTES];   /* of the tensor */
    char weight[NAME_BYTES]; /* of the weight it belongs to */
    bool is_b;
    struct lora_matrix matrix;
};

/* The part of a name after the prefix of decoder layers, "layers.3.mlp.up_proj.weight"; NULL if the
 * name is not of a decoder layer. */
static const char *layer_part(const char *name)
{
    const char *layers = strstr(name, "layers.");
    for (size_t i = 0; layers && i < sizeof LAYER_PREFIXES / sizeof LAYER_PREFIXES[0]; i++)
        if (strlen(LAYER_PREFIXES[i]) == (size_t)(layers - name) &&
            strncmp(name, LAYER_PREFIXES[i], (size_t)(layers - name)) == 0)
            return layers;
    return NULL;
}

/* The plan's weight of that name, or of the same place in the decoder layers; PLAN_NONE. */
static plan_weight_id find_weight(const struct plan *plan, const char *name)
{
    const char *wanted = layer_part(name);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t w = 0; w < plan->weight_count; w++) {
            const char *stored = plan->weights[w].name;
            if (pass == 0 && strcmp(stored, name) == 0)
                return (plan_weight_id)w;
            const char *part = pass == 1 && wanted ? layer_part(stored) : NULL;
            if (part && strcmp(part, wanted) == 0)
                return (plan_weight_id)w;
        }
    }
    return PLAN_NONE;
}

/* Whether all uses of the weight are products. */
static bool is_projection(const struct plan *plan, plan_weight_id weight)
{
    bool used = false;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct plan_op *op = &plan->ops[i];
        for (uint32_t slot = 0; slot < OP_WEIGHTS_MAX; slot++) {
            if (op->weights[slot] != weight)
                continue;
            if (op->stem != OP_linear && op->stem != OP_linear_add)
                return false;
            used = true;
        }
    }
    return used && plan->weights[weight].experts == 0;
}

/* Types of tensors, with the bits of an infinite or NaN element: of Q8_0, of a block's scale. */
struct element_facts {
    enum ggml_type type;
    uint32_t stride_bytes; /* between values to check */
    uint32_t value_bytes;
    uint32_t exponent; /* all ones: not finite */
};
static const struct element_facts ELEMENTS[] = {
    {GGML_F32, 4, 4, 0x7f800000u},
    {GGML_F16, 2, 2, 0x7c00u},
    {GGML_BF16, 2, 2, 0x7f80u},
    {GGML_Q8_0, 34, 2, 0x7c00u},
};

static const struct element_facts *facts_of(enum ggml_type type)
{
    for (size_t i = 0; i < sizeof ELEMENTS / sizeof ELEMENTS[0]; i++)
        if (ELEMENTS[i].type == type)
            return &ELEMENTS[i];
    return NULL;
}

static enum result check_values(const struct lora_source *source, const struct lora_half *half,
                                struct error_text *error)
{
    const struct lora_matrix *matrix = &half->matrix;
    const struct element_facts *facts = facts_of(matrix->type);
    struct ggml_block block = ggml_type_block(matrix->type);
    uint64_t bytes = (uint64_t)matrix->rows * matrix->columns / block.elements * block.bytes;
    bool finite = true;
    for (uint64_t at = 0; at < bytes; at += facts->stride_bytes) {
        uint32_t bits = 0;
        memcpy(&bits, matrix->data + at, facts->value_bytes);
        finite &= (bits & facts->exponent) != facts->exponent;
    }
    if (finite)
        return RESULT_OK;
    return error_set(error, RESULT_INVALID, "%s: tensor %.120s has a value that is not finite",
                     source->file, half->name);
}

static enum result check_shape(const struct lora_source *source, const struct lora_half *half,
                               const struct plan_weight *weight, struct error_text *error)
{
    const struct lora_matrix *matrix = &half->matrix;
    uint32_t rank = half->is_b ? matrix->columns : matrix->rows;
    uint32_t have = half->is_b ? matrix->rows : matrix->columns;
    uint32_t want = half->is_b ? weight->rows : weight->columns;
    if (have != want)
        return error_set(error, RESULT_INVALID,
                         "%s: tensor %.100s is [%u, %u]; the weight %.60s is [%u, %u]",
                         source->file, half->name, matrix->rows, matrix->columns, weight->name,
                         weight->rows, weight->columns);
    if (rank < 1 || rank > LIMIT_ADAPTER_RANK)
        return error_set(error, RESULT_UNSUPPORTED,
                         "%s: tensor %.120s has rank %u; 1 to %u are supported", source->file,
                         half->name, rank, LIMIT_ADAPTER_RANK);
    return RESULT_OK;
}

/* The adapter's pair of the weight, which is added if it is new. */
static struct lora_pair *pair_of(struct lora_adapter *adapter, plan_weight_id weight)
{
    for (uint32_t i = adapter->pair_count; i-- > 0;)
        if (adapter->pairs[i].weight == weight)
            return &adapter->pairs[i];
    struct lora_pair *pair = &adapter->pairs[adapter->pair_count++];
    *pair = (struct lora_pair){.weight = weight};
    return pair;
}

static enum result add_half(struct lora_source *source, const struct lora_half *half,
                            struct error_text *error)
{
    const struct plan *plan = source->plan;
    plan_weight_id id = find_weight(plan, half->weight);
    if (id == PLAN_NONE || !is_projection(plan, id))
        return error_set(error, RESULT_UNSUPPORTED,
                         "%s: tensor %.100s: the model has no projection %.80s that an adapter "
                         "can change",
                         source->file, half->name, half->weight);
    enum result result = check_shape(source, half, &plan->weights[id], error);
    if (result == RESULT_OK)
        result = check_values(source, half, error);
    if (result != RESULT_OK)
        return result;
    struct lora_pair *pair = pair_of(source->adapter, id);
    struct lora_matrix *place = half->is_b ? &pair->b : &pair->a;
    if (place->data)
        return error_set(error, RESULT_INVALID, "%s: tensor %.120s: the weight has another one",
                         source->file, half->name);
    *place = half->matrix;
    return RESULT_OK;
}

/* The module of a weight: its name without ".weight". */
static void module_of(const char *weight, char module[NAME_BYTES])
{
    size_t length = strlen(weight);
    size_t end = strlen(".weight");
    strcpy(module, weight);
    if (length > end && strcmp(module + length - end, ".weight") == 0)
        module[length - end] = '\0';
}

/* After the last tensor: every pair is whole, and gets its scale. */
static enum result finish(struct lora_source *source, struct error_text *error)
{
    struct lora_adapter *adapter = source->adapter;
    if (adapter->pair_count == 0)
        return error_set(error, RESULT_INVALID, "%s: it has no tensors", source->file);
    for (uint32_t i = 0; i < adapter->pair_count; i++) {
        struct lora_pair *pair = &adapter->pairs[i];
        const char *name = source->plan->weights[pair->weight].name;
        char module[NAME_BYTES];
        if (!pair->a.data || !pair->b.data)
            return error_set(error, RESULT_INVALID, "%s: the tensor %s of weight %.120s is missing",
                             source->file, pair->a.data ? "B" : "A", name);
        if (pair->a.rows != pair->b.columns)
            return error_set(error, RESULT_INVALID,
                             "%s: the tensors of weight %.120s have ranks %u and %u", source->file,
                             name, pair->a.rows, pair->b.columns);
        if (adapter->rank < pair->a.rows)
            adapter->rank = pair->a.rows;
        pair->scale = source->alpha / (float)pair->a.rows;
        module_of(name, module);
        enum result result = RESULT_OK;
        if (source->has_config)
            result = lora_config_scale(&source->config, module, pair->a.rows, &pair->scale, error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* Cuts `ending` off the name; false if it does not end so. */
static bool cut_ending(char *name, const char *ending)
{
    size_t length = strlen(name), end = strlen(ending);
    if (length <= end || strcmp(name + length - end, ending) != 0)
        return false;
    name[length - end] = '\0';
    return true;
}

static enum result reserve(struct lora_source *source, uint32_t tensors, struct error_text *error)
{
    if (tensors > 2 * source->plan->weight_count)
        return error_set(error, RESULT_TOO_LARGE, "%s: it has %u tensors; the model has %u weights",
                         source->file, tensors, source->plan->weight_count);
    source->adapter->pairs = must_alloc(tensors + 1, sizeof *source->adapter->pairs);
    return RESULT_OK;
}

/* --- PEFT -------------------------------------------------------------------------------------- */

static enum result peft_half(const struct lora_source *source,
                             const struct safetensors_tensor *tensor, struct lora_half *half,
                             struct error_text *error)
{
    static const char prefix[] = "base_model.model.";
    *half = (struct lora_half){0};
    strcpy(half->name, tensor->name);
    if (strncmp(tensor->name, prefix, sizeof prefix - 1) != 0)
        return error_set(error, RESULT_INVALID,
                         "%s: the name of tensor %.120s does not begin with %s", source->file,
                         tensor->name, prefix);
    strcpy(half->weight, tensor->name + sizeof prefix - 1);
    half->is_b = cut_ending(half->weight, ".lora_B.weight");
    if (!half->is_b && !cut_ending(half->weight, ".lora_A.weight"))
        return error_set(error, RESULT_UNSUPPORTED,
                         "%s: tensor %.120s: only lora_A and lora_B of linear layers are supported",
                         source->file, tensor->name);
    strcat(half->weight, ".weight"); /* shorter than what was cut off */
    switch (tensor->type) {
    case SAFETENSORS_F32: half->matrix.type = GGML_F32; break;
    case SAFETENSORS_F16: half->matrix.type = GGML_F16; break;
    case SAFETENSORS_BF16: half->matrix.type = GGML_BF16; break;
    default:
        return error_set(error, RESULT_UNSUPPORTED, "%s: tensor %.120s has type %s", source->file,
                         tensor->name, safetensors_type_name(tensor->type));
    }
    const uint64_t *sides = tensor->dimensions;
    if (tensor->dimension_count != 2 || sides[0] < 1 || sides[1] < 1 || sides[0] > UINT32_MAX ||
        sides[1] > UINT32_MAX)
        return error_set(error, RESULT_INVALID, "%s: tensor %.120s is not a matrix", source->file,
                         tensor->name);
    half->matrix.rows = (uint32_t)sides[0];
    half->matrix.columns = (uint32_t)sides[1];
    half->matrix.data = tensor->data;
    return RESULT_OK;
}

static enum result read_peft(struct lora_source *source, const struct lora_bytes *bytes,
                             struct error_text *error)
{
    struct safetensors_file *file = NULL;
    struct error_text reason;
    source->file = TENSORS_FILE;
    source->has_config = true;
    enum result result =
        lora_config_read(bytes->config, bytes->config_bytes, &source->config, error);
    if (result != RESULT_OK)
        return result;
    result = safetensors_file_open(bytes->tensors, bytes->tensor_bytes, &file, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, TENSORS_FILE ": %.180s", reason.text);
    uint32_t count = safetensors_file_tensor_count(file);
    result = reserve(source, count, error);
    for (uint32_t i = 0; i < count && result == RESULT_OK; i++) {
        struct lora_half half;
        result = peft_half(source, safetensors_file_tensor(file, i), &half, error);
        if (result == RESULT_OK)
            result = add_half(source, &half, error);
    }
    safetensors_file_close(file);
    return result == RESULT_OK ? finish(source, error) : result;
}

/* --- GGUF -------------------------------------------------------------------------------------- */

static enum result gguf_half(const struct lora_source *source, const struct gguf_tensor *tensor,
                             struct lora_half *half, struct error_text *error)
{
    *half = (struct lora_half){0};
    must(tensor->name.length < NAME_BYTES);
    memcpy(half->name, tensor->name.bytes, tensor->name.length);
    strcpy(half->weight, half->name);
    half->is_b = cut_ending(half->weight, ".lora_b");
    if (!half->is_b && !cut_ending(half->weight, ".lora_a"))
        return error_set(error, RESULT_UNSUPPORTED,
                         "%s: tensor %.120s: only lora_a and lora_b of weights are supported",
                         source->file, half->name);
    if (!facts_of(tensor->type) || tensor->dimensions[0] % ggml_type_block(tensor->type).elements)
        return error_set(error, RESULT_UNSUPPORTED, "%s: tensor %.120s has type %s", source->file,
                         half->name, ggml_type_name(tensor->type));
    const uint64_t *sides = tensor->dimensions;
    if (tensor->dimension_count > 2 || sides[0] > UINT32_MAX || sides[1] > UINT32_MAX)
        return error_set(error, RESULT_INVALID, "%s: tensor %.120s is not a matrix", source->file,
                         half->name);
    half->matrix = (struct lora_matrix){.type = tensor->type,
                                        .rows = (uint32_t)sides[1],
                                        .columns = (uint32_t)sides[0],
                                        .data = tensor->data};
    return RESULT_OK;
}

static bool text_is(const struct gguf_file *file, const char *key, const char *text)
{
    struct gguf_string value;
    return gguf_file_string(file, key, &value) == RESULT_OK && value.length == strlen(text) &&
           memcmp(value.bytes, text, value.length) == 0;
}

static enum result gguf_head(struct lora_source *source, const struct gguf_file *file,
                             struct error_text *error)
{
    struct gguf_array tokens;
    if (!text_is(file, "general.type", "adapter"))
        return error_set(error, RESULT_INVALID, "%s: general.type is not adapter", source->file);
    if (!text_is(file, "adapter.type", "lora"))
        return error_set(error, RESULT_UNSUPPORTED, "%s: adapter.type is not lora", source->file);
    if (!text_is(file, "general.architecture", source->plan->config.architecture))
        return error_set(error, RESULT_INVALID, "%s: general.architecture is not the model's, %s",
                         source->file, source->plan->config.architecture);
    if (gguf_file_array(file, "adapter.alora.invocation_tokens", &tokens) != RESULT_NOT_FOUND)
        return error_set(error, RESULT_UNSUPPORTED,
                         "%s: adapter.alora.invocation_tokens is not supported", source->file);
    if (gguf_file_f32(file, "adapter.lora.alpha", &source->alpha) != RESULT_OK ||
        !isfinite(source->alpha))
        return error_set(error, RESULT_INVALID, "%s: adapter.lora.alpha must be a finite number",
                         source->file);
    return RESULT_OK;
}

static enum result read_gguf(struct lora_source *source, const struct lora_bytes *bytes,
                             struct error_text *error)
{
    struct gguf_file *file = NULL;
    struct error_text reason;
    source->file = "the GGUF file";
    enum result result = gguf_file_open(bytes->tensors, bytes->tensor_bytes, &file, &reason);
    if (result != RESULT_OK)
        return error_set(error, result, "%s: %.180s", source->file, reason.text);
    uint32_t count = gguf_file_tensor_count(file);
    result = gguf_head(source, file, error);
    if (result == RESULT_OK)
        result = reserve(source, count, error);
    for (uint32_t i = 0; i < count && result == RESULT_OK; i++) {
        struct lora_half half;
        result = gguf_half(source, gguf_file_tensor(file, i), &half, error);
        if (result == RESULT_OK)
            result = add_half(source, &half, error);
    }
    gguf_file_close(file);
    return result == RESULT_OK ? finish(source, error) : result;
}

enum result lora_file_open(const struct lora_bytes *bytes, const struct plan *plan,
                           struct lora_adapter *adapter, struct error_text *error)
{
    struct lora_source source = {.plan = plan, .adapter = adapter};
    *adapter = (struct lora_adapter){0};
    enum result result =
        bytes->config ? read_peft(&source, bytes, error) : read_gguf(&source, bytes, error);
    if (result != RESULT_OK)
        lora_file_close(adapter);
    return result;
}

void lora_file_close(struct lora_adapter *adapter)
{
    free(adapter->pairs);
    *adapter = (struct lora_adapter){0};
}
