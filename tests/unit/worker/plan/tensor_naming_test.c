/*
 * One tensor under several spellings: the spelling that the checkpoint has is found; a name that is
 * in no row or under no spelling is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"
#include "worker/plan/tensor_naming.h"

static const struct tensor_name names[] = {
    {"output.weight", "lm_head.weight"},
    {"output.weight", "text.lm_head.weight"},
    {"blk.*.a.weight", "^layers.*.a.weight"},
    {"blk.*.b.*.weight", "^layers.*.experts.*.b.weight"},
    {NULL, NULL},
};
static const struct tensor_name usual[] = {
    {"output.weight", "embed.weight"},
    {"blk.*.c.weight", "^layers.*.c.weight"},
    {NULL, NULL},
};
static const char *const prefixes[] = {"model.", NULL};
static const char *const other_parts[] = {NULL};
static const struct tensor_naming naming = {names, usual, prefixes, other_parts};
static const struct tensor_name layer_names[] = {
    {"own.%", "blk.*.own.%"},
    {"blk.*.b.*.weight", "^layers.*.experts.*.b.weight"},
    {"blk.*.%", "blk.*.%"},
    {NULL, NULL},
};
static const struct tensor_naming layer_naming = {layer_names, NULL, prefixes, NULL};

static struct tiny_checkpoint tiny;

/* The table of a file that has a tensor of this name among others. */
static struct gguf_file *open_file_with(const char *name)
{
    struct error_text error;
    struct model *model = NULL;
    struct gguf_file *file = NULL;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, name, 4, 1);
    (void)tiny_checkpoint_open(&tiny, &model, &error); /* writes the file; refused or not */
    model_close(model);
    assert_int_equal(gguf_file_open(tiny.file.bytes, tiny.file.byte_count, &file, &error),
                     RESULT_OK);
    return file;
}

static void expect_by(const struct tensor_naming *by, const char *has, const char *asked,
                      bool found, const char *spelled)
{
    struct error_text error;
    struct stored_name stored = {"as it was"};
    struct gguf_file *file = open_file_with(has);
    struct tensor_table *table = tensor_table_create(gguf_file_tensor_count(file));
    assert_non_null(table);
    tensor_table_add_gguf(table, file, NULL);
    assert_int_equal(tensor_table_finish(table, &error), RESULT_OK);
    struct naming_place place = {prefixes[0], by == &layer_naming ? "41" : NULL};
    const struct checkpoint_tensor *tensor = tensor_naming_find(by, table, place, asked, &stored);
    assert_int_equal(tensor != NULL, found);
    assert_string_equal(stored.text, spelled);
    tensor_table_destroy(table);
    gguf_file_close(file);
}

static void expect(const char *has, const char *asked, bool found, const char *spelled)
{
    expect_by(&naming, has, asked, found, spelled);
}

/* Whichever layer is asked for, names have the place's; the rest of a name is kept. */
static void test_one_layer(void **state)
{
    (void)state;
    const struct tensor_naming *by = &layer_naming;
    expect_by(by, "blk.41.own.a.weight", "own.a.weight", true, "blk.41.own.a.weight");
    expect_by(by, "blk.0.own.a.weight", "own.a.weight", false, "blk.41.own.a.weight");
    expect_by(by, "blk.41.c.bias", "blk.0.c.bias", true, "blk.41.c.bias");
    expect_by(by, "model.layers.41.experts.5.b.weight", "blk.0.b.5.weight", true,
              "model.layers.41.experts.5.b.weight");
    expect_by(by, "own.", "own.", false, "as it was");
    expect_by(by, "c", "c", false, "as it was");
}

static void test_spellings(void **state)
{
    (void)state;
    expect("lm_head.weight", "output.weight", true, "lm_head.weight");
    expect("text.lm_head.weight", "output.weight", true, "text.lm_head.weight");
    expect("other", "output.weight", false, "lm_head.weight");
    expect("embed.weight", "output.weight", false, "lm_head.weight"); /* its own rows decide */
    expect("model.layers.7.c.weight", "blk.7.c.weight", true, "model.layers.7.c.weight");
    expect("model.layers.12.a.weight", "blk.12.a.weight", true, "model.layers.12.a.weight");
    expect("model.layers.1.a.weight", "blk.12.a.weight", false, "model.layers.12.a.weight");
    expect("model.layers.3.experts.45.b.weight", "blk.3.b.45.weight", true,
           "model.layers.3.experts.45.b.weight");
    expect("model.layers.3.experts.4.b.weight", "blk.3.b.45.weight", false,
           "model.layers.3.experts.45.b.weight");
    expect("b", "blk.3.b.x.weight", false, "as it was");
    expect("b", "b", false, "as it was");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spellings),
                                       cmocka_unit_test(test_one_layer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
