/*
 * The tensor table must hold exactly the tensors that the plan uses: a tensor that is missing,
 * unused, or of another shape or type is refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;

static void test_missing(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 2);
    uint32_t count = tiny.tensor_count;
    for (uint32_t i = 0; i < count; i++) {
        char name[64];
        tiny_checkpoint_init_gemma3(&tiny, 2);
        memcpy(name, tiny.tensors[i].name, sizeof name);
        tiny_checkpoint_drop_tensor(&tiny, name);
        tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, name);
    }
}

static void test_other_shapes(void **state)
{
    (void)state;
    tiny_checkpoint_init_gemma3(&tiny, 1);
    uint32_t count = tiny.tensor_count;
    for (uint32_t i = 0; i < count; i++) {
        tiny_checkpoint_init_gemma3(&tiny, 1);
        tiny.tensors[i].dimensions[0] *= 2;
        tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, tiny.tensors[i].name);
    }
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_k.weight", 16, 16);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "blk.0.attn_k.weight");
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "output.weight", 16, 9);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "output.weight");
}

static void test_vectors_of_any_float(void **state)
{
    (void)state;
    static const uint32_t types[] = {GGML_F32, GGML_F16, GGML_BF16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tiny_checkpoint_init_llama(&tiny, 1);
        tiny_checkpoint_tensor(&tiny, "blk.0.ffn_norm.weight")->type = types[i];
        model_close(tiny_checkpoint_must_open(&tiny));
    }
}

static void test_unused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "blk.0.attn_k.bias",
        "blk.0.ffn_gate_inp.weight",
        "blk.1.attn_norm.weight",
        "blk.0.attn_q_norm.weight",
        "lora_a",
        "rope_freqs",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tiny_checkpoint_init_llama(&tiny, 1);
        tiny_checkpoint_set_tensor(&tiny, names[i], 16, 1);
        tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, names[i]);
    }
    /* a norm after the feed-forward, as in gemma3 */
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.post_ffw_norm.weight", 16, 1);
    tiny_checkpoint_must_refuse(&tiny, RESULT_UNSUPPORTED, "post_ffw_norm.weight");
}

static void test_harmless(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_tensor(&tiny, "blk.0.attn_rot_embd", 2, 1);
    model_close(tiny_checkpoint_must_open(&tiny));
}

static void test_tokenizer_of_another_size(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    tiny_checkpoint_set_strings(&tiny, "tokenizer.ggml.tokens", 9);
    tiny_checkpoint_must_refuse(&tiny, RESULT_INVALID, "tokenizer.ggml.tokens");
    tiny_checkpoint_set_strings(&tiny, "tokenizer.ggml.tokens", 8);
    model_close(tiny_checkpoint_must_open(&tiny));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_vectors_of_any_float),
        cmocka_unit_test(test_unused),
        cmocka_unit_test(test_harmless),
        cmocka_unit_test(test_tokenizer_of_another_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
