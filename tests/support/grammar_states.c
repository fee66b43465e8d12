/*
 * Grammars are drawn from the shapes that schemas give: objects with required and optional
 * members, other keys by complement, counted strings and arrays, numbers, enums and free JSON.
 */
#include "tests/support/grammar_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/grammar/grammar_builder.h"
#include "frontend/prompt/tokenizer/tokenizer.h"
#include "tests/support/test_random.h"
#include "worker/sample/grammar_matcher.h"

#define EXTRA_LOGITS  77u
#define ANSWER_TOKENS 150u
#define ANSWER_STATES 6u /* checked states of one answer */

/* --- The vocabulary ----------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s is missing: scripts/fetch_tokenizers", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

struct grammar_vocabulary *grammar_states_vocabulary(const char *tokenizer_path)
{
    size_t json_bytes;
    char *json = read_file(tokenizer_path, &json_bytes);
    struct tokenizer *tokenizer = NULL;
    struct error_text error = {""};
    if (tokenizer_open_json(json, json_bytes, &tokenizer, &error) != RESULT_OK)
        fail_msg("%s: %s", tokenizer_path, error.text);
    free(json);
    uint32_t count = tokenizer_vocab_tokens(tokenizer), used = 0;
    uint32_t *offsets = malloc(((size_t)count + 1) * sizeof *offsets);
    uint8_t *bytes = malloc((size_t)count * 64 + 4096);
    assert_true(offsets != NULL && bytes != NULL);
    for (uint32_t t = 0; t < count; t++) {
        const char *text;
        size_t length;
        tokenizer_token_bytes(tokenizer, t, &text, &length);
        offsets[t] = used;
        if (tokenizer_is_special(tokenizer, t) || used + length > (size_t)count * 64)
            continue;
        memcpy(bytes + used, text, length);
        used += (uint32_t)length;
    }
    offsets[count] = used;
    struct grammar_vocabulary *vocabulary =
        grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, count},
                                &(const uint32_t){count - 1}, 1, count + EXTRA_LOGITS);
    assert_non_null(vocabulary);
    tokenizer_close(tokenizer);
    free(offsets);
    free(bytes);
    return vocabulary;
}

/* --- Grammars ----------------------------------------------------------------------------------- */

struct drawing {
    struct grammar_builder *b;
    struct test_random random;
    symbol_id free_json; /* any JSON value */
};

static uint32_t below(struct drawing *d, uint32_t bound)
{
    return test_random_below(&d->random, bound);
}

static regex_id literal(struct drawing *d, const char *text)
{
    return grammar_regex_literal(d->b, text, strlen(text));
}

static regex_id string_character(struct drawing *d)
{
    const struct code_point_range plain[] = {
        {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, 0x10FFFF}};
    regex_id escape = grammar_regex_concat(
        d->b, literal(d, "\\"),
        grammar_regex_code_points(
            d->b,
            (const struct code_point_range[]){{'"', '"'}, {'\\', '\\'}, {'n', 'n'}, {'t', 't'}},
            4));
    return grammar_regex_or(d->b, grammar_regex_code_points(d->b, plain, 4), escape);
}

static regex_id quoted(struct drawing *d, regex_id inside)
{
    regex_id quote = literal(d, "\"");
    return grammar_regex_concat(d->b, quote, grammar_regex_concat(d->b, inside, quote));
}

static regex_id random_string(struct drawing *d)
{
    static const uint32_t maxima[] = {3, 12, 40, 300, GRAMMAR_UNBOUNDED, GRAMMAR_UNBOUNDED};
    uint32_t maximum = maxima[below(d, 6)];
    if (below(d, 4) == 0) { /* an even number of characters */
        regex_id two = grammar_regex_repeat(d->b, string_character(d), 2, 2);
        return quoted(d, grammar_regex_repeat(d->b, two, 0, maximum / 2));
    }
    return quoted(d, grammar_regex_repeat(d->b, string_character(d), below(d, 3), maximum));
}

static regex_id random_number(struct drawing *d)
{
    regex_id digit = grammar_regex_code_points(d->b, &(const struct code_point_range){'0', '9'}, 1);
    regex_id digits = grammar_regex_repeat(d->b, digit, 1, below(d, 2) ? 4 : GRAMMAR_UNBOUNDED);
    regex_id fraction = grammar_regex_concat(d->b, literal(d, "."), digits);
    regex_id whole =
        grammar_regex_concat(d->b, grammar_regex_repeat(d->b, literal(d, "-"), 0, 1), digits);
    return below(d, 2)
               ? whole
               : grammar_regex_concat(d->b, whole, grammar_regex_repeat(d->b, fraction, 0, 1));
}

static regex_id blanks(struct drawing *d)
{
    return grammar_regex_repeat(
        d->b,
        grammar_regex_code_points(
            d->b, (const struct code_point_range[]){{' ', ' '}, {'\n', '\n'}, {'\t', '\t'}}, 3),
        0, 8);
}

static symbol_id mark(struct drawing *d, const char *text)
{
    regex_id after = grammar_regex_concat(d->b, literal(d, text), blanks(d));
    return grammar_terminal(d->b, grammar_regex_concat(d->b, blanks(d), after));
}

static symbol_id random_value(struct drawing *d, uint32_t depth);

/* Names that a pattern of patternProperties matches. */
static regex_id random_pattern(struct drawing *d)
{
    static const char *const parts[] = {"a", "na", "i", "\xC3\xA4"};
    static const struct code_point_range no_e[] = {
        {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 'e' - 1}, {'f', 0x7E}, {0x80, 0x10FFFF}};
    static const struct code_point_range dot[] = {
        {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, 0x2027}, {0x202A, 0x10FFFF}};
    regex_id any = grammar_regex_repeat(d->b, string_character(d), 0, GRAMMAR_UNBOUNDED);
    regex_id with_part = grammar_regex_concat(d->b, literal(d, parts[below(d, 4)]), any);
    switch (below(d, 4)) {
    case 0: return with_part;
    case 1: return grammar_regex_concat(d->b, any, with_part);
    case 2:
        return grammar_regex_repeat(d->b, grammar_regex_code_points(d->b, no_e, 5), below(d, 2),
                                    GRAMMAR_UNBOUNDED);
    default:
        return grammar_regex_repeat(d->b, grammar_regex_code_points(d->b, dot, 5), 1,
                                    below(d, 2) ? 4 : 255);
    }
}

/* Undeclared members, whose values depend on which of two patterns match their names. */
static symbol_id patterned_members(struct drawing *d, regex_id known)
{
    regex_id patterns[2] = {random_pattern(d), random_pattern(d)};
    symbol_id members[4];
    for (uint32_t m = 0; m < 4; m++) {
        regex_id name = grammar_regex_repeat(d->b, string_character(d), 0, GRAMMAR_UNBOUNDED);
        for (uint32_t p = 0; p < 2; p++)
            name = grammar_regex_and(
                d->b, name, m >> p & 1 ? patterns[p] : grammar_regex_not(d->b, patterns[p]));
        regex_id key = grammar_regex_and(d->b, quoted(d, name), grammar_regex_not(d->b, known));
        symbol_id value = m == 0 ? d->free_json : grammar_terminal(d->b, random_string(d));
        symbol_id parts[4] = {mark(d, ","), grammar_terminal(d->b, key), mark(d, ":"), value};
        members[m] = grammar_sequence(d->b, parts, 4);
    }
    return grammar_repeat(d->b, grammar_choice(d->b, members, 4), 0, GRAMMAR_UNBOUNDED);
}

/* Members in order, each with the comma before it; all but the first may be left out; then any
 * other keys. */
static symbol_id random_object(struct drawing *d, uint32_t depth)
{
    static const char *const names[] = {"\"name\"",  "\"age\"", "\"items\"",   "\"na\"",
                                        "\"total\"", "\"id\"",  "\"identity\""};
    symbol_id parts[9];
    uint32_t count = 0, members = 1 + below(d, 5);
    regex_id known = grammar_regex_nothing(d->b);
    parts[count++] = mark(d, "{");
    for (uint32_t i = 0; i < members; i++) {
        const char *name = names[(i * 2 + 1) % 7];
        known = grammar_regex_or(d->b, known, literal(d, name));
        symbol_id member[4] = {mark(d, ","), grammar_terminal(d->b, literal(d, name)), mark(d, ":"),
                               random_value(d, depth)};
        symbol_id whole = grammar_sequence(d->b, i == 0 ? member + 1 : member, i == 0 ? 3 : 4);
        parts[count++] = i > 0 && below(d, 2) ? grammar_optional(d->b, whole) : whole;
    }
    uint32_t others = below(d, 3);
    if (others == 1)
        parts[count++] = patterned_members(d, known);
    if (others == 2) {
        regex_id key =
            quoted(d, grammar_regex_repeat(d->b, string_character(d), 0, GRAMMAR_UNBOUNDED));
        regex_id other = grammar_regex_and(d->b, key, grammar_regex_not(d->b, known));
        symbol_id member[4] = {mark(d, ","), grammar_terminal(d->b, other), mark(d, ":"),
                               d->free_json};
        parts[count++] =
            grammar_repeat(d->b, grammar_sequence(d->b, member, 4), 0, GRAMMAR_UNBOUNDED);
    }
    parts[count++] = mark(d, "}");
    return grammar_sequence(d->b, parts, count);
}

static symbol_id random_value(struct drawing *d, uint32_t depth)
{
    switch (below(d, depth == 0 ? 4 : 8)) {
    case 0: return grammar_terminal(d->b, random_string(d));
    case 1: return grammar_terminal(d->b, random_number(d));
    case 2: {
        regex_id values[] = {literal(d, "\"red\""), literal(d, "\"green\""), literal(d, "\"grey\""),
                             literal(d, "true"), literal(d, "null")};
        return grammar_terminal(d->b, grammar_regex_or_of(d->b, values, 5));
    }
    case 3: return d->free_json;
    case 4: {
        symbol_id list = grammar_separated(d->b, random_value(d, depth - 1), mark(d, ","),
                                           below(d, 3), below(d, 2) ? 5 : GRAMMAR_UNBOUNDED);
        return grammar_sequence(d->b, (const symbol_id[]){mark(d, "["), list, mark(d, "]")}, 3);
    }
    default: return random_object(d, depth - 1);
    }
}

static void make_free_json(struct drawing *d)
{
    d->free_json = grammar_rule(d->b);
    regex_id text =
        quoted(d, grammar_regex_repeat(d->b, string_character(d), 0, GRAMMAR_UNBOUNDED));
    regex_id scalars[] = {text, random_number(d), literal(d, "true"), literal(d, "false"),
                          literal(d, "null")};
    symbol_id scalar = grammar_terminal(d->b, grammar_regex_or_of(d->b, scalars, 5));
    grammar_production(d->b, d->free_json, &scalar, 1);
    symbol_id member = grammar_sequence(
        d->b, (const symbol_id[]){grammar_terminal(d->b, text), mark(d, ":"), d->free_json}, 3);
    symbol_id members = grammar_separated(d->b, member, mark(d, ","), 0, GRAMMAR_UNBOUNDED);
    grammar_production(d->b, d->free_json, (const symbol_id[]){mark(d, "{"), members, mark(d, "}")},
                       3);
    symbol_id list = grammar_separated(d->b, d->free_json, mark(d, ","), 0, GRAMMAR_UNBOUNDED);
    grammar_production(d->b, d->free_json, (const symbol_id[]){mark(d, "["), list, mark(d, "]")},
                       3);
}

static void draw_blob(uint64_t seed, struct grammar_blob_out *out)
{
    struct drawing d = {.b = grammar_builder_open(&(struct grammar_bounds){0}), .random = {seed}};
    assert_non_null(d.b);
    make_free_json(&d);
    symbol_id root = random_object(&d, 3);
    if (!grammar_builder_finish(d.b, root, out))
        fail_msg("seed %u: %s", (unsigned)seed, grammar_builder_reason(d.b));
    grammar_builder_close(d.b);
}

/* --- Answers ------------------------------------------------------------------------------------ */

static bool mask_has(const uint32_t *words, uint32_t token)
{
    return words[token / 32] >> token % 32 & 1;
}

static void check_state(struct grammar_matcher *m, const uint32_t *words, uint32_t logits,
                        uint64_t seed)
{
    size_t before = grammar_matcher_followed(m);
    for (uint32_t t = 0; t < logits; t++) {
        enum grammar_result result = grammar_matcher_follow(m, &t, 1);
        if ((result == GRAMMAR_OK) != mask_has(words, t))
            fail_msg("seed %u, after %zu tokens: token %u: follow gives %d", (unsigned)seed, before,
                     t, (int)result);
        if (result == GRAMMAR_OK)
            grammar_matcher_cut(m, before);
    }
}

/* A random allowed token. */
static uint32_t draw_token(struct test_random *random, const uint32_t *words, uint32_t logits,
                           size_t allowed)
{
    size_t left = test_random_next(random) % allowed;
    uint32_t token = 0;
    for (; token < logits; token++)
        if (mask_has(words, token) && left-- == 0)
            break;
    return token;
}

/* One answer; returns how many of its states were checked. */
static uint32_t check_answer(struct grammar_matcher *m, uint32_t logits, struct test_random *random,
                             uint64_t seed)
{
    uint32_t *words = malloc((logits + 31) / 32 * sizeof *words);
    uint32_t *again = malloc((logits + 31) / 32 * sizeof *again);
    uint32_t checked = 0;
    size_t allowed = 0;
    assert_true(words != NULL && again != NULL);
    for (uint32_t step = 0; step < ANSWER_TOKENS && checked < ANSWER_STATES; step++) {
        assert_int_equal(grammar_matcher_mask(m, words, &allowed), GRAMMAR_OK);
        if (grammar_matcher_has_ended(m))
            break;
        assert_true(allowed > 0);
        if (test_random_below(random, 8) == 0) {
            check_state(m, words, logits, seed);
            checked++;
        }
        size_t followed = grammar_matcher_followed(m), back = test_random_below(random, 4);
        uint32_t token = draw_token(random, words, logits, allowed);
        assert_int_equal(grammar_matcher_follow(m, &token, 1), GRAMMAR_OK);
        if (back == 0) { /* a rejected token changes nothing */
            grammar_matcher_cut(m, followed);
            assert_int_equal(grammar_matcher_mask(m, again, &allowed), GRAMMAR_OK);
            assert_memory_equal(words, again, (logits + 31) / 32 * sizeof *words);
            assert_int_equal(grammar_matcher_follow(m, &token, 1), GRAMMAR_OK);
        }
    }
    free(words);
    free(again);
    return checked;
}

void grammar_states_check(const char *tokenizer_path, uint64_t seed, uint32_t states)
{
    struct grammar_vocabulary *vocabulary = grammar_states_vocabulary(tokenizer_path);
    uint32_t logits = (uint32_t)grammar_vocabulary_mask_words(vocabulary) * 32;
    for (uint32_t checked = 0; checked < states; seed++) {
        struct grammar_blob_out out;
        struct test_random random = {seed};
        draw_blob(seed, &out);
        enum grammar_result result;
        struct grammar_matcher *m = grammar_matcher_open(vocabulary, out.bytes, out.size, &result);
        assert_int_equal(result, GRAMMAR_OK);
        checked += check_answer(m, logits, &random, seed);
        grammar_matcher_close(m);
        free(out.bytes);
    }
    grammar_vocabulary_close(vocabulary);
}
