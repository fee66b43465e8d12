/*
 * The bytes of the tokens of a text are the text again, for every case of the corpus that a
 * tokenizer does not rewrite; and the published checkpoints' roles are what their publishers say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"
#include "proto/limits.h"
#include "proto/utf8.h"
#include "tests/support/golden_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

/* The tokens' bytes are `text`, with a space in front where the tokenizer puts one. */
static void assert_round_trip(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                              unsigned line)
{
    struct prompt_span span = {text, bytes, false};
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, SIZE_MAX, NULL, &list), RESULT_OK);
    size_t at = 0;
    bool strip = tokenizer_strips_space(tokenizer);
    for (size_t i = 0; i < list.count; i++) {
        const char *shown;
        size_t shown_bytes;
        tokenizer_token_bytes(tokenizer, list.ids[i], &shown, &shown_bytes);
        if (i == 0 && strip) {
            assert_int_equal(shown[0], ' ');
            shown++;
            shown_bytes--;
        }
        if (shown_bytes > bytes - at || memcmp(shown, text + at, shown_bytes) != 0)
            fail_msg("corpus line %u, byte %zu", line, at);
        at += shown_bytes;
    }
    assert_int_equal(at, bytes);
    token_list_fini(&list);
}

static void check_round_trips(const char *name, bool has_pieces)
{
    struct tokenizer *tokenizer = golden_tokenizer_open_published(name);
    struct corpus corpus;
    struct corpus_case next;
    unsigned checked = 0;
    corpus_open(&corpus, "tests/golden/tokenizer", name);
    while (corpus_next(&corpus, &next)) {
        /* A piece vocabulary shows the character U+2581 as a space. */
        bool is_rewritten = !utf8_is_valid(next.bytes, next.byte_count) ||
                            (has_pieces && memmem(next.bytes, next.byte_count, "\xE2\x96\x81", 3));
        if (!is_rewritten && next.byte_count < 1 << 18) {
            assert_round_trip(tokenizer, next.bytes, next.byte_count, next.line);
            checked++;
        }
        corpus_case_fini(&next);
    }
    assert_true(checked > 180);
    corpus_close(&corpus);
    tokenizer_close(tokenizer);
}

static void test_gpt2(void **state)
{
    (void)state;
    check_round_trips("gpt2", false);
}

static void test_llama3(void **state)
{
    (void)state;
    check_round_trips("llama3", false);
}

static void test_llama2(void **state)
{
    (void)state;
    check_round_trips("llama2", true);
}

static void assert_ends(const struct tokenizer *tokenizer, const char *const wanted[], size_t count)
{
    uint32_t ends[LIMIT_STOP_TOKENS];
    assert_int_equal(tokenizer_end_tokens(tokenizer, ends), count);
    for (size_t i = 0; i < count; i++) {
        int32_t id = tokenizer_find_token(tokenizer, wanted[i], strlen(wanted[i]));
        assert_true(id >= 0);
        assert_int_equal(ends[i], id);
        assert_true(tokenizer_is_special(tokenizer, (uint32_t)id));
    }
}

static void test_roles(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = golden_tokenizer_open_published("qwen3");
    assert_ends(tokenizer, (const char *const[]){"<|im_end|>", "<|endoftext|>"}, 2);
    int32_t think = tokenizer_find_token(tokenizer, "<think>", 7);
    assert_int_equal(think, 151667);
    assert_false(tokenizer_is_special(tokenizer, 151667));
    assert_int_equal(tokenizer_bos_token(tokenizer), -1);
    assert_false(tokenizer_adds_bos(tokenizer));
    tokenizer_close(tokenizer);
    tokenizer = golden_tokenizer_open_published("llama2");
    assert_ends(tokenizer, (const char *const[]){"</s>"}, 1);
    assert_int_equal(tokenizer_bos_token(tokenizer), 1);
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_true(tokenizer_strips_space(tokenizer));
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
