/*
 * The pre-tokenizers that GGUF files name cut every case of the corpus into the same pieces as the
 * pre-tokenizer in the tokenizer.json that the family's publisher ships.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/pretokenizer_preset.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "frontend/prompt/tokenizer/tokenizer_state.h"
#include "proto/utf8.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

static void assert_same_pieces(const struct pretokenizer *a, const struct pretokenizer *b,
                               const struct corpus_case *text)
{
    struct pretokenizer_scratch left = {0};
    struct pretokenizer_scratch right = {0};
    const char *cut;
    assert_int_equal(pretokenizer_run(a, &left, text->bytes, text->byte_count, true, &cut),
                     RESULT_OK);
    assert_int_equal(pretokenizer_run(b, &right, text->bytes, text->byte_count, true, &cut),
                     RESULT_OK);
    if (left.pieces.count != right.pieces.count ||
        (left.pieces.count > 0 && memcmp(left.pieces.pieces, right.pieces.pieces,
                                         left.pieces.count * sizeof(struct piece)) != 0))
        fail_msg("corpus line %u is cut differently", text->line);
    pretokenizer_scratch_fini(&left);
    pretokenizer_scratch_fini(&right);
}

static void check(const char *preset, const char *published)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_published(published);
    struct pretokenizer named = {0};
    struct pretokenizer_traits traits;
    struct corpus corpus;
    struct corpus_case next;
    assert_int_equal(pretokenizer_preset_open(preset, strlen(preset), &named, &traits, NULL),
                     RESULT_OK);
    assert_int_equal(traits.ignore_merges, tokenizer->model.ignore_merges);
    assert_int_equal(traits.form_c, tokenizer->normalizer.step_count == 1);
    corpus_open(&corpus, "tests/golden/tokenizer", published);
    while (corpus_next(&corpus, &next)) {
        if (utf8_is_valid(next.bytes, next.byte_count) && next.byte_count < 1 << 18)
            assert_same_pieces(&named, &tokenizer->pretokenizer, &next);
        corpus_case_fini(&next);
    }
    corpus_close(&corpus);
    pretokenizer_fini(&named);
    tokenizer_close(tokenizer);
}

static void test_presets(void **state)
{
    (void)state;
    check("gpt-2", "gpt2");
    check("llama-bpe", "llama3");
    check("qwen2", "qwen3");
    check("deepseek-v3", "deepseek_v3");
}

static void test_every_name_opens(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2",  "gpt2",   "default", "llama-bpe",
                                        "llama3", "qwen2",  "qwen35",  "smollm",
                                        "tekken", "gpt-4o", "llama4",  "refact"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pretokenizer opened = {0};
        struct pretokenizer_traits traits;
        struct error_text error = {""};
        if (pretokenizer_preset_open(names[i], strlen(names[i]), &opened, &traits, &error))
            fail_msg("%s: %s", names[i], error.text);
        pretokenizer_fini(&opened);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_every_name_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
