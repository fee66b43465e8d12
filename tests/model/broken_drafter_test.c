/*
 * Damaged drafters that read a model's inner states: folders with one defect each, listed in
 * tests/golden/broken_checkpoints/drafters.txt. Every one is refused with the error text listed, and the model
 * stays usable without it. The drafters without a defect open, but not for a model of other sizes.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/must.h"
#include "tests/support/broken_list.h"
#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"
#include "worker/model/target_drafter.h"

#define LIST      "tests/golden/broken_checkpoints/drafters.txt"
#define MODEL     "build/checkpoints/smollm3-f32.gguf"
#define CASES_MIN 240u

static struct model *open_model(const char *path)
{
    struct model *model;
    struct error_text error = {""};
    if (model_open(path, &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return model;
}

static void must_open(const char *folder)
{
    struct model *model = open_model(MODEL);
    struct error_text error = {""};
    if (model_open_drafter(model, folder, NULL, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    const struct plan *context = model_drafter(model)->context_plan;
    assert_true(model_plan(model)->keeps_hidden);
    assert_true((context ? context : model_ahead_plan(model))->takes_hidden);
    model_close(model);
}

/* Checks every case before it fails, so that one run shows all that changed. */
static void test_folders(void **state)
{
    (void)state;
    struct tiny_folder folder;
    tiny_folder_create(&folder);
    struct broken_list *list = broken_list_read(LIST);
    struct model *model = open_model(MODEL);
    uint32_t ops = model_plan(model)->op_count, wrong = 0;
    const char *set;
    for (uint32_t i = 0; (set = broken_list_set(list, i)); i++) {
        broken_list_write_set(list, set, folder.path);
        must_open(folder.path);
    }
    for (uint32_t i = 0; i < broken_list_count(list); i++) {
        const struct broken_case *c = broken_list_case(list, i);
        struct error_text error = {""};
        broken_list_write_case(list, c, folder.path);
        enum result result = model_open_drafter(model, folder.path, NULL, &error);
        if (result == RESULT_OK || !c->words || !strstr(error.text, c->words)) {
            print_message("%s:%u: %s\n", LIST, c->line, error.text[0] ? error.text : "it opens");
            wrong++;
        }
        must(result != RESULT_OK);
        assert_null(model_drafter(model));
        assert_null(model_ahead_plan(model));
        assert_true(!model_plan(model)->keeps_hidden && model_plan(model)->op_count == ops);
    }
    assert_int_equal(wrong, 0);
    assert_true(broken_list_count(list) >= CASES_MIN);
    model_close(model);
    broken_list_destroy(list);
    tiny_folder_destroy(&folder);
}

static void expect_refusal(const char *path, const char *drafter, const char *words)
{
    struct model *model = open_model(path);
    struct error_text error = {""};
    enum result result = model_open_drafter(model, drafter, NULL, &error);
    assert_true(result != RESULT_OK);
    if (!strstr(error.text, words))
        fail_msg("%s", error.text);
    assert_false(model_plan(model)->keeps_hidden);
    model_close(model);
}

static void test_other_models(void **state)
{
    (void)state;
    expect_refusal("build/checkpoints/llama-f32", "tests/golden/drafters/eagle3",
                   "it reads the model's state after 2 layers, and the model has 2");
    expect_refusal("build/checkpoints/gemma3n-f32", "tests/golden/drafters/eagle3",
                   "it reads the model's state after 1 layers, which models of family gemma3n do "
                   "not hold in one tensor there");
    expect_refusal("build/checkpoints/glm4_moe-f32", "tests/golden/drafters/eagle3",
                   "tensor fc.weight is [192, 64, 1, 1], not [144, 64] (fastest first)");
    expect_refusal("build/checkpoints/glm4_moe-f32", "tests/golden/drafters/eagle3_speculator",
                   "it reads states of 64 columns and the model's have 48");
    expect_refusal("tests/model/demo", "tests/golden/drafters/eagle3",
                   "its vocabulary has 263 tokens and the model's 4096");
    expect_refusal("build/checkpoints/llama-f32", "build/checkpoints/llama-f32",
                   "drafters of this kind are not read: draft model");
    expect_refusal("build/checkpoints/llama-f32", "build/checkpoints/llama-f32.gguf",
                   "it is no folder that can be read");
    expect_refusal("build/checkpoints/llama-f32", "tests/golden/drafters/none",
                   "it is no folder that can be read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_other_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
