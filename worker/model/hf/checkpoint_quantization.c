/*
 * Finds out which tensors of a folder are quantized, and how.
 *
 * MLX writes "quantization": bits, group_size and mode for all modules, and under a module's name
 * an object with its own settings, or false for an unquantized module. It repeats the object as
 * "quantization_config" without a quant_method. Hugging Face writes "quantization_config" with a
 * quant_method. Supported are methods that store 8-bit floats (fp8, fbgemm_fp8, compressed-tensors
 * and modelopt), 4-bit floats (mxfp4, compressed-tensors, modelopt), nibbles with a table
 * (bitsandbytes), or integers in words (awq, gptq, compressed-tensors' pack-quantized); unquantized modules are recognized by their tensors'
 * types. Other methods are refused by name. Scales of activations and caches are not used, since
 * neither is quantized that way here.
 *
 * Sources: MLX (mlx.nn.quantize, mlx-lm's loading); Hugging Face transformers, quantizers (AwqConfig,
 * GPTQConfig); compressed-tensors, its configuration.
 */
#include "worker/model/hf/checkpoint_quantization.h"

#include <stdio.h>
#include <string.h>

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/model/hf/integer_tensors.h"
#include "worker/model/hf/nibble_tensors.h"
#include "worker/model/hf/quantized_tensors.h"

#define METHODS                                                                                    \
    "awq, bitsandbytes, gptq, fp8, fbgemm_fp8, compressed-tensors, modelopt and mxfp4 are read"

/* Defaults of mlx.nn.quantize(). */
#define MLX_GROUP 64u
#define MLX_BITS  4u

static const char *const unused_endings[] = {
    ".input_scale", ".input_global_scale", ".activation_scale",    ".k_scale",
    ".v_scale",     ".kv_scale",           ".k_proj.output_scale", ".v_proj.output_scale",
};

/* --- MLX -------------------------------------------------------------------------------------- */

static struct mlx_groups read_groups(struct checkpoint_keys *keys)
{
    struct mlx_groups groups = {0};
    struct gguf_string mode = checkpoint_keys_string_or_empty(keys, "mode");
    groups.fp4 = checkpoint_keys_is(mode, "mxfp4");
    if (mode.length > 0 && !groups.fp4 && !checkpoint_keys_is(mode, "affine"))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s: mode \"%.*s\" is not read",
                               keys->section, (int)(mode.length < 32 ? mode.length : 32),
                               mode.bytes);
    groups.group = checkpoint_keys_u32_or(keys, "group_size", (struct u32_range){1, 1024},
                                          groups.fp4 ? 32 : MLX_GROUP);
    groups.bits = checkpoint_keys_u32_or(keys, "bits", (struct u32_range){1, 16}, MLX_BITS);
    bool affine_group = groups.group == 32 || groups.group == 64 || groups.group == 128;
    bool affine_bits = groups.bits >= 2 && groups.bits <= 8 && groups.bits != 7;
    if (groups.fp4 ? groups.group != 32 || groups.bits != 4 : !affine_group || !affine_bits)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s: %u bits in groups of %u are not read",
                               keys->section, groups.bits, groups.group);
    return groups;
}

/* The settings of one module: its own, or those for all modules. */
static struct mlx_groups module_groups(struct checkpoint_keys *keys,
                                       const struct checkpoint_tensor *tensor,
                                       struct mlx_groups all)
{
    char module[LIMIT_GGUF_NAME_BYTES];
    bool quantized = true;
    size_t length = tensor->name.length - strlen(".weight");
    if (length >= sizeof module)
        return all;
    snprintf(module, sizeof module, "%.*s", (int)length, tensor->name.bytes);
    struct json_value own = json_value_member(keys->object, module);
    if (json_value_type(own) == JSON_ABSENT)
        return all;
    if (json_value_bool(own, &quantized) == RESULT_OK) {
        if (!quantized)
            checkpoint_keys_refuse(keys, RESULT_INVALID,
                                   "%s: %.100s is not quantized, but its weight is of type %s",
                                   keys->section, module, tensor->type_name);
        return all;
    }
    struct checkpoint_keys inner = {.object = own, .result = keys->result, .error = keys->error};
    snprintf(inner.section, sizeof inner.section, "%.31s", module);
    if (json_value_type(own) != JSON_OBJECT)
        checkpoint_keys_refuse(&inner, RESULT_INVALID,
                               "%s: %.100s is neither an object nor true or false", keys->section,
                               module);
    struct mlx_groups groups = read_groups(&inner);
    checkpoint_keys_leave(keys, &inner);
    return groups;
}

static enum result apply_mlx(struct checkpoint_keys *keys, struct tensor_table *table,
                             struct error_text *error)
{
    struct mlx_groups all = read_groups(keys);
    for (uint32_t i = 0; i < tensor_table_count(table) && keys->result == RESULT_OK; i++) {
        const struct checkpoint_tensor *tensor = tensor_table_at(table, i);
        if (!quantized_tensors_match(tensor, "U32", ".weight"))
            continue;
        struct mlx_groups groups = module_groups(keys, tensor, all);
        if (keys->result != RESULT_OK)
            break;
        enum result result = quantized_tensors_join_mlx(table, i, groups, error);
        if (result != RESULT_OK)
            return result;
    }
    return keys->result == RESULT_OK
               ? RESULT_OK
               : error_set(error, keys->result, "config.json: %s", keys->error->text);
}

/* --- Hugging Face's methods ------------------------------------------------------------------- */

static void leave_unused(struct tensor_table *table)
{
    for (uint32_t i = 0; i < tensor_table_count(table); i++) {
        struct checkpoint_tensor *tensor = tensor_table_edit(table, i);
        for (size_t e = 0; e < sizeof unused_endings / sizeof unused_endings[0]; e++)
            tensor->part |= quantized_tensors_match(tensor, tensor->type_name, unused_endings[e]);
    }
}

static enum result apply_fp8(struct tensor_table *table, struct fp8_block block,
                             struct error_text *error)
{
    for (uint32_t i = 0; i < tensor_table_count(table); i++) {
        enum result result = RESULT_OK;
        if (quantized_tensors_match(tensor_table_at(table, i), "F8_E4M3", ".weight"))
            result = quantized_tensors_join_fp8(table, i, block, error);
        if (result != RESULT_OK)
            return result;
    }
    leave_unused(table);
    return RESULT_OK;
}

static enum result apply_fp4(struct tensor_table *table, struct error_text *error)
{
    for (uint32_t i = 0; i < tensor_table_count(table); i++) {
        const struct checkpoint_tensor *tensor = tensor_table_at(table, i);
        enum result result = RESULT_OK;
        if (!tensor->part && quantized_tensors_match(tensor, "U8", "_blocks"))
            result = quantized_tensors_join_fp4(table, i, error);
        if (result != RESULT_OK)
            return result;
    }
    return tensor_table_finish(table, error); /* sort again: names changed */
}

/* Reads [rows, columns]; 0 by 0 if absent. */
static struct fp8_block read_block(struct checkpoint_keys *keys, const char *name)
{
    uint32_t sizes[2] = {0, 0}, count = 0;
    struct json_value array = json_value_member(keys->object, name), element;
    bool fit = true;
    for (struct json_reader at = json_value_elements(array); json_value_next(&at, &element);
         count++)
        fit &= count < 2 && json_value_u32(element, &sizes[count & 1]) == RESULT_OK;
    if (json_value_type(array) != JSON_ABSENT &&
        (!fit || count != 2 || sizes[0] == 0 || sizes[1] == 0))
        checkpoint_keys_refuse(keys, RESULT_INVALID, "%s.%s is not two counts above 0",
                               keys->section, name);
    return (struct fp8_block){sizes[0], sizes[1]};
}

static void refuse_weights(struct checkpoint_keys *keys, struct gguf_string method)
{
    checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                           "quantization_config: \"%.*s\" is read with weights of 8-bit floats "
                           "(E4M3) only",
                           (int)(method.length < 32 ? method.length : 32), method.bytes);
}

/* compressed-tensors states weights in groups of layers; every group must be 8-bit floats. */
static struct fp8_block read_compressed(struct checkpoint_keys *keys, struct gguf_string method)
{
    struct fp8_block block = {0, 0};
    struct checkpoint_keys groups = checkpoint_keys_enter(keys, "config_groups");
    char name[32];
    for (uint32_t i = 0; i < 16 && groups.result == RESULT_OK; i++) {
        snprintf(name, sizeof name, "group_%u", i);
        struct checkpoint_keys group = checkpoint_keys_enter(&groups, name);
        if (json_value_type(group.object) == JSON_ABSENT && i > 0)
            break;
        struct checkpoint_keys weights = checkpoint_keys_enter(&group, "weights");
        struct gguf_string type = checkpoint_keys_string_or_empty(&weights, "type");
        uint32_t bits = checkpoint_keys_u32_or(&weights, "num_bits", (struct u32_range){0, 64}, 0);
        if (bits != 8 || !checkpoint_keys_is(type, "float"))
            refuse_weights(&weights, method);
        struct fp8_block own = read_block(&weights, "block_structure");
        block = own.rows > 0 ? own : block;
        checkpoint_keys_leave(&group, &weights);
        checkpoint_keys_leave(&groups, &group);
    }
    checkpoint_keys_leave(keys, &groups);
    return block;
}

/* --- integers --------------------------------------------------------------------------------- */

static void refuse_string(struct checkpoint_keys *keys, const char *name, struct gguf_string value)
{
    checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "quantization_config: %s \"%.*s\" is not read",
                           name, (int)(value.length < 32 ? value.length : 32), value.bytes);
}

/* 0 (a scale per row) if the key is absent, null or -1. */
static uint32_t read_group(struct checkpoint_keys *keys, uint32_t absent)
{
    float number = 0.0f;
    struct json_value value = json_value_member(keys->object, "group_size");
    if (json_value_f32(value, &number) == RESULT_OK && number == -1.0f)
        return 0;
    return checkpoint_keys_u32_or(keys, "group_size", (struct u32_range){1, 1u << 20}, absent);
}

/* compressed-tensors, pack-quantized: all groups of layers alike. */
static struct integer_scheme read_packed(struct checkpoint_keys *keys)
{
    struct integer_scheme scheme = {.layout = WEIGHT_PACKED};
    struct checkpoint_keys all = checkpoint_keys_enter(keys, "config_groups");
    struct checkpoint_keys first = checkpoint_keys_enter(&all, "group_0");
    struct checkpoint_keys weights = checkpoint_keys_enter(&first, "weights");
    struct gguf_string type = checkpoint_keys_string_or_empty(&weights, "type");
    struct gguf_string strategy = checkpoint_keys_string_or_empty(&weights, "strategy");
    scheme.zeros = !checkpoint_keys_bool_or(&weights, "symmetric", true);
    scheme.bits = checkpoint_keys_u32_or(&weights, "num_bits", (struct u32_range){0, 64}, 0);
    if (checkpoint_keys_is(strategy, "group"))
        scheme.group = checkpoint_keys_u32(&weights, "group_size", (struct u32_range){1, 1u << 20});
    else if (!checkpoint_keys_is(strategy, "channel"))
        refuse_string(&weights, "strategy", strategy);
    bool other = json_value_type(json_value_member(all.object, "group_1")) != JSON_ABSENT;
    if (scheme.bits < 2 || scheme.bits > 8 || !checkpoint_keys_is(type, "int") || other)
        checkpoint_keys_refuse(&weights, RESULT_UNSUPPORTED,
                               "quantization_config: pack-quantized is read with one group of "
                               "integers of 2 to 8 bits");
    checkpoint_keys_leave(&first, &weights);
    checkpoint_keys_leave(&all, &first);
    checkpoint_keys_leave(keys, &all);
    return scheme;
}

static struct integer_scheme read_awq(struct checkpoint_keys *keys)
{
    struct integer_scheme scheme = {.layout = WEIGHT_AWQ, .zeros = true};
    struct gguf_string version = checkpoint_keys_string_or_empty(keys, "version");
    if (version.length == 0)
        version = checkpoint_keys_string_or_empty(keys, "format");
    if (version.length > 0 && !checkpoint_keys_is(version, "gemm") &&
        !checkpoint_keys_is(version, "GEMM"))
        refuse_string(keys, "version", version);
    scheme.bits = checkpoint_keys_u32_or(keys, "bits", (struct u32_range){1, 16}, 4);
    scheme.group = read_group(keys, 128);
    if (scheme.bits != 4)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED, "%s: awq is read with 4 bits, not %u",
                               keys->section, scheme.bits);
    return scheme;
}

static struct integer_scheme read_gptq(struct checkpoint_keys *keys)
{
    struct integer_scheme scheme = {.layout = WEIGHT_GPTQ, .zeros = true, .zero_step = 1};
    struct gguf_string format = checkpoint_keys_string_or_empty(keys, "checkpoint_format");
    if (format.length == 0)
        format = checkpoint_keys_string_or_empty(keys, "format");
    if (checkpoint_keys_is(format, "gptq_v2"))
        scheme.zero_step = 0;
    else if (format.length > 0 && !checkpoint_keys_is(format, "gptq"))
        refuse_string(keys, "checkpoint_format", format);
    scheme.bits = checkpoint_keys_u32(keys, "bits", (struct u32_range){1, 16});
    scheme.group = read_group(keys, 128);
    if (scheme.bits != 2 && scheme.bits != 3 && scheme.bits != 4 && scheme.bits != 8)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "%s: gptq is read with 2, 3, 4 and 8 bits, not %u", keys->section,
                               scheme.bits);
    struct json_value modules = json_value_member(keys->object, "dynamic"), module;
    struct json_reader at = json_value_elements(modules);
    bool has_modules = json_value_type(modules) == JSON_OBJECT || json_value_next(&at, &module);
    if (has_modules && modules.byte_count > 2) /* more than {} */
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "%s: modules with settings of their own (dynamic) are not read",
                               keys->section);
    return scheme;
}

static enum result apply_integers(struct checkpoint_keys *keys, struct integer_scheme scheme,
                                  struct tensor_table *table, struct error_text *error)
{
    if (keys->result != RESULT_OK)
        return error_set(error, keys->result, "config.json: %s", keys->error->text);
    for (uint32_t i = 0; i < tensor_table_count(table); i++) {
        enum result result = RESULT_OK;
        if (integer_tensors_match(tensor_table_at(table, i), scheme.layout))
            result = integer_tensors_join(table, i, scheme, error);
        if (result != RESULT_OK)
            return result;
    }
    leave_unused(table);
    return tensor_table_finish(table, error); /* sort again: names changed */
}

/* --- nibbles ---------------------------------------------------------------------------------- */

static enum result apply_nibbles(struct checkpoint_keys *keys, enum nibble_form form,
                                 struct tensor_table *table, struct error_text *error)
{
    if (form == NIBBLES_TABLE && !checkpoint_keys_bool_or(keys, "load_in_4bit", false))
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "%s: bitsandbytes is read with load_in_4bit", keys->section);
    if (keys->result != RESULT_OK)
        return error_set(error, keys->result, "config.json: %s", keys->error->text);
    for (uint32_t i = 0; i < tensor_table_count(table); i++) {
        enum result result = RESULT_OK;
        if (nibble_tensors_match(tensor_table_at(table, i), form))
            result = nibble_tensors_join(table, i, form, error);
        if (result != RESULT_OK)
            return result;
    }
    leave_unused(table);
    return tensor_table_finish(table, error); /* sort again: names changed */
}

/* --- methods ---------------------------------------------------------------------------------- */

static enum result apply_method(struct checkpoint_keys *keys, struct tensor_table *table,
                                struct error_text *error)
{
    struct gguf_string method = checkpoint_keys_string_or_empty(keys, "quant_method");
    bool compressed = checkpoint_keys_is(method, "compressed-tensors");
    bool modelopt = checkpoint_keys_is(method, "modelopt");
    bool fp8 = checkpoint_keys_is(method, "fp8") || checkpoint_keys_is(method, "fbgemm_fp8");
    bool fp4 = checkpoint_keys_is(method, "mxfp4");
    struct fp8_block block = {0, 0};
    struct gguf_string format = {NULL, 0}, algorithm = {NULL, 0};
    if (compressed)
        format = checkpoint_keys_string_or_empty(keys, "format");
    if (modelopt)
        algorithm = checkpoint_keys_string_or_empty(keys, "quant_algo");
    if (checkpoint_keys_is(method, "bitsandbytes"))
        return apply_nibbles(keys, NIBBLES_TABLE, table, error);
    if (checkpoint_keys_is(algorithm, "NVFP4"))
        return apply_nibbles(keys, NIBBLES_MODELOPT, table, error);
    if (checkpoint_keys_is(format, "nvfp4-pack-quantized"))
        return apply_nibbles(keys, NIBBLES_NVFP4, table, error);
    if (checkpoint_keys_is(format, "mxfp4-pack-quantized"))
        return apply_nibbles(keys, NIBBLES_MXFP4, table, error);
    if (checkpoint_keys_is(format, "pack-quantized"))
        return apply_integers(keys, read_packed(keys), table, error);
    if (checkpoint_keys_is(method, "awq"))
        return apply_integers(keys, read_awq(keys), table, error);
    if (checkpoint_keys_is(method, "gptq"))
        return apply_integers(keys, read_gptq(keys), table, error);
    if (!compressed && !modelopt && !fp8 && !fp4)
        checkpoint_keys_refuse(keys, RESULT_UNSUPPORTED,
                               "quantization_config: method \"%.*s\" is not read; " METHODS,
                               (int)(method.length < 32 ? method.length : 32), method.bytes);
    if (modelopt && !checkpoint_keys_is(algorithm, "FP8"))
        refuse_weights(keys, method);
    if (compressed)
        block = read_compressed(keys, method);
    if (fp8)
        block = read_block(keys, "weight_block_size");
    if (keys->result != RESULT_OK)
        return error_set(error, keys->result, "config.json: %s", keys->error->text);
    return fp4 ? apply_fp4(table, error) : apply_fp8(table, block, error);
}

/* --- entry point ------------------------------------------------------------------------------ */

enum result checkpoint_quantization_apply(struct json_value config, struct tensor_table *table,
                                          struct error_text *error)
{
    struct error_text reason = {""};
    struct checkpoint_keys root = {.object = config, .error = &reason};
    struct checkpoint_keys mlx = checkpoint_keys_enter(&root, "quantization");
    struct checkpoint_keys method = checkpoint_keys_enter(&root, "quantization_config");
    checkpoint_keys_leave(&root, &mlx);
    checkpoint_keys_leave(&root, &method);
    if (root.result != RESULT_OK)
        return error_set(error, root.result, "config.json: %s", reason.text);
    bool has_method =
        json_value_type(json_value_member(method.object, "quant_method")) != JSON_ABSENT;
    if (json_value_type(mlx.object) != JSON_ABSENT)
        return apply_mlx(&mlx, table, error);
    if (json_value_type(method.object) == JSON_ABSENT)
        return RESULT_OK;
    return has_method ? apply_method(&method, table, error) : apply_mlx(&method, table, error);
}
