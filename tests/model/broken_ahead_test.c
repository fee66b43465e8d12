/*
 * Checkpoints whose layer that predicts a further token is damaged: folders with one defect each, listed in
 * tests/golden/broken_checkpoints/ahead.txt, and GGUF files with one number changed. Every one is refused with
 * the error text listed, by opening the model or its layer; if only the layer is refused, the model can be
 * used without it. The checkpoints without a defect open.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/broken_list.h"
#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"

#define LIST       "tests/golden/broken_checkpoints/ahead.txt"
#define CASES_MIN  88u
#define SEED       "tests/fuzz/corpus/ahead/qwen3_5.gguf"
#define FILE_BYTES 65536u

/* `value` of `width` bytes is written `delta` bytes after the end of `name`. If `width` is 0, the file is
 * shortened by -delta bytes. */
struct broken_place {
    const char *name;
    int delta;
    uint32_t width;
    uint64_t value;
    const char *words;
};

/* clang-format off */
static const struct broken_place places[] = {
    {"qwen35.nextn_predict_layers", 4, 4, 0, "tensor blk.2.attn_qkv.weight is missing"},
    {"qwen35.nextn_predict_layers", 4, 4, 2, "the checkpoint has no layer that predicts a further token"},
    {"qwen35.nextn_predict_layers", 4, 4, 3, "key qwen35.nextn_predict_layers is 3, more than 2"},
    {"qwen35.nextn_predict_layers", 4, 4, 0xffffffffu, "key qwen35.nextn_predict_layers is 4294967295, more than 2"},
    {"qwen35.nextn_predict_layers", 0, 4, 6, "key qwen35.nextn_predict_layers is not a 32-bit count"},
    {"qwen35.nextn_predict_layers", -1, 1, 'x', "tensor blk.2.attn_qkv.weight is missing"},
    {"qwen35.block_count", 4, 4, 2, "tensor blk.2.attn_k.weight is not part of architecture qwen35"},
    {"qwen35.block_count", 4, 4, 4, "tensor blk.2.attn_qkv.weight is missing"},
    {"blk.2.nextn.eh_proj.weight", -1, 1, 'x', "tensor blk.2.nextn.eh_proj.weighx is not part of architecture qwen35 as this build knows it"},
    {"blk.2.nextn.eh_proj.weight", -22, 1, '3', "tensor blk.3.nextn.eh_proj.weight is not part of architecture qwen35 as this build knows it"},
    {"blk.2.nextn.eh_proj.weight", 0, 4, 1, "tensor blk.2.nextn.eh_proj.weight: rows of 32 are not whole blocks of 256 (IQ2_XXS)"},
    {"blk.2.nextn.eh_proj.weight", 4, 8, 16, "tensor blk.2.nextn.eh_proj.weight is [16, 16, 1, 1], not [32, 16] (fastest first)"},
    {"blk.2.nextn.eh_proj.weight", 12, 8, 8, "tensor blk.2.nextn.eh_proj.weight is [32, 8, 1, 1], not [32, 16] (fastest first)"},
    {"blk.2.nextn.eh_proj.weight", 20, 4, 26, "tensor blk.2.nextn.eh_proj.weight: type I32 has no reader"},
    {"blk.2.nextn.eh_proj.weight", 20, 4, 8, "tensor blk.2.nextn.eh_proj.weight is of type Q8_0, whose rows cannot be divided into parts of 16"},
    {"blk.2.nextn.eh_proj.weight", 20, 4, 200, "tensor blk.2.nextn.eh_proj.weight: type 200 has no reader"},
    {"blk.2.nextn.eh_proj.weight", 24, 8, 1048576, "tensor blk.2.nextn.eh_proj.weight: 1024 bytes at 1048576 pass the 14240 bytes of data"},
    {"blk.2.nextn.eh_proj.weight", 24, 8, 1, "tensor blk.2.nextn.eh_proj.weight: offset 1 is not aligned to 32"},
    {"blk.2.nextn.enorm.weight", 4, 8, 15, "tensor blk.2.nextn.enorm.weight is [15, 1, 1, 1], not [16, 1] (fastest first)"},
    {"blk.2.nextn.enorm.weight", 12, 4, 24, "tensor blk.2.nextn.enorm.weight: type I8 has no reader"},
    {"blk.2.nextn.enorm.weight", -1, 1, 'x', "tensor blk.2.nextn.enorm.weighx is not part of architecture qwen35 as this build knows it"},
    {"blk.2.nextn.hnorm.weight", 4, 8, 15, "tensor blk.2.nextn.hnorm.weight is [15, 1, 1, 1], not [16, 1] (fastest first)"},
    {"blk.2.nextn.hnorm.weight", -1, 1, 'x', "tensor blk.2.nextn.hnorm.weighx is not part of architecture qwen35 as this build knows it"},
    {"blk.2.nextn.shared_head_norm.weight", 4, 8, 17, "tensor blk.2.nextn.shared_head_norm.weight: 68 bytes at 14176 pass the 14240 bytes of data"},
    {"blk.2.nextn.shared_head_norm.weight", -1, 1, 'x', "tensor blk.2.nextn.shared_head_norm.weighx is not part of architecture qwen35 as this build knows it"},
    {"blk.2.attn_q.weight", 12, 8, 16, "tensor blk.2.attn_q.weight is [16, 16, 1, 1], not [16, 64] (fastest first)"},
    {"blk.2.attn_q.weight", -1, 1, 'x', "tensor blk.2.attn_q.weighx is not part of architecture qwen35 as this build knows it"},
    {"blk.2.attn_k.weight", 12, 8, 4, "tensor blk.2.attn_k.weight is [16, 4, 1, 1], not [16, 16] (fastest first)"},
    {"blk.2.attn_q_norm.weight", 4, 8, 4, "tensor blk.2.attn_q_norm.weight is [4, 1, 1, 1], not [16, 1] (fastest first)"},
    {"blk.2.ffn_down.weight", 4, 8, 4, "tensor blk.2.ffn_down.weight is [4, 16, 1, 1], not [8, 16] (fastest first)"},
    {"blk.2.ffn_gate.weight", 20, 4, 24, "tensor blk.2.ffn_gate.weight: type I8 has no reader"},
    {NULL, -2, 0, 0, "tensor blk.2.nextn.shared_head_norm.weight: 64 bytes at 14176 pass the 14238 bytes of data"},
    {NULL, -700, 0, 0, "tensor blk.2.nextn.eh_proj.weight: 1024 bytes at 13024 pass the 13540 bytes of data"},
};
/* clang-format on */

/* Whether the checkpoint is refused with the words, here or by its layer. */
static bool is_refused(enum result opened, struct model *model, const char *words,
                       struct error_text *error)
{
    if (opened != RESULT_OK)
        return !model && words && strstr(error->text, words);
    enum result result = model_open_ahead(model, error);
    if (result == RESULT_OK)
        return false;
    assert_null(model_ahead_plan(model));
    assert_false(model_plan(model)->keeps_hidden);
    return words && strstr(error->text, words);
}

static void must_open(enum result opened, struct model *model, struct error_text *error)
{
    if (opened != RESULT_OK || model_open_ahead(model, error) != RESULT_OK)
        fail_msg("%s", error->text);
    assert_true(model_plan(model)->keeps_hidden && model_ahead_plan(model)->takes_hidden);
    model_close(model);
}

/* Checks every case before it fails, so that one run shows all that changed. */
static void test_folders(void **state)
{
    (void)state;
    struct tiny_folder folder;
    tiny_folder_create(&folder);
    struct broken_list *list = broken_list_read(LIST);
    const char *set;
    uint32_t wrong = 0;
    for (uint32_t i = 0; (set = broken_list_set(list, i)); i++) {
        struct error_text error = {""};
        struct model *model = NULL;
        broken_list_write_set(list, set, folder.path);
        enum result opened = model_open(folder.path, &model, &error);
        must_open(opened, model, &error);
    }
    for (uint32_t i = 0; i < broken_list_count(list); i++) {
        const struct broken_case *c = broken_list_case(list, i);
        struct error_text error = {""};
        struct model *model = NULL;
        broken_list_write_case(list, c, folder.path);
        enum result opened = model_open(folder.path, &model, &error);
        if (!is_refused(opened, model, c->words, &error)) {
            print_message("%s:%u: %s\n", LIST, c->line, error.text[0] ? error.text : "it opens");
            wrong++;
        }
        model_close(model);
    }
    assert_int_equal(wrong, 0);
    assert_true(broken_list_count(list) >= CASES_MIN);
    broken_list_destroy(list);
    tiny_folder_destroy(&folder);
}

static _Alignas(64) uint8_t bytes[FILE_BYTES];
static size_t byte_count;

static void read_seed(void)
{
    FILE *file = fopen(SEED, "rb");
    must(file);
    byte_count = fread(bytes, 1, sizeof bytes, file);
    must(byte_count > 0 && byte_count < sizeof bytes && fclose(file) == 0);
}

static void break_place(const struct broken_place *place)
{
    if (place->width == 0) {
        byte_count -= (size_t)-place->delta;
        return;
    }
    size_t length = strlen(place->name);
    uint8_t *at = memmem(bytes, byte_count, place->name, length);
    must(at);
    memcpy(at + length + place->delta, &place->value, place->width);
}

static void test_gguf(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    struct error_text error = {""};
    struct model *model = NULL;
    read_seed();
    enum result whole = model_open_bytes(bytes, byte_count, &model, &error);
    must_open(whole, model, &error);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        error = (struct error_text){""};
        read_seed();
        break_place(&places[i]);
        enum result opened = model_open_bytes(bytes, byte_count, &model, &error);
        if (!is_refused(opened, model, places[i].words, &error)) {
            print_message("place %zu: %s\n", i, error.text[0] ? error.text : "it opens");
            wrong++;
        }
        model_close(model);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
