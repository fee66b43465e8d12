/*
 * Random groups (proto/grammar_blob.h) against all of their texts, which are listed by choosing one
 * text after the other: the matcher reads a text of up to READ_LETTERS letters if and only if a
 * listed text begins so, it may end where one ends, and masks equal following each token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "tests/support/test_random.h"
#include "worker/sample/grammar_matcher.h"

#define GROUPS       400u
#define CHOICES      4u
#define READ_LETTERS 7u
#define LIST_LETTERS 18u   /* a text of READ_LETTERS has a completion of this length, or none */
#define TEXTS        2187u /* 3^READ_LETTERS */

struct shape {
    char words[CHOICES + 1][4]; /* the choices; then what is undeclared */
    bool required[CHOICES], has_extra;
    uint32_t choice_count, early, minimum, maximum;
};

/* By length and letters as digits. */
struct texts {
    bool begins[READ_LETTERS + 1][TEXTS], whole[READ_LETTERS + 1][TEXTS];
};

struct listing {
    const struct shape *shape;
    struct texts *texts;
    char text[LIST_LETTERS + 8];
};

static uint32_t number_of(const char *text, uint32_t length)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < length; i++)
        number = number * 3 + (uint32_t)(text[i] - 'a');
    return number;
}

static void note(struct listing *listing, uint32_t length)
{
    for (uint32_t i = 0; i <= length && i <= READ_LETTERS; i++)
        listing->texts->begins[i][number_of(listing->text, i)] = true;
    if (length <= READ_LETTERS)
        listing->texts->whole[length][number_of(listing->text, length)] = true;
}

static bool is_complete(const struct shape *shape, uint32_t read, uint32_t undeclared)
{
    for (uint32_t i = 0; i < shape->choice_count; i++)
        if (shape->required[i] && !(read >> i & 1))
            return false;
    return (uint32_t)__builtin_popcount(read) + (undeclared > 0) >= shape->minimum;
}

/* Lists what can follow the first `length` letters, of which `early` undeclared texts came before the
 * last required choice. */
static void list_after(struct listing *listing, uint32_t length, uint32_t read, uint32_t undeclared,
                       uint32_t early)
{
    const struct shape *shape = listing->shape;
    uint32_t count = (uint32_t)__builtin_popcount(read) + undeclared;
    bool required_read = true;
    for (uint32_t i = 0; i < shape->choice_count; i++)
        required_read = required_read && (!shape->required[i] || (read >> i & 1));
    if (count > 0 && is_complete(shape, read, undeclared))
        note(listing, length);
    if (count >= shape->maximum)
        return;
    uint32_t begin = length;
    if (count > 0)
        listing->text[begin++] = 'c';
    for (uint32_t i = 0; i < CHOICES + 1; i++) {
        bool declared = i < shape->choice_count && !(read >> i & 1);
        bool extra = i == CHOICES && shape->has_extra && (required_read || early < shape->early);
        uint32_t bytes = (uint32_t)strlen(shape->words[i]);
        if ((!declared && !extra) || begin + bytes > LIST_LETTERS)
            continue;
        memcpy(listing->text + begin, shape->words[i], bytes);
        list_after(listing, begin + bytes, declared ? read | 1u << i : read, undeclared + extra,
                   early + (extra && !required_read));
    }
}

static struct shape draw_shape(struct test_random *random)
{
    struct shape shape = {.choice_count = test_random_below(random, CHOICES + 1)};
    for (uint32_t i = 0; i < CHOICES + 1; i++)
        for (uint32_t n = 1 + test_random_below(random, 2), at = 0; at < n; at++)
            shape.words[i][at] = (char)('a' + test_random_below(random, 2));
    for (uint32_t i = 0; i < shape.choice_count; i++)
        shape.required[i] = test_random_below(random, 2);
    shape.has_extra = test_random_below(random, 2);
    shape.early = test_random_below(random, 4);
    shape.minimum = test_random_below(random, 4);
    bool open = test_random_below(random, 2);
    shape.maximum = open ? GRAMMAR_UNBOUNDED : shape.minimum + 1 + test_random_below(random, 3);
    uint32_t required = 0;
    for (uint32_t i = 0; i < shape.choice_count; i++)
        required += shape.required[i];
    if (shape.maximum < required)
        shape.maximum = required;
    return shape;
}

static symbol_id word_unit(struct grammar_builder *b, const char *word)
{
    symbol_id letters[2];
    for (size_t i = 0; i < strlen(word); i++) /* a rule for the second letter: units hold symbols */
        letters[i] = grammar_terminal(b, grammar_regex_literal(b, word + i, 1));
    return grammar_unit(b, letters, strlen(word));
}

static bool build(const struct shape *shape, struct grammar_blob_out *out)
{
    struct grammar_builder *b = grammar_builder_open(&(struct grammar_bounds){0});
    struct grammar_group_choice choices[CHOICES];
    assert_non_null(b);
    for (uint32_t i = 0; i < shape->choice_count; i++)
        choices[i] =
            (struct grammar_group_choice){word_unit(b, shape->words[i]), shape->required[i]};
    const struct grammar_group group = {
        .choices = choices,
        .choice_count = shape->choice_count,
        .separator = grammar_terminal(b, grammar_regex_literal(b, "c", 1)),
        .extra = shape->has_extra ? word_unit(b, shape->words[CHOICES]) : GRAMMAR_NONE,
        .early = shape->early,
        .minimum = shape->minimum,
        .maximum = shape->maximum};
    bool good = grammar_builder_finish(b, grammar_group(b, &group), out);
    if (!good)
        assert_int_equal(grammar_builder_failure(b), GRAMMAR_EMPTY_LANGUAGE);
    grammar_builder_close(b);
    return good;
}

/* a, b, c, then pairs and triples of them, and the end token. */
static struct grammar_vocabulary *open_vocabulary(void)
{
    static uint8_t bytes[128];
    uint32_t offsets[41], used = 0, token = 0;
    for (uint32_t length = 1, count = 3; length <= 3; length++, count *= 3)
        for (uint32_t n = 0; n < count; n++) {
            offsets[token++] = used;
            for (uint32_t i = 0, left = n; i < length; i++, left /= 3)
                bytes[used++] = (uint8_t)('a' + left % 3);
        }
    offsets[39] = offsets[40] = used;
    return grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, 40}, &(const uint32_t){39},
                                   1, 40);
}

static void check_mask(struct grammar_matcher *m)
{
    uint32_t words[2];
    size_t allowed, before = grammar_matcher_followed(m);
    assert_int_equal(grammar_matcher_mask(m, words, &allowed), GRAMMAR_OK);
    for (uint32_t t = 0; t < 40; t++) {
        bool taken = grammar_matcher_follow(m, &t, 1) == GRAMMAR_OK;
        assert_int_equal(taken, words[t / 32] >> t % 32 & 1);
        grammar_matcher_cut(m, before);
    }
}

static void compare(struct grammar_matcher *m, const struct texts *texts, unsigned seed)
{
    uint32_t count = 1;
    for (uint32_t length = 0; length <= READ_LETTERS; length++, count *= 3)
        for (uint32_t number = 0; number < count; number++) {
            uint32_t tokens[READ_LETTERS];
            for (uint32_t i = length, left = number; i-- > 0; left /= 3)
                tokens[i] = left % 3;
            grammar_matcher_cut(m, 0);
            bool read = grammar_matcher_follow(m, tokens, length) == GRAMMAR_OK;
            bool ends = read && grammar_matcher_may_end(m);
            if (read != texts->begins[length][number] || ends != texts->whole[length][number])
                fail_msg("seed %u, length %u, number %u: read %u, ends %u", seed, length, number,
                         read, ends);
            if (read && number % 5 == 0)
                check_mask(m);
        }
}

static void random_groups(void **state)
{
    (void)state;
    uint32_t compared = 0;
    struct grammar_vocabulary *vocabulary = open_vocabulary();
    struct texts *texts = malloc(sizeof *texts);
    for (unsigned seed = 1; seed <= GROUPS; seed++) {
        struct test_random random = {seed};
        struct shape shape = draw_shape(&random);
        struct grammar_blob_out out;
        memset(texts, 0, sizeof *texts);
        list_after(&(struct listing){.shape = &shape, .texts = texts}, 0, 0, 0, 0);
        bool built = build(&shape, &out);
        assert_int_equal(built, texts->begins[0][0]);
        if (!built)
            continue;
        enum grammar_result result;
        struct grammar_matcher *m = grammar_matcher_open(vocabulary, out.bytes, out.size, &result);
        assert_int_equal(result, GRAMMAR_OK);
        compare(m, texts, seed);
        grammar_matcher_close(m);
        free(out.bytes);
        compared++;
    }
    free(texts);
    grammar_vocabulary_close(vocabulary);
    assert_true(compared > GROUPS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
