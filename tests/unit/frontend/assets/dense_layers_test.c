/*
 * Dense modules of drawn shapes, types and activations against plain loops, and every file that is
 * refused, by its name and key.
 */
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/assets/dense_layers.h"
#include "proto/ggml_half.h"

#define MOST     80u
#define IDENTITY "\"torch.nn.modules.linear.Identity\""
#define TANH     "\"torch.nn.modules.activation.Tanh\""
#define WEIGHT   "\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define BIAS     "\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}"
#define GOOD     "{\"in_features\":3,\"out_features\":2,\"activation_function\":" IDENTITY "}"

static char folder[] = "/tmp/dense_layers_XXXXXX";
static int folder_fd;
static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static float draw_number(void)
{
    return (float)draw(1u << 20) / (float)(1u << 19) - 1.0f;
}

static void write_file(const char *name, const void *bytes, size_t byte_count)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, byte_count), (ssize_t)byte_count);
    close(fd);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void write_tensors(const char *name, const char *header, const void *data, size_t byte_count)
{
    static char bytes[1024 + 4 * MOST * (MOST + 1)];
    uint64_t length = strlen(header);
    assert_true(8 + length + byte_count <= sizeof bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, data, byte_count);
    write_file(name, bytes, 8 + length + byte_count);
}

static enum result open_layers(uint32_t count, struct dense_layers **layers,
                               struct error_text *error)
{
    const struct sentence_modules modules = {.dense_count = count, .dense = {"2_Dense", "3_Dense"}};
    return dense_layers_open(folder_fd, &modules, layers, error);
}

struct drawn {
    uint32_t inputs, outputs, kind; /* kind: 0 F32, 1 F16, 2 BF16 */
    bool bias, tanh;
    float numbers[MOST * (MOST + 1)]; /* the weight, then the bias */
};

/* Stores the numbers as `kind`, which rounds them, and changes them to what is stored. */
static size_t pack(struct drawn *layer, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &layer->numbers[i], 4);
        uint16_t half =
            layer->kind == 1 ? ggml_f32_to_f16(layer->numbers[i]) : (uint16_t)(bits >> 16);
        if (layer->kind == 0) {
            memcpy(out + 4 * i, &bits, 4);
            continue;
        }
        memcpy(out + 2 * i, &half, 2);
        bits &= 0xffff0000u;
        if (layer->kind == 1)
            layer->numbers[i] = ggml_f16_to_f32(half);
        else
            memcpy(&layer->numbers[i], &bits, 4);
    }
    return count * (layer->kind == 0 ? 4 : 2);
}

static void write_drawn(const char *name, struct drawn *layer)
{
    static const char *const kinds[] = {"F32", "F16", "BF16"};
    static uint8_t data[4 * MOST * (MOST + 1)];
    char text[512], path[64];
    size_t weights = (size_t)layer->inputs * layer->outputs;
    size_t count = weights + (layer->bias ? layer->outputs : 0);
    for (size_t i = 0; i < count; i++)
        layer->numbers[i] = draw_number();
    size_t byte_count = pack(layer, count, data), middle = byte_count / count * weights;
    const char *kind = kinds[layer->kind];
    int length =
        snprintf(text, sizeof text,
                 "{\"linear.weight\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[0,%zu]}",
                 kind, layer->outputs, layer->inputs, middle);
    if (layer->bias)
        length += snprintf(
            text + length, sizeof text - (size_t)length,
            ",\"linear.bias\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[%zu,%zu]}", kind,
            layer->outputs, middle, byte_count);
    snprintf(text + length, sizeof text - (size_t)length, "}");
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    write_tensors(path, text, data, byte_count);
    snprintf(text, sizeof text,
             "{\"in_features\":%u,\"out_features\":%u,\"bias\":%s,\"activation_function\":%s}",
             layer->inputs, layer->outputs, layer->bias ? "true" : "false",
             layer->tanh ? TANH : IDENTITY);
    snprintf(path, sizeof path, "%s/config.json", name);
    write_text(path, text);
}

static void loop(const struct drawn *layer, const double *vector, double *result)
{
    for (uint32_t r = 0; r < layer->outputs; r++) {
        double sum = 0;
        for (uint32_t c = 0; c < layer->inputs; c++)
            sum += (double)layer->numbers[r * layer->inputs + c] * vector[c];
        if (layer->bias)
            sum += (double)layer->numbers[layer->inputs * layer->outputs + r];
        result[r] = layer->tanh ? tanh(sum) : sum;
    }
}

static void drawn_layers_are_those_of_loops(void **state)
{
    (void)state;
    static struct drawn layers[2];
    for (int round = 0; round < 40; round++) {
        uint32_t columns = 1 + draw(MOST), count = 1 + draw(2);
        float vector[MOST];
        double first[MOST], second[MOST];
        char config[64];
        struct error_text error;
        struct dense_layers *opened;
        snprintf(config, sizeof config, "{\"text_config\":{\"hidden_size\":%u}}", columns);
        write_text("config.json", config);
        for (uint32_t c = 0; c < columns; c++)
            first[c] = (double)(vector[c] = draw_number());
        for (uint32_t i = 0; i < count; i++) {
            layers[i].inputs = i == 0 ? columns : layers[0].outputs;
            layers[i].outputs = 1 + draw(MOST);
            layers[i].kind = draw(3);
            layers[i].bias = draw(2) == 1;
            layers[i].tanh = draw(2) == 1;
            write_drawn(i == 0 ? "2_Dense" : "3_Dense", &layers[i]);
            loop(&layers[i], first, second);
            memcpy(first, second, sizeof first);
        }
        assert_int_equal(open_layers(count, &opened, &error), RESULT_OK);
        assert_int_equal(dense_layers_inputs(opened), columns);
        assert_int_equal(dense_layers_outputs(opened), layers[count - 1].outputs);
        float *got = dense_layers_apply(opened, vector);
        assert_non_null(got);
        for (uint32_t c = 0; c < layers[count - 1].outputs; c++)
            assert_true(fabs((double)got[c] - first[c]) < 1e-5);
        free(got);
        dense_layers_close(opened);
    }
}

static void too_large_a_sum_is_the_largest_number(void **state)
{
    (void)state;
    const float numbers[8] = {FLT_MAX, FLT_MAX, 0, -FLT_MAX, 0, 0, FLT_MAX, 0};
    const float vector[3] = {FLT_MAX, FLT_MAX, 1};
    struct error_text error;
    struct dense_layers *layers;
    write_text("config.json", "{\"hidden_size\":3}");
    write_text("2_Dense/config.json", GOOD);
    write_tensors("2_Dense/model.safetensors", "{" WEIGHT "," BIAS "}", numbers, sizeof numbers);
    assert_int_equal(open_layers(1, &layers, &error), RESULT_OK);
    float *got = dense_layers_apply(layers, vector);
    assert_non_null(got);
    assert_true(got[0] == FLT_MAX && got[1] == -FLT_MAX);
    free(got);
    dense_layers_close(layers);
}

static void no_layers(void **state)
{
    (void)state;
    struct error_text error;
    struct dense_layers *layers;
    assert_int_equal(open_layers(0, &layers, &error), RESULT_OK);
    assert_null(layers);
}

#define CONFIG(more) "{\"in_features\":3,\"out_features\":2" more "}"
#define TENSORS      "{" WEIGHT "," BIAS "}"

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8},
                       endless[8] = {1, 2, 3, 4, 5, 6, INFINITY, 8};
    static const struct {
        const char *hidden, *config, *tensors;
        enum result result;
        const char *file, *key;
    } wrong[] = {
        {"{}", GOOD, TENSORS, RESULT_INVALID, "config.json", "hidden_size"},
        {"{\"hidden_size\":4}", GOOD, TENSORS, RESULT_INVALID, "2_Dense/config.json",
         "in_features is 3; the vector before it has 4"},
        {NULL, "[", TENSORS, RESULT_INVALID, "2_Dense/config.json", ""},
        {NULL, "[]", TENSORS, RESULT_INVALID, "2_Dense/config.json", "in_features"},
        {NULL, "{\"in_features\":3}", TENSORS, RESULT_INVALID, "2_Dense/config.json",
         "out_features"},
        {NULL, "{\"in_features\":3,\"out_features\":0}", TENSORS, RESULT_INVALID,
         "2_Dense/config.json", "out_features"},
        {NULL, "{\"in_features\":3,\"out_features\":-1}", TENSORS, RESULT_INVALID,
         "2_Dense/config.json", "out_features"},
        {NULL, "{\"in_features\":3,\"out_features\":4000000000}", TENSORS, RESULT_TOO_LARGE,
         "2_Dense/config.json", "out_features"},
        {"{\"hidden_size\":65536}", "{\"in_features\":65536,\"out_features\":65536}", TENSORS,
         RESULT_TOO_LARGE, "2_Dense/config.json", "in_features times out_features"},
        {NULL, CONFIG(",\"bias\":1"), TENSORS, RESULT_INVALID, "2_Dense/config.json", "bias"},
        {NULL, CONFIG(",\"use_residual\":true"), TENSORS, RESULT_UNSUPPORTED, "2_Dense/config.json",
         "use_residual"},
        {NULL, CONFIG(",\"activation_function\":\"torch.nn.modules.activation.GELU\""), TENSORS,
         RESULT_UNSUPPORTED, "2_Dense/config.json", "torch.nn.modules.activation.GELU"},
        {NULL, CONFIG(",\"activation_function\":null"), TENSORS, RESULT_UNSUPPORTED,
         "2_Dense/config.json", "activation_function"},
        {NULL, CONFIG(",\"activation_function\":5"), TENSORS, RESULT_INVALID, "2_Dense/config.json",
         "activation_function"},
        {NULL, CONFIG(",\"module_input_name\":\"token_embeddings\""), TENSORS, RESULT_UNSUPPORTED,
         "2_Dense/config.json", "module_input_name"},
        {NULL, CONFIG(",\"module_output_name\":\"x\""), TENSORS, RESULT_UNSUPPORTED,
         "2_Dense/config.json", "module_output_name"},
        {NULL, CONFIG(",\"bias\":false"), TENSORS, RESULT_UNSUPPORTED, "2_Dense/model.safetensors",
         "linear.bias"},
        {NULL, GOOD,
         "{" WEIGHT ",\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}}",
         RESULT_UNSUPPORTED, "2_Dense/model.safetensors", "x"},
        {NULL, GOOD, "{\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}",
         RESULT_INVALID, "2_Dense/model.safetensors", "linear.weight"},
        {NULL, GOOD,
         "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}," BIAS "}",
         RESULT_INVALID, "2_Dense/model.safetensors", "linear.weight"},
        {NULL, GOOD,
         "{\"linear.weight\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]}," BIAS "}",
         RESULT_UNSUPPORTED, "2_Dense/model.safetensors", "linear.weight"},
        {NULL, GOOD,
         "{" WEIGHT ",\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,99]}}",
         RESULT_CORRUPT, "2_Dense/model.safetensors", ""},
        {NULL, GOOD, NULL, RESULT_INVALID, "2_Dense/model.safetensors", "linear.bias"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error_text error = {0};
        struct dense_layers *layers;
        write_text("config.json", wrong[i].hidden ? wrong[i].hidden : "{\"hidden_size\":3}");
        write_text("2_Dense/config.json", wrong[i].config);
        write_tensors("2_Dense/model.safetensors", wrong[i].tensors ? wrong[i].tensors : TENSORS,
                      wrong[i].tensors ? numbers : endless, sizeof numbers);
        enum result result = open_layers(1, &layers, &error);
        if (result != wrong[i].result || !strstr(error.text, wrong[i].file) ||
            !strstr(error.text, wrong[i].key))
            fail_msg("case %zu: %s: %s", i, result_name(result), error.text);
        assert_null(layers);
    }
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct error_text error;
    struct dense_layers *layers;
    write_text("config.json", "{\"hidden_size\":3}");
    write_text("2_Dense/config.json", GOOD);
    unlinkat(folder_fd, "2_Dense/model.safetensors", 0);
    assert_int_equal(open_layers(1, &layers, &error), RESULT_NOT_FOUND);
    assert_non_null(strstr(error.text, "2_Dense/model.safetensors"));
    unlinkat(folder_fd, "2_Dense/config.json", 0);
    assert_int_equal(open_layers(1, &layers, &error), RESULT_NOT_FOUND);
    assert_non_null(strstr(error.text, "2_Dense/config.json"));
}

int main(void)
{
    static const char *const files[] = {"2_Dense/config.json", "2_Dense/model.safetensors",
                                        "3_Dense/config.json", "3_Dense/model.safetensors",
                                        "config.json"};
    seed = (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    if (!mkdtemp(folder))
        return 1;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (folder_fd < 0 || mkdirat(folder_fd, "2_Dense", 0700) != 0 ||
        mkdirat(folder_fd, "3_Dense", 0700) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_layers_are_those_of_loops),
        cmocka_unit_test(too_large_a_sum_is_the_largest_number),
        cmocka_unit_test(no_layers),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(a_missing_file_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlinkat(folder_fd, files[i], 0);
    unlinkat(folder_fd, "2_Dense", AT_REMOVEDIR);
    unlinkat(folder_fd, "3_Dense", AT_REMOVEDIR);
    close(folder_fd);
    rmdir(folder);
    return failed;
}
