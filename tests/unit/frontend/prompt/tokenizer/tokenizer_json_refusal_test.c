/*
 * tokenizer.json files that are malformed, or ask for what Shoal does not do, are refused with a
 * result and words; what is cut off anywhere never opens.
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
#include "tests/support/tiny_tokenizer.h"
#include "tests/support/tokenizer_corpus.h"

#define MODEL "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static enum result open_text(const char *json, struct error_text *error)
{
    struct tokenizer *tokenizer = NULL;
    size_t bytes = strlen(json);
    char *exact = malloc(bytes ? bytes : 1); /* a sanitizer sees a read past its end */
    memcpy(exact, json, bytes);
    enum result result = tokenizer_open_json(exact, bytes, &tokenizer, error);
    free(exact);
    tokenizer_close(tokenizer);
    return result;
}

struct refusal {
    const char *json;
    enum result result;
    const char *words;
};

static void check_refusals(const struct refusal refusals[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct error_text error = {""};
        enum result result = open_text(refusals[i].json, &error);
        if (result != refusals[i].result || !strstr(error.text, refusals[i].words))
            fail_msg("%s: %s, '%s'", refusals[i].json, result_name(result), error.text);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"", RESULT_INVALID, "document"},
        {"[]", RESULT_INVALID, "document"},
        {"{}", RESULT_INVALID, "document"},
        {"{\"model\":null}", RESULT_INVALID, "document"},
        {"{\"model\":3}", RESULT_INVALID, "model"},
        {"{\"model\":{}}", RESULT_INVALID, "no vocab"},
        {"{\"model\":{\"vocab\":{}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":-1}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":1.5}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":99999999999}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":2000000}}}", RESULT_TOO_LARGE, "token 2000000"},
        {"{\"model\":{\"vocab\":{\"\\ud800\":1}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"\xff\":1}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"vocab\":{\"a\":1,}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"type\":\"Unknown\",\"vocab\":{\"a\":1}}}", RESULT_UNSUPPORTED, "Unknown"},
        {"{\"model\":{\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":1}}}", RESULT_UNSUPPORTED,
         "end_of_word_suffix"},
        {"{\"model\":{\"type\":\"WordPiece\",\"max_input_chars_per_word\":1001,\"vocab\":{\"a\":1}}"
         "}",
         RESULT_UNSUPPORTED, "max_input_chars_per_word"},
        {"{\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":3,\"vocab\":{\"a\":1}}}",
         RESULT_INVALID, "continuing_subword_prefix"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", RESULT_INVALID, "merge 0"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", RESULT_INVALID, "merges"},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", RESULT_INVALID, "merges"},
        {"{\"added_tokens\":[{\"id\":1}],\"model\":" MODEL "}", RESULT_INVALID, "added_tokens"},
        {"{\"added_tokens\":[{\"id\":4000000000,\"content\":\"x\"}],\"model\":" MODEL "}",
         RESULT_TOO_LARGE, "added token 4000000000"},
        {"{\"normalizer\":{\"type\":\"NFKC\"},\"model\":" MODEL "}", RESULT_UNSUPPORTED, "NFKC"},
        {"{\"normalizer\":{\"type\":\"Sequence\"},\"model\":" MODEL "}", RESULT_INVALID,
         "normalizers"},
        {"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\xf4\"},\"model\":" MODEL "}",
         RESULT_INVALID, "UTF-8"},
        {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"},\"model\":" MODEL "}",
         RESULT_UNSUPPORTED, "UnicodeScripts"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
         "\"Isolated\"},\"model\":" MODEL "}",
         RESULT_UNSUPPORTED, "pattern"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
         "\"Odd\"},\"model\":" MODEL "}",
         RESULT_INVALID, "Odd"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
         "{\"type\":\"Digits\"}]},\"model\":" MODEL "}",
         RESULT_UNSUPPORTED, "after ByteLevel"},
        {"{\"decoder\":{\"type\":\"WordPiece\"},\"model\":" MODEL "}", RESULT_UNSUPPORTED,
         "WordPiece"},
    };
    check_refusals(cases, sizeof cases / sizeof cases[0]);
    assert_int_equal(open_text("{\"model\":" MODEL "}", NULL), RESULT_OK);
}

static void test_unigram_refusals(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":1}}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1,2]]}}", RESULT_INVALID, "vocab"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", RESULT_INVALID, "token 0"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1]]}}", RESULT_INVALID,
         "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":-1,\"vocab\":[[\"a\",-1]]}}", RESULT_INVALID,
         "unk_id"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"},\"model\":" MODEL
         "}",
         RESULT_INVALID, "charsmap"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"????\"},"
         "\"model\":" MODEL "}",
         RESULT_INVALID, "charsmap"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAAB\"},"
         "\"model\":" MODEL "}",
         RESULT_INVALID, "charsmap"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////"
         "wAAAAAA\"},\"model\":" MODEL "}",
         RESULT_INVALID, "charsmap"},
    };
    check_refusals(cases, sizeof cases / sizeof cases[0]);
}

static void test_deep_nesting_is_refused(void **state)
{
    (void)state;
    char json[4096] = "{\"x\":";
    size_t at = strlen(json);
    memset(json + at, '[', 3000);
    struct error_text error = {""};
    assert_int_equal(open_text(json, &error), RESULT_INVALID);
}

static void test_too_many_steps_are_refused(void **state)
{
    (void)state;
    char json[8192];
    size_t at =
        (size_t)sprintf(json, "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 17; i++)
        at += (size_t)sprintf(json + at, "%s{\"type\":\"Digits\"}", i ? "," : "");
    sprintf(json + at, "]},\"model\":" MODEL "}");
    struct error_text error = {""};
    assert_int_equal(open_text(json, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "16"));
}

static void assert_every_cut_refused(const char *json, size_t json_bytes, size_t step)
{
    while (json_bytes > 0 && strchr(" \n", json[json_bytes - 1]))
        json_bytes--;
    for (size_t bytes = 0; bytes < json_bytes; bytes += step) {
        char *exact = malloc(bytes ? bytes : 1);
        struct tokenizer *tokenizer = NULL;
        struct error_text error = {""};
        memcpy(exact, json, bytes);
        assert_int_not_equal(tokenizer_open_json(exact, bytes, &tokenizer, &error), RESULT_OK);
        assert_true(error.text[0] != '\0');
        free(exact);
    }
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    size_t json_bytes;
    char *json = tiny_tokenizer_json(&json_bytes);
    assert_every_cut_refused(json, json_bytes, 3);
    free(json);
    json = corpus_read_file("tests/golden/tokenizer/variants/added_normalized.json", "git checkout",
                            &json_bytes);
    assert_every_cut_refused(json, json_bytes, 1);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_unigram_refusals),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_too_many_steps_are_refused),
        cmocka_unit_test(test_every_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
