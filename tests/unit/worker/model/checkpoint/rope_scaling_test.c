/*
 * Every kind of rotary embedding in config.json, compared with tables that an independent program
 * computed in double precision (tests/golden/rope); and refusals.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/model/hf/checkpoint_hf_rope.h"

#define TABLES     "tests/golden/rope/tables.txt"
#define LINE_BYTES 8192
#define CASES_MIN  20   /* fewer would mean a truncated file */
#define PRECISION  1e-7 /* rounding of f32 */

static struct rope_config rope;
static struct error_text error;

static enum result read_object(const char *json, const struct hf_rope_terms *terms,
                               uint32_t context_tokens)
{
    struct checkpoint_keys keys = {.error = &error};
    struct model_config config = {.context_tokens = context_tokens};
    memset(&rope, 0, sizeof rope);
    enum result result =
        json_value_open(json, strlen(json), LIMIT_CONFIG_BYTES, &keys.object, &error);
    if (result != RESULT_OK)
        fail_msg("%s: %s", json, error.text);
    checkpoint_hf_read_rope_of(&keys, &config, terms, &rope);
    return keys.result;
}

static void assert_near(const char *name, double have, double want)
{
    if (!(fabs(have - want) <= PRECISION * fabs(want)))
        fail_msg("%s: %.9g, not %.9g", name, have, want);
}

/* Returns what follows `word` in the next line, which must begin with it. */
static const char *expect_line(FILE *file, const char *word, char *line)
{
    size_t length = strlen(word);
    if (!fgets(line, LINE_BYTES, file) || strncmp(line, word, length) != 0)
        fail_msg("%s: a line of %s is missing", TABLES, word);
    return line + length;
}

static void check_case(FILE *file, const char *name)
{
    char line[LINE_BYTES];
    struct hf_rope_terms terms = {.partial = true};
    uint32_t context_tokens = 0;
    assert_int_equal(sscanf(expect_line(file, "terms ", line), "%f %f %u %u %u", &terms.base,
                            &terms.part, &terms.original_tokens, &terms.head_dim, &context_tokens),
                     5);
    if (read_object(expect_line(file, "object ", line), &terms, context_tokens) != RESULT_OK)
        fail_msg("%s: %s", name, error.text);
    assert_near(name, (double)rope.magnitude, strtod(expect_line(file, "magnitude ", line), NULL));
    char *at = (char *)(uintptr_t)expect_line(file, "frequencies ", line);
    assert_int_equal(rope.dims, 2 * strtoul(at, &at, 10));
    for (uint32_t i = 0; i < rope.dims / 2; i++)
        assert_near(name, (double)rope.inverse_frequency[i], strtod(at, &at));
    assert_int_equal(rope.pairing, ROPE_PAIRS_HALVES);
}

static void test_every_kind(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    uint32_t cases = 0;
    FILE *file = fopen(TABLES, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); cases++) {
        assert_int_equal(strncmp(line, "case ", 5), 0);
        line[strcspn(line, "\n")] = '\0';
        check_case(file, line + 5);
    }
    fclose(file);
    assert_true(cases >= CASES_MIN);
}

static const struct {
    const char *object;
    enum result result;
    const char *words;
} refused[] = {
    {"{\"rope_type\":\"mrope\"}", RESULT_UNSUPPORTED, "mrope"},
    {"{\"rope_type\":7}", RESULT_INVALID, "rope_type"},
    {"{\"partial_rotary_factor\":0}", RESULT_INVALID, "partial_rotary_factor"},
    {"{\"partial_rotary_factor\":1.5}", RESULT_INVALID, "partial_rotary_factor"},
    {"{\"partial_rotary_factor\":0.95}", RESULT_INVALID, "15 of a head's 16"},
    {"{\"type\":\"dynamic\",\"factor\":2,\"partial_rotary_factor\":0.125}", RESULT_INVALID,
     "2 of a head's 16"},
    {"{\"type\":\"linear\"}", RESULT_INVALID, "factor is missing"},
    {"{\"type\":\"yarn\",\"factor\":0}", RESULT_INVALID, "factor"},
    {"{\"type\":\"yarn\",\"factor\":4,\"rope_theta\":1}", RESULT_INVALID, "more than 1"},
    {"{\"type\":\"yarn\",\"original_max_position_embeddings\":1}", RESULT_INVALID, "original_max"},
    {"{\"type\":\"yarn\",\"mscale\":-1}", RESULT_INVALID, "mscale"},
    {"{\"type\":\"yarn\",\"truncate\":3}", RESULT_INVALID, "truncate"},
    {"{\"type\":\"longrope\"}", RESULT_INVALID, "long_factor has 0"},
    {"{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1],\"long_factor\":[1,2]}",
     RESULT_INVALID, "long_factor has 2 elements for 8"},
    {"{\"type\":\"longrope\",\"long_factor\":[1,1,1,1,1,1,1,0]}", RESULT_INVALID, "element 7"},
    {"{\"type\":\"longrope\",\"long_factor\":[1,1,1,1,1,1,1,1,\"1\"]}", RESULT_INVALID,
     "element 8"},
};

static void test_refusals(void **state)
{
    (void)state;
    const struct hf_rope_terms terms = {
        .base = 10000.0f, .partial = true, .part = 1.0f, .head_dim = 16};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        error.text[0] = '\0';
        assert_int_equal(read_object(refused[i].object, &terms, 512), refused[i].result);
        if (!strstr(error.text, refused[i].words))
            fail_msg("\"%s\" lacks \"%s\"", error.text, refused[i].words);
    }
}

/* Transformers ignores the key in classes that rotate whole heads; here it is refused. */
static void test_whole_heads(void **state)
{
    (void)state;
    const struct hf_rope_terms terms = {.base = 10000.0f, .head_dim = 16};
    assert_int_equal(read_object("{\"partial_rotary_factor\":0.5}", &terms, 512),
                     RESULT_UNSUPPORTED);
    assert_int_equal(read_object("{\"partial_rotary_factor\":1.0}", &terms, 512), RESULT_OK);
    assert_int_equal(rope.dims, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_whole_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
