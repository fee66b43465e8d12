/*
 * Quantized folders whose numbers were computed by the code of those who publish the formats
 * (tests/golden/folder_weights): every matrix has the same bits here, in the type listed below.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/mapped_file.h"
#include "proto/safetensors_file.h"
#include "worker/backend/host/ggml_dequantize.h"
#include "worker/model/hf/checkpoint_folder.h"
#include "worker/plan/weight_fp8.h"

enum { COLUMNS_MAX = 512 };

static const struct {
    const char *name, *type;
} cases[] = {
    {"awq-32", "Z4"},
    {"awq-64", "Z4_64"},
    {"awq-128", "Z4_128"},
    {"awq-rows", "Z4_128"},
    {"gptq-sym", "Z4_128"},
    {"gptq-32", "Z4"},
    {"gptq-rows", "Z4_128"},
    {"gptq-v2", "Z4_64"},
    {"gptq-act", "F16"},
    {"gptq-8", "Q8_0"},
    {"gptq-8-any", "Z8"},
    {"gptq-2", "Z4_64"},
    {"gptq-3", "Q4_0"},
    {"gptq-3-act", "F16"},
    {"packed-4", "Q4_0"},
    {"packed-4-zeros", "Z4_128"},
    {"packed-4-rows", "Z4_128"},
    {"packed-8-zeros", "Z8"},
    {"packed-3", "Z4_64"},
    {"packed-5-zeros", "Q8_0"},
    {"packed-7", "Q8_0"},
    {"packed-4-wide", "F32"},
    {"ct-mxfp4", "MXFP4"},
    {"ct-nvfp4", "NVFP4"},
    {"modelopt-nvfp4", "NVFP4"},
    {"bnb-nf4", "BF16"},
    {"bnb-nf4-nested", "BF16"},
    {"bnb-fp4", "F16"},
    {"bnb-fp4-f32", "F32"},
};
/* The type of matrices of these folders whose columns are a multiple of 64. */
static const struct {
    const char *name, *type;
} block_cases[] = {{"bnb-nf4", "NF4_64"}, {"bnb-nf4-nested", "NF4_64"}, {"bnb-fp4-f32", "FP4_64"}};

static const char *type_of(const char *name, const char *type, uint64_t columns)
{
    for (size_t i = 0; i < sizeof block_cases / sizeof block_cases[0] && columns % 64 == 0; i++)
        if (strcmp(block_cases[i].name, name) == 0)
            return block_cases[i].type;
    return type;
}

/* Reads a row in two pieces, as for embeddings, from a matrix whose row 0 is another one. */
static void read_row(const struct checkpoint_tensor *tensor, uint32_t row, float *out)
{
    static uint8_t made[COLUMNS_MAX * sizeof(float)];
    uint32_t columns = (uint32_t)tensor->dimensions[0];
    struct weight_source from = tensor->source;
    from.first_row = row / 2;
    uint32_t block = ggml_type_block(tensor->type).elements;
    for (uint32_t first = 0, count; first < columns; first += count) {
        count = first > 0 ? columns - first : block > 32 ? block : 32;
        weight_source_read(&from, columns, (struct weight_span){row - row / 2, first, count}, made);
        ggml_dequantize_row(tensor->type, made, count, out + first);
    }
}

static float rounded_to_bf16(float value)
{
    uint32_t bits = (uint32_t)weight_fp8_round(value) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int compare(const char *folder, const struct checkpoint_tensor *tensor,
                   const struct safetensors_tensor *values, const char *type)
{
    float row[COLUMNS_MAX], expected;
    if (!tensor || tensor->part || !tensor->readable ||
        tensor->dimensions[1] != values->dimensions[0] ||
        tensor->dimensions[0] != values->dimensions[1]) {
        print_error("%s: %s is missing or has another shape\n", folder, values->name);
        return 1;
    }
    if (strcmp(ggml_type_name(tensor->type), type) != 0) {
        print_error("%s: %s becomes %s, not %s\n", folder, values->name,
                    ggml_type_name(tensor->type), type);
        return 1;
    }
    const uint8_t *at = values->data;
    for (uint32_t r = 0; r < values->dimensions[0]; r++) {
        read_row(tensor, r, row);
        for (uint32_t c = 0; c < values->dimensions[1]; c++, at += sizeof expected) {
            memcpy(&expected, at, sizeof expected);
            if (strcmp(type, "F16") == 0 && strncmp(folder, "gptq", 4) == 0)
                expected = ggml_f16_to_f32(ggml_f32_to_f16(expected)); /* of F32 scales here */
            /* Their publishers round to the model's type. */
            if (strcmp(type, "NVFP4") == 0 || strcmp(type, "NF4_64") == 0)
                row[c] = rounded_to_bf16(row[c]);
            if (row[c] == expected)
                continue;
            print_error("%s: %s [%u, %u] is %.9g, not %.9g\n", folder, values->name, r, c,
                        (double)row[c], (double)expected);
            return 1;
        }
    }
    return 0;
}

static int check_case(const char *name, const char *type)
{
    char path[128];
    struct error_text error = {""};
    struct checkpoint_folder *folder;
    struct mapped_file file;
    struct safetensors_file *values;
    snprintf(path, sizeof path, "tests/golden/folder_weights/%s", name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    if (checkpoint_folder_open(fd, NULL, &folder, &error) != RESULT_OK) {
        print_error("%s: %s\n", name, error.text);
        close(fd);
        return 1;
    }
    assert_int_equal(mapped_file_open(fd, "values.safetensors", &file, &error), RESULT_OK);
    assert_int_equal(safetensors_file_open(file.bytes, file.byte_count, &values, &error),
                     RESULT_OK);
    const struct tensor_table *table = checkpoint_folder_tensors(folder);
    uint32_t count = safetensors_file_tensor_count(values), whole = 0;
    int wrong = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct safetensors_tensor *tensor = safetensors_file_tensor(values, i);
        wrong += compare(name, tensor_table_find(table, tensor->name), tensor,
                         type_of(name, type, tensor->dimensions[1]));
    }
    for (uint32_t i = 0; i < tensor_table_count(table); i++)
        whole += !tensor_table_at(table, i)->part;
    if (whole != count)
        print_error("%s: %u tensors are part of no matrix\n", name, whole - count);
    wrong += whole != count;
    safetensors_file_close(values);
    mapped_file_close(&file);
    checkpoint_folder_close(folder);
    close(fd);
    return wrong;
}

static void test_values_are_the_publishers(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        wrong += check_case(cases[i].name, cases[i].type);
    assert_int_equal(wrong, 0);
}

/* --- broken folders ----------------------------------------------------------------------------- */

/* The bytes of a case's file; freed by the caller. */
static char *read_file(const char *name, const char *file, size_t *byte_count)
{
    char path[160];
    struct mapped_file mapped;
    struct error_text error;
    snprintf(path, sizeof path, "tests/golden/folder_weights/%s", name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(mapped_file_open(fd, file, &mapped, &error), RESULT_OK);
    char *copy = malloc(mapped.byte_count);
    assert_non_null(copy);
    memcpy(copy, mapped.bytes, mapped.byte_count);
    *byte_count = mapped.byte_count;
    mapped_file_close(&mapped);
    close(fd);
    return copy;
}

static void write_file(int folder, const char *file, const char *bytes, size_t byte_count)
{
    int fd = openat(folder, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, byte_count), (ssize_t)byte_count);
    close(fd);
}

/* Opens a case's folder with other weights; returns the error, or "it opens". */
static const char *open_with(const char *name, const char *weights, size_t weight_bytes)
{
    static struct error_text error;
    struct checkpoint_folder *folder = NULL;
    char target[] = "/tmp/shoal-weights-XXXXXX";
    size_t config_bytes;
    char *config = read_file(name, "config.json", &config_bytes);
    assert_non_null(mkdtemp(target));
    int fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    write_file(fd, "config.json", config, config_bytes);
    write_file(fd, "model.safetensors", weights, weight_bytes);
    snprintf(error.text, sizeof error.text, "it opens");
    (void)!checkpoint_folder_open(fd, NULL, &folder, &error);
    checkpoint_folder_close(folder);
    unlinkat(fd, "config.json", 0);
    unlinkat(fd, "model.safetensors", 0);
    rmdir(target);
    close(fd);
    free(config);
    return error.text;
}

/* Opens a case with `bytes` at the beginning of one tensor's data. */
static const char *open_changed(const char *name, const char *tensor, const void *bytes,
                                size_t byte_count)
{
    size_t weight_bytes;
    char *weights = read_file(name, "model.safetensors", &weight_bytes);
    struct safetensors_file *tensors;
    struct error_text error;
    assert_int_equal(safetensors_file_open(weights, weight_bytes, &tensors, &error), RESULT_OK);
    const struct safetensors_tensor *found = safetensors_file_find_tensor(tensors, tensor);
    assert_true(found && found->data_bytes >= byte_count);
    memcpy(weights + ((const char *)found->data - weights), bytes, byte_count);
    safetensors_file_close(tensors);
    const char *text = open_with(name, weights, weight_bytes);
    free(weights);
    return text;
}

enum defect { RENAMED, RETYPED, TURNED, DEFECTS };

/* Another type of as many bytes, padded so that the header keeps its length. */
static const char *other_type(const char *type)
{
    static const char *const pairs[][2] = {
        {"I32", "\"F32\""}, {"F32", "\"I32\""}, {"F16", "\"I16\""},         {"BF16", "\"I16\" "},
        {"U8", "\"I8\""},   {"I64", "\"F64\""}, {"F8_E4M3", "\"F8_E5M2\""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (strcmp(pairs[i][0], type) == 0)
            return pairs[i][1];
    fail_msg("no type like %s", type);
    return NULL;
}

/* Changes the tensor's entry in the header; false if it has no such defect. */
static bool damage(char *weights, const struct safetensors_tensor *tensor, enum defect defect)
{
    char entry[200], shape[64];
    snprintf(entry, sizeof entry, "\"%s\":{\"dtype\":\"", tensor->name);
    char *at = strstr(weights + 8, entry);
    assert_non_null(at);
    if (defect == RENAMED) {
        at[1 + strlen(tensor->name) - 1] = '!';
        return true;
    }
    at += strlen(entry) - 1;
    if (defect == RETYPED) {
        const char *type = other_type(safetensors_type_name(tensor->type));
        memcpy(at, type, strlen(type));
        return true;
    }
    uint64_t rows = tensor->dimensions[0], columns = tensor->dimensions[1];
    if (tensor->dimension_count != 2 || rows == columns)
        return false;
    snprintf(shape, sizeof shape, "[%llu,%llu]", (unsigned long long)columns,
             (unsigned long long)rows);
    memcpy(strchr(at, '['), shape, strlen(shape));
    return true;
}

/* Parts without which, or with another type of which, a folder opens. */
static bool is_free(const char *folder, const char *name, enum defect defect)
{
    static const char *const codes[] = {".weight", ".qweight", ".weight_packed"};
    static const char *const optional[] = {"g_idx", "weight_shape"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(strrchr(name, '.'), codes[i]) == 0 && defect != TURNED)
            return true;
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
        if (strstr(name, optional[i]) && defect == RENAMED)
            return true;
    bool column = strncmp(folder, "bnb", 3) == 0; /* of bytes; its shape has no meaning */
    return strstr(name, ".input_") || (column && defect == TURNED);
}

/* One key of bitsandbytes' state, changed in its place. */
static void test_broken_states_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *find, *put, *key;
    } changes[] = {
        {"\"blocksize\"", "\"blocksizf\"", "key blocksize"},
        {"\"blocksize\": 64", "\"blocksize\": 00", "down_proj.weight.quant_state"},
        {"\"blocksize\": 64", "\"blocksize\":  0", "key blocksize"},
        {"\"blocksize\": 64", "\"blocksize\": 32", "down_proj.weight.absmax"},
        {"\"dtype\": \"bf", "\"dtype\": \"af", "key dtype"},
        {"\"shape\": [9", "\"shape\": [8", "down_proj.weight has"},
        {"\"shape\": [9", "\"shape\": \"9", "down_proj.weight.quant_state"},
        {"\"shape\"", "\"shapf\"", "key shape"},
        {"\"nested_blocksize\": 256", "\"nested_blocksize\":   0", "key nested_blocksize"},
        {"\"nested_blocksize\": 256", "\"nested_blocksize\": 128", "weight.nested_absmax"},
        {"\"nested_blocksize\"", "\"nested_blocksizf\"", "weight.absmax of type U8"},
        {"\"nested_offset\"", "\"nested_offsef\"", "key nested_offset"},
    };
    static const char name[] = "model.layers.1.mlp.down_proj.weight.quant_state.bitsandbytes__nf4";
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        size_t byte_count;
        char *weights = read_file("bnb-nf4-nested", "model.safetensors", &byte_count), json[512];
        struct safetensors_file *tensors;
        struct error_text error;
        assert_int_equal(safetensors_file_open(weights, byte_count, &tensors, &error), RESULT_OK);
        const struct safetensors_tensor *tensor = safetensors_file_find_tensor(tensors, name);
        snprintf(json, sizeof json, "%.*s", (int)tensor->data_bytes, (const char *)tensor->data);
        safetensors_file_close(tensors);
        free(weights);
        char *at = strstr(json, changes[i].find);
        assert_non_null(at);
        memcpy(at, changes[i].put, strlen(changes[i].put));
        const char *text = open_changed("bnb-nf4-nested", name, json, strlen(json));
        if (!strstr(text, changes[i].key) || !strstr(text, "layers.1.mlp.down_proj.weight"))
            fail_msg("%s: \"%s\"", changes[i].put, text);
    }
}

static void test_broken_parts_are_refused(void **state)
{
    (void)state;
    uint32_t refused = 0, wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t byte_count;
        char *weights = read_file(cases[i].name, "model.safetensors", &byte_count);
        struct safetensors_file *tensors;
        struct error_text error;
        assert_int_equal(safetensors_file_open(weights, byte_count, &tensors, &error), RESULT_OK);
        for (uint32_t t = 0; t < safetensors_file_tensor_count(tensors); t++) {
            const struct safetensors_tensor *tensor = safetensors_file_tensor(tensors, t);
            for (enum defect defect = 0; defect < DEFECTS; defect++) {
                char *broken = malloc(byte_count);
                assert_non_null(broken);
                memcpy(broken, weights, byte_count);
                if (!is_free(cases[i].name, tensor->name, defect) &&
                    damage(broken, tensor, defect)) {
                    const char *text = open_with(cases[i].name, broken, byte_count);
                    bool named = strstr(text, "layers.0.self_attn.q_proj.") ||
                                 strstr(text, "layers.1.mlp.down_proj.");
                    if (!named)
                        print_error("%s: %s, defect %d: %s\n", cases[i].name, tensor->name,
                                    (int)defect, text);
                    wrong += !named;
                    refused += named;
                }
                free(broken);
            }
        }
        safetensors_file_close(tensors);
        free(weights);
    }
    print_message("%u broken folders are refused\n", refused);
    assert_int_equal(wrong, 0);
    assert_true(refused >= 300);
}

static void test_numbers_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *tensor;
        int32_t number;
        const char *words;
    } wrong[] = {
        {"gptq-act", "model.layers.0.self_attn.q_proj.g_idx", 4,
         "group 4 of column 0 is not below"},
        {"gptq-act", "model.layers.1.mlp.down_proj.g_idx", -1, "group -1 of column 0 is not below"},
        {"gptq-sym", "model.layers.1.mlp.down_proj.g_idx", INT32_MAX,
         "group 2147483647 of column 0"},
        {"packed-4", "model.layers.0.self_attn.q_proj.weight_shape", 29,
         "does not state [28, 128]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *text = open_changed(wrong[i].folder, wrong[i].tensor, &wrong[i].number,
                                        sizeof wrong[i].number);
        if (!strstr(text, wrong[i].words) || !strstr(text, wrong[i].tensor))
            fail_msg("%s, %s: \"%s\"", wrong[i].folder, wrong[i].tensor, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_the_publishers),
        cmocka_unit_test(test_numbers_are_checked),
        cmocka_unit_test(test_broken_states_are_refused),
        cmocka_unit_test(test_broken_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
