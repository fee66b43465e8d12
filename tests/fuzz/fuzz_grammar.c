/*
 * Grammars from any bytes. If the first byte is even, the rest is a blob as a broken frontend would
 * write it, with magic, version and size put right; if it is odd, the rest is a list of calls of
 * the builder, whose blob the worker must accept. What is accepted is run on a small vocabulary:
 * masks must equal following each token, under the sanitizers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/grammar/grammar_builder.h"
#include "proto/grammar_blob.h"
#include "proto/must.h"
#include "worker/sample/grammar_matcher.h"

#define IDS          64u
#define STEPS        4u
#define FUEL         100000u
#define SINGLE_BYTES 8u
#define WORDS        4u
#define END          (SINGLE_BYTES + WORDS)
#define TOKENS       (END + 1)

struct input {
    const uint8_t *bytes;
    size_t left;
};

static uint32_t take(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->bytes++;
}

static struct grammar_vocabulary *open_vocabulary(void)
{
    static const char *const texts[TOKENS] = {"a",    "b",  "c",   "\"",     "\\",  "1", " ",
                                              "\xc3", "ab", "abc", "\xa9\"", "aab", ""};
    static uint8_t bytes[64];
    uint32_t offsets[TOKENS + 1], used = 0;
    for (uint32_t t = 0; t < TOKENS; t++) {
        offsets[t] = used;
        memcpy(bytes + used, texts[t], strlen(texts[t]));
        used += (uint32_t)strlen(texts[t]);
    }
    offsets[TOKENS] = used;
    return grammar_vocabulary_open(&(struct token_bytes){bytes, offsets, TOKENS},
                                   &(const uint32_t){END}, 1, TOKENS + 3);
}

/* Follows some tokens that the masks allow; `choices` decides which. */
static void run(struct grammar_matcher *m, struct input *choices)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t word = 0, next = UINT32_MAX;
        size_t allowed, before = grammar_matcher_followed(m);
        if (grammar_matcher_mask(m, &word, &allowed) != GRAMMAR_OK)
            return;
        must((size_t)__builtin_popcount(word) == allowed);
        uint32_t wanted = allowed == 0 ? 0 : take(choices) % (uint32_t)allowed;
        for (uint32_t t = 0; t < TOKENS + 3; t++) {
            enum grammar_result result = grammar_matcher_follow(m, &t, 1);
            if (result == GRAMMAR_FUEL || result == GRAMMAR_MEMORY)
                return;
            must((result == GRAMMAR_OK) == (word >> t & 1));
            if (result == GRAMMAR_OK && wanted-- == 0)
                next = t;
            grammar_matcher_cut(m, before);
        }
        if (next == UINT32_MAX)
            return;
        must(grammar_matcher_follow(m, &next, 1) == GRAMMAR_OK);
    }
}

static enum grammar_result use_blob(const void *blob, size_t bytes, struct input *choices)
{
    struct grammar_vocabulary *vocabulary = open_vocabulary();
    enum grammar_result result = GRAMMAR_MEMORY;
    struct grammar_matcher *m = grammar_matcher_open(vocabulary, blob, bytes, &result);
    must((m != NULL) == (result == GRAMMAR_OK));
    if (m != NULL)
        run(m, choices);
    grammar_matcher_close(m);
    grammar_vocabulary_close(vocabulary);
    return result;
}

/* --- The builder -------------------------------------------------------------------------------- */

struct ids {
    regex_id regexes[IDS];
    symbol_id symbols[IDS];
};

static void call_regex(struct grammar_builder *b, struct input *input, struct ids *ids,
                       uint32_t call)
{
    regex_id x = ids->regexes[take(input) % IDS], y = ids->regexes[take(input) % IDS];
    regex_id *to = &ids->regexes[take(input) % IDS];
    static const struct code_point_range ranges[] = {
        {0x20, 0x21}, {0x23, 0x5B}, {'a', 'c'}, {0xE9, 0x10FFFF}};
    bool known;
    switch (call) {
    case 0: *to = grammar_regex_concat(b, x, y); break;
    case 1: *to = grammar_regex_or(b, x, y); break;
    case 2: *to = grammar_regex_and(b, x, y); break;
    case 3: *to = grammar_regex_not(b, x); break;
    case 4: *to = grammar_regex_repeat(b, x, take(input) % 4, take(input) % 5); break;
    case 5: *to = grammar_regex_repeat(b, x, take(input), GRAMMAR_UNBOUNDED); break;
    case 6: *to = grammar_regex_literal(b, "ab\"\\1a", take(input) % 7); break;
    case 7: *to = grammar_regex_code_points(b, ranges + take(input) % 3, take(input) % 3); break;
    case 8: *to = grammar_regex_or_of(b, ids->regexes, take(input) % IDS); break;
    default: grammar_regex_is_nothing(b, x, &known);
    }
}

/* Each part after a letter of its own, because nothing in a group may be empty. */
static symbol_id call_group(struct grammar_builder *b, struct input *input, const symbol_id *parts)
{
    uint32_t bits = take(input), minimum = take(input) % 4, count = bits % 3, required = 0;
    struct grammar_group_choice choices[2];
    symbol_id units[3];
    for (uint32_t i = 0; i < 3; i++) {
        symbol_id pair[2] = {grammar_terminal(b, grammar_regex_literal(b, &"abc"[i], 1)), parts[i]};
        units[i] = grammar_unit(b, pair, 2);
    }
    for (uint32_t i = 0; i < count; i++) {
        choices[i] = (struct grammar_group_choice){units[i], (bits >> (2 + i) & 1) != 0};
        required += choices[i].required;
    }
    uint32_t least = minimum > required ? minimum : required;
    const struct grammar_group group = {.choices = choices,
                                        .choice_count = count,
                                        .separator =
                                            grammar_terminal(b, grammar_regex_literal(b, " ", 1)),
                                        .extra = bits & 48 ? units[2] : GRAMMAR_NONE,
                                        .early = bits >> 5 & 3,
                                        .minimum = minimum,
                                        .maximum = bits & 64 ? GRAMMAR_UNBOUNDED : least + 1};
    return grammar_group(b, &group);
}

static void call_symbol(struct grammar_builder *b, struct input *input, struct ids *ids,
                        uint32_t call)
{
    symbol_id parts[3] = {ids->symbols[take(input) % IDS], ids->symbols[take(input) % IDS],
                          ids->symbols[take(input) % IDS]};
    symbol_id *to = &ids->symbols[take(input) % IDS];
    switch (call) {
    case 0: *to = grammar_terminal(b, ids->regexes[take(input) % IDS]); break;
    case 1: *to = grammar_token(b, take(input) % (TOKENS + 4)); break;
    case 2: *to = grammar_sequence(b, parts, take(input) % 4); break;
    case 3: *to = grammar_choice(b, parts, take(input) % 4); break;
    case 4: *to = grammar_repeat(b, parts[0], take(input) % 4, take(input) % 5); break;
    case 5: *to = grammar_separated(b, parts[0], parts[1], take(input) % 3, take(input)); break;
    case 6: *to = call_group(b, input, parts); break;
    default: { /* a production of one of the first symbols, which are rules */
        symbol_id rule = ids->symbols[take(input) % 4];
        grammar_production(b, rule, parts, take(input) % 4);
    }
    }
}

static void use_builder(struct input *input)
{
    struct grammar_builder *b =
        grammar_builder_open(&(struct grammar_bounds){.fuel = FUEL, .bytes = 1u << 22});
    struct ids ids;
    for (uint32_t i = 0; i < IDS; i++) {
        ids.regexes[i] = grammar_regex_literal(b, &"abc"[i % 3], 1);
        ids.symbols[i] = i < 4 ? grammar_rule(b) : grammar_terminal(b, ids.regexes[i]);
    }
    symbol_id rules[4];
    memcpy(rules, ids.symbols, sizeof rules);
    while (input->left > 4) {
        uint32_t call = take(input) % 19;
        if (call < 10)
            call_regex(b, input, &ids, call);
        else
            call_symbol(b, input, &ids, call - 10);
        memcpy(ids.symbols, rules, sizeof rules);
    }
    struct grammar_blob_out out;
    if (grammar_builder_finish(b, rules[0], &out)) {
        must(use_blob(out.bytes, out.size, input) != GRAMMAR_REFUSED);
        free(out.bytes);
    } else {
        must(grammar_builder_failed(b));
    }
    grammar_builder_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    if (size == 0)
        return 0;
    if (take(&input) % 2 == 1) {
        use_builder(&input);
        return 0;
    }
    uint32_t *blob = malloc(size); /* 8-byte aligned; the blob is one byte shorter */
    if (blob == NULL)
        return 0;
    memcpy(blob, input.bytes, input.left);
    if (input.left >= sizeof(struct grammar_blob_header)) {
        blob[0] = GRAMMAR_BLOB_MAGIC;
        blob[1] = GRAMMAR_BLOB_VERSION;
        blob[2] = (uint32_t)input.left;
    }
    struct input choices = {data, size < 8 ? size : 8};
    use_blob(blob, input.left, &choices);
    free(blob);
    return 0;
}
