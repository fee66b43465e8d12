/*
 * Tokenizers in small GGUF files: a piece vocabulary with and without a space in front, merge order
 * from scores, and every way in which the metadata is refused.
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
#include "proto/gguf_file.h"
#include "tests/support/gguf_builder.h"

static struct gguf_builder builder;

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6 };

struct entry {
    const char *text;
    uint32_t type;
    float score;
};

/* "ab" + "c" and "a" + "bc" both make "abc"; the longer left part goes first. */
static const struct entry pieces[] = {
    {"<unk>", UNKNOWN, 0},
    {"<s>", CONTROL, 0},
    {"</s>", CONTROL, 0},
    {"<0x0A>", BYTE, 0},
    {"\xE2\x96\x81", NORMAL, -20},
    {"a", NORMAL, -21},
    {"b", NORMAL, -22},
    {"c", NORMAL, -23},
    {"abc", NORMAL, -3},
    {"ab", NORMAL, -2},
    {"bc", NORMAL, -1},
    {"\xE2\x96\x81"
     "a",
     NORMAL, -4},
    {"  ", USER_DEFINED, -1000},
    {"<end_of_turn>", CONTROL, 0},
    {"ca", NORMAL, -1},
    {"\xC3", USER_DEFINED, -1000},
};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

static void add_pieces(const char *model, size_t piece_count, size_t score_count)
{
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.model", model);
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.tokens", GGUF_STRING, piece_count);
    for (size_t i = 0; i < piece_count; i++)
        gguf_builder_add_string(&builder, pieces[i].text);
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.token_type", GGUF_INT32, piece_count);
    for (size_t i = 0; i < piece_count; i++)
        gguf_builder_add_u32(&builder, pieces[i].type);
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.scores", GGUF_FLOAT32, score_count);
    for (size_t i = 0; i < score_count; i++) {
        uint32_t bits;
        memcpy(&bits, &pieces[i].score, sizeof bits);
        gguf_builder_add_u32(&builder, bits);
    }
}

static enum result open_built(struct tokenizer **tokenizer, struct error_text *error)
{
    struct gguf_file *gguf;
    uint8_t *bytes = malloc(builder.byte_count);
    memcpy(bytes, builder.bytes, builder.byte_count);
    if (gguf_file_open(bytes, builder.byte_count, &gguf, error) != RESULT_OK)
        fail_msg("builder: %s", error->text);
    enum result result = tokenizer_open_gguf(gguf, tokenizer, error);
    gguf_file_close(gguf);
    free(bytes);
    return result;
}

static struct tokenizer *open_pieces(bool has_prefix)
{
    struct tokenizer *tokenizer;
    struct error_text error = {""};
    gguf_builder_init(&builder, 0, 7);
    add_pieces("llama", PIECES, PIECES);
    gguf_builder_add_key_u32(&builder, "tokenizer.ggml.bos_token_id", 1);
    gguf_builder_add_key_u32(&builder, "tokenizer.ggml.eos_token_id", 2);
    gguf_builder_add_key(&builder, "tokenizer.ggml.add_space_prefix", GGUF_BOOL);
    gguf_builder_add_u8(&builder, has_prefix);
    if (open_built(&tokenizer, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static void assert_ids(const struct tokenizer *tokenizer, const char *text, size_t wanted_count,
                       const uint32_t wanted[])
{
    struct prompt_span span = {text, strlen(text), true};
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, &span, 1, 100, NULL, &list), RESULT_OK);
    assert_int_equal(list.count, wanted_count);
    assert_memory_equal(list.ids, wanted, wanted_count * sizeof *wanted);
    token_list_fini(&list);
}

static void test_space_in_front(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = open_pieces(true);
    assert_true(tokenizer_strips_space(tokenizer));
    assert_true(tokenizer_adds_bos(tokenizer));
    assert_ids(tokenizer, "a", 1, (const uint32_t[]){11});
    assert_ids(tokenizer, " a", 2, (const uint32_t[]){12, 5}); /* user-defined ones go first */
    assert_ids(tokenizer, "<s>a</s>", 3, (const uint32_t[]){1, 11, 2}); /* behind every special */
    assert_ids(tokenizer, "", 0, NULL);
    tokenizer_close(tokenizer);
    tokenizer = open_pieces(false);
    assert_false(tokenizer_strips_space(tokenizer));
    assert_ids(tokenizer, "a a", 2, (const uint32_t[]){5, 11});
    tokenizer_close(tokenizer);
}

static void test_best_score_merges_first(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = open_pieces(false);
    assert_ids(tokenizer, "abc", 1, (const uint32_t[]){8});     /* bc, then a+bc */
    assert_ids(tokenizer, "abca", 2, (const uint32_t[]){8, 5}); /* bc and ca tie: lower id */
    assert_ids(tokenizer, "cab", 2, (const uint32_t[]){14, 6});
    assert_ids(tokenizer, "a  a", 3, (const uint32_t[]){5, 12, 5});
    assert_ids(tokenizer, "\n", 1, (const uint32_t[]){3});
    assert_ids(tokenizer,
               "\xC3\xA9\xC3\xA9"
               "a",
               2, (const uint32_t[]){0, 5}); /* fused unknown */
    tokenizer_close(tokenizer);
}

/* Scores say that "bc" goes first, merges that "ab" does; merges count. */
static void test_pieces_with_merges(void **state)
{
    (void)state;
    static const char *const merges[] = {"a b",    "ab c", "b c", "\xE2\x96\x81 a",
                                         "gone a", "abc",  ""};
    struct tokenizer *tokenizer;
    struct error_text error = {""};
    gguf_builder_init(&builder, 0, 6);
    add_pieces("gemma4", PIECES, PIECES);
    gguf_builder_add_key(&builder, "tokenizer.ggml.add_space_prefix", GGUF_BOOL);
    gguf_builder_add_u8(&builder, false);
    gguf_builder_add_key_array(&builder, "tokenizer.ggml.merges", GGUF_STRING, 7);
    for (size_t i = 0; i < 7; i++)
        gguf_builder_add_string(&builder, merges[i]);
    if (open_built(&tokenizer, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_ids(tokenizer, "abc", 1, (const uint32_t[]){8});
    assert_ids(tokenizer, " abc", 2, (const uint32_t[]){4, 8});
    assert_ids(tokenizer, "cab", 2, (const uint32_t[]){7, 9}); /* by scores it is ca|b */
    assert_ids(tokenizer, "bca\n", 3, (const uint32_t[]){10, 5, 3});
    tokenizer_close(tokenizer);
    gguf_builder_init(&builder, 0, 4);
    add_pieces("gemma4", PIECES, PIECES);
    assert_int_equal(open_built(&tokenizer, &error), RESULT_INVALID);
    assert_non_null(strstr(error.text, "tokenizer.ggml.merges"));
}

static void test_roles(void **state)
{
    (void)state;
    struct tokenizer *tokenizer = open_pieces(true);
    uint32_t ends[LIMIT_STOP_TOKENS];
    const char *bytes;
    size_t byte_count;
    assert_int_equal(tokenizer_vocab_tokens(tokenizer), PIECES);
    assert_int_equal(tokenizer_bos_token(tokenizer), 1);
    assert_int_equal(tokenizer_eos_token(tokenizer), 2);
    assert_int_equal(tokenizer_end_tokens(tokenizer, ends), 2);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 13);
    assert_true(tokenizer_is_special(tokenizer, 0) && tokenizer_is_special(tokenizer, 13));
    assert_false(tokenizer_is_special(tokenizer, 12) || tokenizer_is_special(tokenizer, 3));
    assert_int_equal(tokenizer_find_token(tokenizer, "</s>", 4), 2);
    assert_int_equal(tokenizer_find_token(tokenizer, "abc", 3), 8);
    assert_int_equal(tokenizer_find_token(tokenizer, "nope", 4), -1);
    tokenizer_token_bytes(tokenizer, 11, &bytes, &byte_count);
    assert_int_equal(byte_count, 2);
    assert_memory_equal(bytes, " a", 2);
    tokenizer_token_bytes(tokenizer, 3, &bytes, &byte_count);
    assert_int_equal(byte_count, 1);
    assert_memory_equal(bytes, "\n", 1);
    tokenizer_token_bytes(tokenizer, PIECES, &bytes, &byte_count);
    assert_int_equal(byte_count, 0);
    tokenizer_close(tokenizer);
}

static void assert_refused(enum result wanted, const char *words)
{
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    enum result result = open_built(&tokenizer, &error);
    if (result != wanted || !strstr(error.text, words))
        fail_msg("%s, '%s', wanted '%s'", result_name(result), error.text, words);
    assert_null(tokenizer);
}

static void test_refusals(void **state)
{
    (void)state;
    gguf_builder_init(&builder, 0, 0);
    assert_refused(RESULT_INVALID, "tokenizer.ggml.model");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.model", "t5");
    assert_refused(RESULT_UNSUPPORTED, "'t5'");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.model", "llama");
    assert_refused(RESULT_INVALID, "tokenizer.ggml.tokens");
    gguf_builder_init(&builder, 0, 4);
    add_pieces("llama", PIECES, PIECES - 1);
    assert_refused(RESULT_INVALID, "tokenizer.ggml.scores");
    gguf_builder_init(&builder, 0, 5);
    add_pieces("gpt2", PIECES, PIECES);
    gguf_builder_add_key_string(&builder, "tokenizer.ggml.pre", "homegrown-bpe");
    assert_refused(RESULT_UNSUPPORTED, "'homegrown-bpe'");
    gguf_builder_init(&builder, 0, 4);
    add_pieces("gpt2", PIECES, PIECES);
    assert_refused(RESULT_INVALID, "tokenizer.ggml.merges");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space_in_front),     cmocka_unit_test(test_best_score_merges_first),
        cmocka_unit_test(test_pieces_with_merges), cmocka_unit_test(test_roles),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
