/*
 * tokenizer.model files that are no BPE, ask for what is not done, or are broken: each is refused
 * by name. And cut anywhere, a file is refused or opens with fewer pieces, but never crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/prompt/tokenizer/tokenizer.h"

/* Fields: a piece "ab" of score -1, the trainer's BPE, a normalizer that keeps spaces. */
#define PIECE "\x0a\x0b\x0a\x02\x61\x62\x15\x00\x00\x80\xbf\x18\x01"
#define BPE   "\x12\x02\x18\x02"
#define KEEPS "\x1a\x02\x20\x00"

static const struct {
    const char *bytes;
    size_t byte_count;
    enum result result;
    const char *words;
} cases[] = {
    {"", 0, RESULT_INVALID, "tokenizer.model: it has no pieces"},
    {BPE KEEPS, sizeof(BPE KEEPS) - 1, RESULT_INVALID, "tokenizer.model: it has no pieces"},
    {PIECE, sizeof(PIECE) - 1, RESULT_UNSUPPORTED, "model type unigram, not BPE"},
    {PIECE "\x12\x02\x18\x01", sizeof(PIECE "\x12\x02\x18\x01") - 1, RESULT_UNSUPPORTED,
     "model type unigram, not BPE"},
    {PIECE "\x12\x02\x18\x03", sizeof(PIECE "\x12\x02\x18\x03") - 1, RESULT_UNSUPPORTED,
     "model type word, not BPE"},
    {PIECE "\x12\x02\x18\x04", sizeof(PIECE "\x12\x02\x18\x04") - 1, RESULT_UNSUPPORTED,
     "model type char, not BPE"},
    {PIECE "\x12\x02\x18\x09", sizeof(PIECE "\x12\x02\x18\x09") - 1, RESULT_UNSUPPORTED,
     "model type unknown, not BPE"},
    {PIECE BPE, sizeof(PIECE BPE) - 1, RESULT_UNSUPPORTED, "it removes extra whitespace"},
    {PIECE BPE "\x1a\x02\x20\x01", sizeof(PIECE BPE "\x1a\x02\x20\x01") - 1, RESULT_UNSUPPORTED,
     "it removes extra whitespace"},
    {PIECE BPE "\x1a\x09\x0a\x04nmt_\x12\x01x",
     sizeof(PIECE BPE "\x1a\x09\x0a\x04nmt_\x12\x01x") - 1, RESULT_UNSUPPORTED,
     "normalizer \"nmt_\" changes characters"},
    {PIECE BPE KEEPS "\x0b", sizeof(PIECE BPE KEEPS "\x0b") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0c", sizeof(PIECE BPE KEEPS "\x0c") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0e", sizeof(PIECE BPE KEEPS "\x0e") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x02\x00", sizeof(PIECE BPE KEEPS "\x02\x00") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0a", sizeof(PIECE BPE KEEPS "\x0a") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0a\x7f", sizeof(PIECE BPE KEEPS "\x0a\x7f") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
     sizeof(PIECE BPE KEEPS "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
     sizeof(PIECE BPE KEEPS "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0d\x00\x00\x00", sizeof(PIECE BPE KEEPS "\x0d\x00\x00\x00") - 1,
     RESULT_CORRUPT, "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x09\x00\x00\x00\x00\x00\x00\x00",
     sizeof(PIECE BPE KEEPS "\x09\x00\x00\x00\x00\x00\x00\x00") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE "\x1a\x02\x20", sizeof(PIECE BPE "\x1a\x02\x20") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE "\x1a\x01\x20", sizeof(PIECE BPE "\x1a\x01\x20") - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE "\x12\x01\x18" KEEPS, sizeof(PIECE "\x12\x01\x18" KEEPS) - 1, RESULT_CORRUPT,
     "malformed protocol buffer"},
    {PIECE BPE KEEPS "\x0a\x02\x0a\x05", sizeof(PIECE BPE KEEPS "\x0a\x02\x0a\x05") - 1,
     RESULT_CORRUPT, "malformed piece 1"},
    {PIECE BPE KEEPS "\x0a\x04\x0a\x00\x18\x00",
     sizeof(PIECE BPE KEEPS "\x0a\x04\x0a\x00\x18\x00") - 1, RESULT_CORRUPT, "malformed piece 1"},
    {PIECE BPE KEEPS "\x0a\x04\x0a\x00\x18\x07",
     sizeof(PIECE BPE KEEPS "\x0a\x04\x0a\x00\x18\x07") - 1, RESULT_CORRUPT, "malformed piece 1"},
    {PIECE BPE KEEPS "\x0a\x05\x15\x00\x00\x80\x7f",
     sizeof(PIECE BPE KEEPS "\x0a\x05\x15\x00\x00\x80\x7f") - 1, RESULT_CORRUPT,
     "malformed piece 1"},
    {PIECE BPE KEEPS "\x0a\x05\x15\x00\x00\xc0\x7f",
     sizeof(PIECE BPE KEEPS "\x0a\x05\x15\x00\x00\xc0\x7f") - 1, RESULT_CORRUPT,
     "malformed piece 1"},
    {"\x0a\x02\x0a\x00" BPE KEEPS, sizeof("\x0a\x02\x0a\x00" BPE KEEPS) - 1, RESULT_INVALID,
     "all pieces are empty"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error_text error = {""};
        enum result result =
            tokenizer_open_model(cases[i].bytes, cases[i].byte_count, &tokenizer, &error);
        if (result != cases[i].result || !strstr(error.text, cases[i].words))
            fail_msg("case %zu: %s \"%s\", not \"%s\"", i, result_name(result), error.text,
                     cases[i].words);
        assert_null(tokenizer);
    }
}

static void test_a_long_piece(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    size_t tail = sizeof BPE KEEPS - 1;
    char *bytes = malloc(6 + 2049 + tail);
    memcpy(bytes, "\x0a\x84\x10\x0a\x81\x10", 6); /* lengths 2052 and 2049 */
    memset(bytes + 6, 'a', 2049);
    memcpy(bytes + 6 + 2049, BPE KEEPS, tail);
    assert_int_equal(tokenizer_open_model(bytes, 6 + 2049 + tail, &tokenizer, &error),
                     RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "tokenizer.model: piece 0 of 2049 bytes"));
    free(bytes);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    static const char whole[] = BPE KEEPS PIECE PIECE;
    for (size_t kept = 0; kept < sizeof whole; kept++) {
        struct tokenizer *tokenizer = NULL;
        struct error_text error = {""};
        char *bytes = malloc(kept + 1);
        memcpy(bytes, whole, kept);
        bool opens = tokenizer_open_model(bytes, kept, &tokenizer, &error) == RESULT_OK;
        size_t pieces = kept < 8 ? 0 : (kept - 8) / (sizeof PIECE - 1);
        assert_true(opens == (kept >= 8 && (kept - 8) % (sizeof PIECE - 1) == 0 && pieces > 0));
        if (opens) {
            assert_int_equal(tokenizer_vocab_tokens(tokenizer), pieces);
            tokenizer_close(tokenizer);
        } else {
            assert_true(error.text[0] != '\0');
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_long_piece),
        cmocka_unit_test(test_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
