/*
 * Projector files with one defect each, made from whole ones: every tensor renamed or of another
 * shape, every required key missing, out of range or of another type, and files cut off. Each is
 * refused with the name of the tensor or key, and the text model stays usable.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "proto/must.h"
#include "worker/model/model.h"

#define FILES      "build/mmproj/"
#define CASES_MIN  200u
#define FILE_BYTES (1u << 20)

static const char *const families[] = {
    "internvl",   "internvl_wide", "gemma3",     "gemma4",     "gemma4_moe", "qwen2_vl",
    "qwen2_5_vl", "qwen3_vl",      "smolvlm",    "lfm2_vl",    "mistral3",   "pixtral",
    "llava",      "llava_siglip",  "llava_next", "glm4v",      "glm_ocr",    "paddleocr_vl",
    "kimi_vl",    "kimi_k25",      "glm4v_moe",  "hunyuan_vl", "janus",      "multi_modality"};
static const char *const counts[] = {"clip.vision.embedding_length", "clip.vision.block_count",
                                     "clip.vision.attention.head_count", "clip.vision.patch_size"};

static _Alignas(8) uint8_t whole[FILE_BYTES], broken[FILE_BYTES];
static size_t whole_bytes;
static uint32_t refused;

static void read_whole(const char *family)
{
    char path[128];
    snprintf(path, sizeof path, FILES "%s/mmproj.gguf", family);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    whole_bytes = fread(whole, 1, sizeof whole, file);
    must(whole_bytes > 0 && whole_bytes < sizeof whole);
    fclose(file);
}

/* The place after a string of GGUF, which begins with its length, in the fresh copy. */
static uint8_t *find_after(const char *string)
{
    uint64_t length = strlen(string);
    memcpy(broken, whole, whole_bytes);
    for (size_t at = 0; at + 8 + length < whole_bytes; at++)
        if (memcmp(broken + at, &length, 8) == 0 && memcmp(broken + at + 8, string, length) == 0)
            return broken + at + 8 + length;
    return NULL;
}

static void refuse(struct model *model, const char *what, size_t byte_count, const char *words)
{
    struct error_text error = {""};
    enum result result = model_open_tower_bytes(model, broken, byte_count, &error);
    if (result == RESULT_OK || !strstr(error.text, words))
        fail_msg("%s: \"%s\", not with \"%s\"", what, result == RESULT_OK ? "it opens" : error.text,
                 words);
    assert_null(model_vision(model));
    refused++;
}

static void break_tensors(struct model *model)
{
    struct gguf_file *file;
    struct error_text error;
    must(gguf_file_open(whole, whole_bytes, &file, &error) == RESULT_OK);
    for (uint32_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const struct gguf_tensor *tensor = gguf_file_tensor(file, i);
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
        uint8_t *after = find_after(name);
        must(after);
        after[-1] = after[-1] == 'x' ? 'y' : 'x';
        refuse(model, name, whole_bytes, "tensor ");
        after = find_after(name); /* then the number of dimensions and the first of them */
        uint64_t size;
        memcpy(&size, after + 4, sizeof size);
        size /= 2;
        if (size == 0)
            continue;
        memcpy(after + 4, &size, sizeof size);
        refuse(model, name, whole_bytes, "tensor ");
    }
    gguf_file_close(file);
}

/* Sets a count to `value`, or gives it another type or name. */
static void break_count(struct model *model, const char *key)
{
    static const uint32_t values[] = {0, UINT32_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint8_t *after = find_after(key);
        must(after);
        memcpy(after + 4, &values[i], sizeof values[i]);
        refuse(model, key, whole_bytes, key);
    }
    uint32_t type = 6; /* a float */
    uint8_t *after = find_after(key);
    memcpy(after, &type, sizeof type);
    refuse(model, key, whole_bytes, key);
    find_after(key)[-1] = 'x';
    refuse(model, key, whole_bytes, key);
}

static void break_llava_next(struct model *model)
{
    uint8_t *after = find_after("spatial_unpad");
    must(after);
    after[-1] = 'x';
    refuse(model, "how tiles are merged", whole_bytes, "key clip.vision.mm_patch_merge_type");
    after = find_after("clip.vision.feature_layer"); /* then types, a count and the number */
    must(after);
    memset(after + 16, 0xff, 4);
    refuse(model, "feature layer", whole_bytes, "clip.vision.feature_layer");
}

static void break_keys(struct model *model, const char *family)
{
    bool llava = strncmp(family, "llava", 5) == 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        break_count(model, counts[i]);
    if (strcmp(family, "gemma3") == 0 || strcmp(family, "smolvlm") == 0 ||
        strcmp(family, "qwen3_vl") == 0 || llava)
        break_count(model, "clip.vision.image_size");
    if (strcmp(family, "qwen2_5_vl") == 0)
        break_count(model, "clip.vision.n_wa_pattern");
    if (strcmp(family, "llava_next") == 0)
        break_llava_next(model);
    uint8_t *after = find_after("clip.vision.projection_dim");
    after[4] += 1;
    if (!llava) /* whose key is CLIP's own width */
        refuse(model, "projection_dim", whole_bytes, "the file belongs to another model");
    after = find_after("clip.has_vision_encoder");
    after[4] = 0;
    refuse(model, "has_vision_encoder", whole_bytes, "clip.has_vision_encoder is false");
    find_after("general.architecture")[8 + 4] = 'k';
    refuse(model, "architecture", whole_bytes, "general.architecture");
    const char *projector =
        find_after("clip.projector_type") ? "clip.projector_type" : "clip.vision.projector_type";
    find_after(projector)[8 + 4] = '!';
    refuse(model, "projector", whole_bytes, "projector_type \"!");
    find_after(projector)[-1] = 'x';
    refuse(model, "projector", whole_bytes, "projector_type is missing");
}

static void cut_off(struct model *model)
{
    memcpy(broken, whole, whole_bytes);
    for (uint32_t i = 0; i < 16; i++)
        refuse(model, "cut off", whole_bytes * i / 16, "");
}

static void test_broken_ones_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        char path[128];
        struct error_text error = {""};
        struct model *model;
        snprintf(path, sizeof path, FILES "%s/text.gguf", families[i]);
        if (model_open(path, &model, &error) != RESULT_OK)
            fail_msg("%s", error.text);
        read_whole(families[i]);
        break_tensors(model);
        break_keys(model, families[i]);
        cut_off(model);
        memcpy(broken, whole, whole_bytes);
        assert_int_equal(model_open_tower_bytes(model, broken, whole_bytes, &error), RESULT_OK);
        assert_non_null(model_vision(model));
        model_close(model);
    }
    printf("%u broken projector files\n", refused);
    assert_true(refused >= CASES_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken_ones_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
