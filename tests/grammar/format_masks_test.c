/*
 * Texts of each format can be written under masks: at every token the mask is within its bounds of
 * work and allows the longest token that continues the text, and at the end the end token.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "tests/support/grammar_states.h"
#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_matcher.h"
#include "worker/sample/grammar_trie.h"

static const struct {
    const char *format, *text;
} CASES[] = {
    {"hostname", "\"a\""},
    {"hostname", "\"a-b.c\""},
    {"hostname", "\"x1-y2.z3-w4.a.b.c-d-e-f.example.org\""},
    {"email", "\"john.doe-x@ex-ample.co.uk\""},
    {"date-time", "\"2024-02-29T01:02:03.5+01:00\""},
    {"date", "\"2024-02-29\""},
    {"time", "\"01:02:03Z\""},
    {"duration", "\"P1Y2M3DT4H\""},
    {"ipv4", "\"1.20.255.4\""},
    {"ipv6", "\"fe80::a:b:1.2.3.4\""},
    {"uuid", "\"123e4567-e89b-12d3-a456-426614174000\""},
    {"uri", "\"http://a-b.c:80/d?e#f\""},
    {"uri-reference", "\"../a?b\""},
    {"iri", "\"http://\xC3\xA4.b/c\""},
    {"iri-reference", "\"a/b\""},
    {"json-pointer", "\"/a/~0b\""},
    {"relative-json-pointer", "\"1/a\""},
};

/* The longest token that begins the text and is in the mask. */
static uint32_t next_token(const struct grammar_vocabulary *vocabulary, const uint32_t *words,
                           const char *text)
{
    uint32_t found = GRAMMAR_NO_TOKEN, longest = 0;
    for (uint32_t t = 0; t < vocabulary->token_count; t++) {
        uint32_t at = vocabulary->offsets[t], bytes = vocabulary->offsets[t + 1] - at;
        if (bytes > longest && (words[t / 32] >> t % 32 & 1) != 0 &&
            strncmp((const char *)vocabulary->bytes + at, text, bytes) == 0) {
            found = t;
            longest = bytes;
        }
    }
    return found;
}

static void write_text(struct grammar_vocabulary *vocabulary, struct grammar_matcher *matcher,
                       const char *text)
{
    size_t allowed, words = grammar_vocabulary_mask_words(vocabulary);
    uint32_t *mask = malloc(words * sizeof *mask);
    assert_non_null(mask);
    for (const char *at = text; *at;) {
        if (grammar_matcher_mask(matcher, mask, &allowed) != GRAMMAR_OK)
            fail_msg("no mask before '%s' of '%s'", at, text);
        uint32_t token = next_token(vocabulary, mask, at);
        if (token == GRAMMAR_NO_TOKEN)
            fail_msg("'%s' of '%s' is not allowed", at, text);
        assert_int_equal(grammar_matcher_follow(matcher, &token, 1), GRAMMAR_OK);
        at += vocabulary->offsets[token + 1] - vocabulary->offsets[token];
    }
    assert_true(grammar_matcher_may_end(matcher));
    free(mask);
}

static void each_format(void **state)
{
    (void)state;
    static const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    struct grammar_vocabulary *vocabulary =
        grammar_states_vocabulary("tests/model/demo/tokenizer.json");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct grammar_texts texts;
        enum grammar_result result;
        cJSON *schema = cJSON_CreateObject();
        cJSON_AddStringToObject(schema, "type", "string");
        cJSON_AddStringToObject(schema, "format", CASES[i].format);
        assert_true(grammar_texts_schema(&texts, schema, &options));
        struct grammar_matcher *matcher =
            grammar_matcher_open(vocabulary, texts.blob.bytes, texts.blob.size, &result);
        assert_non_null(matcher);
        write_text(vocabulary, matcher, CASES[i].text);
        grammar_matcher_close(matcher);
        grammar_texts_close(&texts);
        cJSON_Delete(schema);
    }
    grammar_vocabulary_close(vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_format)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
