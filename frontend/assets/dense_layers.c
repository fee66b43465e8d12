/*
 * A row is summed in eight parts, so that a processor adds several at once; their order is fixed, so a
 * vector does not depend on the machine's width.
 */
#include "frontend/assets/dense_layers.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ggml_half.h"
#include "proto/hf_config.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "proto/safetensors_file.h"

#define PATH_BYTES       (SENTENCE_FOLDER_BYTES + 32u)
#define ACTIVATION_BYTES 160u
#define PARTS            8u

struct dense_layer {
    uint32_t inputs, outputs;
    bool has_bias, tanh;
    float *weight; /* [outputs][inputs] */
    float *bias;   /* [outputs]; NULL: none */
};

struct dense_layers {
    uint32_t count;
    struct dense_layer at[SENTENCE_DENSE_MAX];
};

/* --- config.json ----------------------------------------------------------------------------- */

static enum result activation_read(struct json_value root, bool *tanh, struct error_text *error)
{
    static const struct {
        const char *name;
        bool tanh;
    } known[] = {{"torch.nn.modules.linear.Identity", false},
                 {"torch.nn.Identity", false},
                 {"torch.nn.modules.activation.Tanh", true},
                 {"torch.nn.Tanh", true}};
    char name[ACTIVATION_BYTES];
    *tanh = true; /* the class's default */
    if (json_value_member_is_null(root, "activation_function"))
        return error_set(error, RESULT_UNSUPPORTED, "activation_function is null");
    enum result result =
        json_value_string(json_value_member(root, "activation_function"), name, sizeof name);
    if (result == RESULT_NOT_FOUND)
        return RESULT_OK;
    if (result != RESULT_OK)
        return error_set(error, result, "activation_function is no name");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            *tanh = known[i].tanh;
            return RESULT_OK;
        }
    }
    return error_set(error, RESULT_UNSUPPORTED, "activation_function %.100s is not supported",
                     name);
}

/* A vector other than the text's is read or written. */
static enum result place_check(struct json_value root, const char *key, struct error_text *error)
{
    char name[64] = "sentence_embedding";
    enum result result = json_value_string(json_value_member(root, key), name, sizeof name);
    return result != RESULT_INVALID && strcmp(name, "sentence_embedding") == 0
               ? RESULT_OK
               : error_set(error, RESULT_UNSUPPORTED, "%s is not sentence_embedding", key);
}

static enum result columns_read(struct json_value root, const char *key, uint32_t *columns,
                                struct error_text *error)
{
    if (json_value_u32(json_value_member(root, key), columns) != RESULT_OK || *columns == 0)
        return error_set(error, RESULT_INVALID, "%s is no number of columns", key);
    return *columns <= LIMIT_HIDDEN ? RESULT_OK
                                    : error_set(error, RESULT_TOO_LARGE, "%s %u is more than %u",
                                                key, *columns, LIMIT_HIDDEN);
}

static enum result flag_read(struct json_value root, const char *key, bool *flag,
                             struct error_text *error)
{
    return json_value_bool(json_value_member(root, key), flag) != RESULT_INVALID
               ? RESULT_OK
               : error_set(error, RESULT_INVALID, "%s is neither true nor false", key);
}

static enum result layer_describe(struct json_value root, uint32_t columns,
                                  struct dense_layer *layer, struct error_text *error)
{
    bool residual = false;
    layer->has_bias = true;
    enum result result = columns_read(root, "in_features", &layer->inputs, error);
    if (result == RESULT_OK)
        result = columns_read(root, "out_features", &layer->outputs, error);
    if (result == RESULT_OK)
        result = flag_read(root, "bias", &layer->has_bias, error);
    if (result == RESULT_OK)
        result = flag_read(root, "use_residual", &residual, error);
    if (result == RESULT_OK)
        result = activation_read(root, &layer->tanh, error);
    if (result == RESULT_OK)
        result = place_check(root, "module_input_name", error);
    if (result == RESULT_OK)
        result = place_check(root, "module_output_name", error);
    if (result != RESULT_OK)
        return result;
    if (residual)
        return error_set(error, RESULT_UNSUPPORTED, "use_residual is not supported");
    if (layer->inputs != columns)
        return error_set(error, RESULT_INVALID, "in_features is %u; the vector before it has %u",
                         layer->inputs, columns);
    if ((uint64_t)layer->inputs * layer->outputs > LIMIT_DENSE_WEIGHTS)
        return error_set(error, RESULT_TOO_LARGE, "in_features times out_features is over %u",
                         LIMIT_DENSE_WEIGHTS);
    return RESULT_OK;
}

/* Opens a file of JSON; the caller closes `file` in any case. */
static enum result json_open(int folder_fd, const char *path, struct mapped_file *file,
                             struct json_value *root, struct error_text *error)
{
    struct error_text reason;
    enum result result = mapped_file_open(folder_fd, path, file, &reason);
    if (result == RESULT_OK)
        result = json_value_open(file->bytes, file->byte_count, LIMIT_CONFIG_BYTES, root, &reason);
    return result == RESULT_OK ? result
                               : error_set(error, result, "%.100s: %.140s", path, reason.text);
}

static enum result layer_configure(int folder_fd, const char *folder, uint32_t columns,
                                   struct dense_layer *layer, struct error_text *error)
{
    char path[PATH_BYTES];
    struct mapped_file file = {0};
    struct json_value root;
    struct error_text reason;
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum result result = json_open(folder_fd, path, &file, &root, error);
    if (result == RESULT_OK) {
        result = layer_describe(root, columns, layer, &reason);
        if (result != RESULT_OK)
            result = error_set(error, result, "%s: %.150s", path, reason.text);
    }
    mapped_file_close(&file);
    return result;
}

/* Columns of the model's vectors. */
static enum result hidden_read(int folder_fd, uint32_t *columns, struct error_text *error)
{
    struct mapped_file file = {0};
    struct json_value root;
    struct error_text reason;
    enum result result = json_open(folder_fd, "config.json", &file, &root, error);
    if (result == RESULT_OK) {
        result = columns_read(hf_config_text(root), "hidden_size", columns, &reason);
        if (result != RESULT_OK)
            result = error_set(error, result, "config.json: %.150s", reason.text);
    }
    mapped_file_close(&file);
    return result;
}

/* --- model.safetensors ----------------------------------------------------------------------- */

static float number_at(const struct safetensors_tensor *tensor, size_t index)
{
    uint32_t bits;
    float number;
    if (tensor->type == SAFETENSORS_F16)
        return ggml_f16_to_f32(ggml_load_u16(tensor->data + 2 * index));
    if (tensor->type == SAFETENSORS_BF16)
        bits = (uint32_t)ggml_load_u16(tensor->data + 2 * index) << 16;
    else
        bits = ggml_load_u16(tensor->data + 4 * index) |
               (uint32_t)ggml_load_u16(tensor->data + 4 * index + 2) << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* `columns` 0: a list of `rows` numbers. */
static enum result numbers_copy(const struct safetensors_file *file, const char *name,
                                uint32_t rows, uint32_t columns, float **numbers,
                                struct error_text *error)
{
    const struct safetensors_tensor *tensor = safetensors_file_find_tensor(file, name);
    size_t count = (size_t)rows * (columns > 0 ? columns : 1);
    if (!tensor)
        return error_set(error, RESULT_INVALID, "%s is missing", name);
    if (tensor->type != SAFETENSORS_F32 && tensor->type != SAFETENSORS_F16 &&
        tensor->type != SAFETENSORS_BF16)
        return error_set(error, RESULT_UNSUPPORTED, "%s has the type %s", name,
                         safetensors_type_name(tensor->type));
    if (tensor->dimension_count != (columns > 0 ? 2u : 1u) || tensor->dimensions[0] != rows ||
        (columns > 0 && tensor->dimensions[1] != columns))
        return error_set(error, RESULT_INVALID, "%s has another shape than config.json says", name);
    *numbers = malloc(count * sizeof **numbers);
    if (!*numbers)
        return error_set(error, RESULT_OUT_OF_MEMORY, "no memory for %s", name);
    for (size_t i = 0; i < count; i++) {
        (*numbers)[i] = number_at(tensor, i);
        if (!isfinite((*numbers)[i]))
            return error_set(error, RESULT_INVALID, "%s has a number that is not finite", name);
    }
    return RESULT_OK;
}

static enum result numbers_read(const struct safetensors_file *file, struct dense_layer *layer,
                                struct error_text *error)
{
    for (uint32_t i = 0; i < safetensors_file_tensor_count(file); i++) {
        const char *name = safetensors_file_tensor(file, i)->name;
        if (strcmp(name, "linear.weight") != 0 &&
            !(layer->has_bias && strcmp(name, "linear.bias") == 0))
            return error_set(error, RESULT_UNSUPPORTED, "%.100s is not expected", name);
    }
    enum result result =
        numbers_copy(file, "linear.weight", layer->outputs, layer->inputs, &layer->weight, error);
    if (result == RESULT_OK && layer->has_bias)
        result = numbers_copy(file, "linear.bias", layer->outputs, 0, &layer->bias, error);
    return result;
}

static enum result layer_load(int folder_fd, const char *folder, struct dense_layer *layer,
                              struct error_text *error)
{
    char path[PATH_BYTES];
    struct mapped_file bytes = {0};
    struct safetensors_file *file = NULL;
    struct error_text reason;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    enum result result = mapped_file_open(folder_fd, path, &bytes, &reason);
    if (result == RESULT_OK)
        result = safetensors_file_open(bytes.bytes, bytes.byte_count, &file, &reason);
    if (result == RESULT_OK)
        result = numbers_read(file, layer, &reason);
    safetensors_file_close(file);
    mapped_file_close(&bytes);
    return result == RESULT_OK ? result : error_set(error, result, "%s: %.150s", path, reason.text);
}

/* --- all of them ----------------------------------------------------------------------------- */

enum result dense_layers_open(int folder_fd, const struct sentence_modules *modules,
                              struct dense_layers **layers, struct error_text *error)
{
    uint32_t columns = 0;
    *layers = NULL;
    if (modules->dense_count == 0)
        return RESULT_OK;
    struct dense_layers *made = must_alloc(1, sizeof *made);
    enum result result = hidden_read(folder_fd, &columns, error);
    for (uint32_t i = 0; i < modules->dense_count && result == RESULT_OK; i++) {
        struct dense_layer *layer = &made->at[made->count++];
        result = layer_configure(folder_fd, modules->dense[i], columns, layer, error);
        if (result == RESULT_OK)
            result = layer_load(folder_fd, modules->dense[i], layer, error);
        columns = layer->outputs;
    }
    if (result == RESULT_OK)
        *layers = made;
    else
        dense_layers_close(made);
    return result;
}

void dense_layers_close(struct dense_layers *layers)
{
    if (!layers)
        return;
    for (uint32_t i = 0; i < layers->count; i++) {
        free(layers->at[i].weight);
        free(layers->at[i].bias);
    }
    free(layers);
}

uint32_t dense_layers_inputs(const struct dense_layers *layers)
{
    return layers->at[0].inputs;
}

uint32_t dense_layers_outputs(const struct dense_layers *layers)
{
    return layers->at[layers->count - 1].outputs;
}

static double row_sum(const float *row, const float *vector, uint32_t columns)
{
    double parts[PARTS] = {0}, sum = 0;
    uint32_t c = 0;
    for (; c + PARTS <= columns; c += PARTS)
        for (uint32_t p = 0; p < PARTS; p++)
            parts[p] += (double)row[c + p] * (double)vector[c + p];
    for (; c < columns; c++)
        sum += (double)row[c] * (double)vector[c];
    for (uint32_t p = 0; p < PARTS; p++)
        sum += parts[p];
    return sum;
}

static float *layer_apply(const struct dense_layer *layer, const float *vector)
{
    float *result = malloc(layer->outputs * sizeof *result);
    if (!result)
        return NULL;
    for (uint32_t r = 0; r < layer->outputs; r++) {
        double y = row_sum(layer->weight + (size_t)r * layer->inputs, vector, layer->inputs);
        y += layer->bias ? (double)layer->bias[r] : 0;
        y = layer->tanh ? tanh(y) : fmax(fmin(y, (double)FLT_MAX), -(double)FLT_MAX);
        result[r] = (float)y;
    }
    return result;
}

float *dense_layers_apply(const struct dense_layers *layers, const float *vector)
{
    float *result = NULL;
    for (uint32_t i = 0; i < layers->count; i++) {
        float *next = layer_apply(&layers->at[i], i > 0 ? result : vector);
        free(result);
        result = next;
        if (!result)
            return NULL;
    }
    return result;
}
