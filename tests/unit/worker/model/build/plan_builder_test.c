/*
 * Checks that span several ops, which plan_check cannot do: order, the logits, and that the first
 * error is kept. The checkpoint has four tensors, enough for a model without attention.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "tests/support/tiny_checkpoint.h"
#include "worker/model/build/plan_builder.h"
#include "worker/model/build/plan_ops.h"

static struct tiny_checkpoint tiny;
static struct gguf_file *file;
static struct tensor_table *tensors;
static struct plan_source source;
static struct model_config config;
static struct error_text error;

/* A llama of one layer; the test builds other plans from its file and config. */
static int open_file(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    struct model *model = tiny_checkpoint_must_open(&tiny);
    config = *model_config(model);
    model_close(model);
    if (gguf_file_open(tiny.file.bytes, tiny.file.byte_count, &file, &error) != RESULT_OK)
        return -1;
    tensors = tensor_table_create(gguf_file_tensor_count(file));
    tensor_table_add_gguf(tensors, file, NULL);
    source.tensors = tensors;
    return tensor_table_finish(tensors, &error) == RESULT_OK ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    tensor_table_destroy(tensors);
    gguf_file_close(file);
    return 0;
}

static void refuse(struct plan_builder *b, plan_tensor_id logits, enum result result,
                   const char *words)
{
    struct plan *plan = NULL;
    assert_int_equal(plan_builder_finish(b, logits, &plan), result);
    assert_null(plan);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" lacks \"%s\"", error.text, words);
    plan_builder_destroy(b);
}

static void test_reading_before_writing(void **state)
{
    (void)state;
    struct plan_builder *b = plan_builder_create(&source, &config, &error);
    plan_tensor_id x = plan_builder_tensor(b, PLAN_ROWS_STEP, 16);
    plan_ops_rms_norm(b, x, plan_builder_vector(b, 16, "output_norm.weight"), x);
    refuse(b, x, RESULT_INVALID, "read before it is written");
}

static void test_attention_without_keys(void **state)
{
    (void)state;
    struct qkv_slices slices = plan_ops_qkv_slices(&config);
    struct plan_builder *b = plan_builder_create(&source, &config, &error);
    plan_tensor_id x = plan_builder_tensor(b, PLAN_ROWS_STEP, 16);
    plan_tensor_id qkv = plan_builder_tensor(b, PLAN_ROWS_STEP, slices.columns);
    struct linear_weights weights = {
        plan_builder_matrix(b, 16, 16, "blk.%u.attn_q.weight", 0u),
        plan_builder_matrix(b, 8, 16, "blk.%u.attn_k.weight", 0u),
        plan_builder_matrix(b, 8, 16, "blk.%u.attn_v.weight", 0u),
    };
    plan_ops_embed_rows(b, plan_builder_matrix(b, 8, 16, "token_embd.weight"), x);
    plan_ops_linear(b, x, weights, qkv);
    plan_ops_attention(b, qkv, slices, 0, x);
    refuse(b, x, RESULT_INVALID, "layer 0 has stored no keys");
}

static void test_logits_must_be_logits(void **state)
{
    (void)state;
    struct plan_builder *b = plan_builder_create(&source, &config, &error);
    plan_tensor_id x = plan_builder_tensor(b, PLAN_ROWS_STEP, 16);
    plan_ops_embed_rows(b, plan_builder_matrix(b, 8, 16, "token_embd.weight"), x);
    refuse(b, x, RESULT_INVALID, "logits");
}

static void test_unused_tensors(void **state)
{
    (void)state;
    struct plan_builder *b = plan_builder_create(&source, &config, &error);
    plan_tensor_id x = plan_builder_tensor(b, PLAN_ROWS_STEP, 16);
    plan_tensor_id last = plan_builder_tensor(b, PLAN_ROWS_LOGITS, 16);
    plan_tensor_id logits = plan_builder_tensor(b, PLAN_ROWS_LOGITS, 8);
    plan_weight_id embedding = plan_builder_matrix(b, 8, 16, "token_embd.weight");
    assert_int_equal(plan_builder_matrix(b, 8, 16, "token_embd.weight"), embedding);
    plan_ops_embed_rows(b, embedding, x);
    plan_ops_gather_rows(b, x, last);
    plan_ops_linear(b, last, (struct linear_weights){embedding, PLAN_NONE, PLAN_NONE}, logits);
    refuse(b, logits, RESULT_UNSUPPORTED, "blk.0.attn_k.weight"); /* the first by name */
}

static void test_the_first_error_stays(void **state)
{
    (void)state;
    struct plan_builder *b = plan_builder_create(&source, &config, &error);
    plan_builder_matrix(b, 8, 16, "first.weight");
    plan_builder_matrix(b, 9, 16, "token_embd.weight");
    plan_tensor_id x = plan_builder_tensor(b, PLAN_ROWS_STEP, 16);
    plan_ops_embed_rows(b, 0, x);
    refuse(b, x, RESULT_INVALID, "first.weight is missing");
}

static void test_too_many_windows(void **state)
{
    (void)state;
    struct model_config windows = config;
    windows.layers = KV_GROUPS_MAX + 1;
    for (uint32_t layer = 0; layer < windows.layers; layer++)
        windows.layer[layer].window = layer + 1;
    struct plan_builder *b = plan_builder_create(&source, &windows, &error);
    refuse(b, 0, RESULT_UNSUPPORTED, "windows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_before_writing),
        cmocka_unit_test(test_attention_without_keys),
        cmocka_unit_test(test_logits_must_be_logits),
        cmocka_unit_test(test_unused_tensors),
        cmocka_unit_test(test_the_first_error_stays),
        cmocka_unit_test(test_too_many_windows),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
