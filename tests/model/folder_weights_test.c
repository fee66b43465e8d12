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

enum { COLUMNS_MAX = 512 };

static const struct {
    const char *name, *type;
} cases[] = {
    {"awq-32", "Q5_0"},         {"awq-64", "Q5_0"},         {"awq-128", "Q5_0"},
    {"awq-rows", "Q5_0"},       {"gptq-sym", "Q4_0"},       {"gptq-32", "Q5_0"},
    {"gptq-rows", "Q5_0"},      {"gptq-v2", "Q5_0"},        {"gptq-act", "F32"},
    {"gptq-8", "Q8_0"},         {"gptq-8-any", "F32"},      {"gptq-2", "Q4_0"},
    {"gptq-3", "Q4_0"},         {"gptq-3-act", "F32"},      {"packed-4", "Q4_0"},
    {"packed-4-zeros", "Q5_0"}, {"packed-4-rows", "Q5_0"},  {"packed-8-zeros", "F32"},
    {"packed-3", "Q4_0"},       {"packed-5-zeros", "Q8_0"}, {"packed-7", "Q8_0"},
    {"packed-4-wide", "F32"},
};

/* Reads a row in two pieces, as for embeddings, from a matrix whose row 0 is another one. */
static void read_row(const struct checkpoint_tensor *tensor, uint32_t row, float *out)
{
    static uint8_t made[COLUMNS_MAX * sizeof(float)];
    uint32_t columns = (uint32_t)tensor->dimensions[0];
    struct weight_source from = tensor->source;
    from.first_row = row / 2;
    for (uint32_t first = 0, count = 32; first < columns; first += count) {
        count = first == 0 ? 32 : columns - first;
        weight_source_read(&from, columns, (struct weight_span){row - row / 2, first, count}, made);
        ggml_dequantize_row(tensor->type, made, count, out + first);
    }
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
    if (checkpoint_folder_open(fd, &folder, &error) != RESULT_OK) {
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
        wrong += compare(name, tensor_table_find(table, tensor->name), tensor, type);
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

/* --- numbers that do not fit the shapes --------------------------------------------------------- */

/* Opens a case with `bytes` at the beginning of one tensor's data; returns the error. */
static const char *open_changed(const char *name, const char *tensor, const void *bytes,
                                size_t byte_count)
{
    static struct error_text error;
    struct mapped_file file;
    struct safetensors_file *tensors;
    struct checkpoint_folder *folder = NULL;
    char path[128], target[] = "/tmp/shoal-weights-XXXXXX";
    snprintf(path, sizeof path, "tests/golden/folder_weights/%s", name);
    int from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_non_null(mkdtemp(target));
    int to = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(from >= 0 && to >= 0);
    for (int i = 0; i < 2; i++) {
        const char *part = i == 0 ? "config.json" : "model.safetensors";
        assert_int_equal(mapped_file_open(from, part, &file, &error), RESULT_OK);
        uint8_t *copy = malloc(file.byte_count);
        assert_non_null(copy);
        memcpy(copy, file.bytes, file.byte_count);
        if (i == 1) {
            assert_int_equal(safetensors_file_open(copy, file.byte_count, &tensors, &error),
                             RESULT_OK);
            const struct safetensors_tensor *found = safetensors_file_find_tensor(tensors, tensor);
            assert_true(found && found->data_bytes >= byte_count);
            memcpy(copy + (found->data - copy), bytes, byte_count);
            safetensors_file_close(tensors);
        }
        int fd = openat(to, part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, copy, file.byte_count), (ssize_t)file.byte_count);
        close(fd);
        free(copy);
        mapped_file_close(&file);
    }
    error.text[0] = 0;
    if (checkpoint_folder_open(to, &folder, &error) == RESULT_OK)
        snprintf(error.text, sizeof error.text, "it opens");
    checkpoint_folder_close(folder);
    unlinkat(to, "config.json", 0);
    unlinkat(to, "model.safetensors", 0);
    rmdir(target);
    close(from);
    close(to);
    return error.text;
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
