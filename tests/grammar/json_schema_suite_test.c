/*
 * The official test suite (tests/golden/json_schema_suite): nothing invalid is accepted by a schema that
 * compiles, and the numbers of accepted, refused and not compiled instances are what they were.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "tests/support/grammar_texts.h"
#include "worker/sample/grammar_vocabulary.h"

struct tally {
    unsigned right, wrongly_accepted, wrongly_refused, not_compiled;
};

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    bytes[size] = '\0';
    fclose(file);
    return bytes;
}

static void group_try(const cJSON *group, struct grammar_vocabulary *vocabulary,
                      struct tally *tally)
{
    static const struct json_schema_options options = {.blanks = JSON_SCHEMA_BLANKS};
    const cJSON *texts = cJSON_GetObjectItemCaseSensitive(group, "texts");
    const cJSON *valid = cJSON_GetObjectItemCaseSensitive(group, "valid")->child;
    struct grammar_texts grammar;
    bool compiled =
        grammar_texts_schema(&grammar, cJSON_GetObjectItemCaseSensitive(group, "schema"), &options);
    const cJSON *text;
    cJSON_ArrayForEach(text, texts)
    {
        size_t reached;
        if (!compiled) {
            assert_true(grammar.error.message[0] != '\0');
            tally->not_compiled++;
            continue;
        }
        bool accepted =
            grammar_texts_read(&grammar, vocabulary, text->valuestring, &reached) == TEXT_ACCEPTED;
        if (accepted == cJSON_IsTrue(valid)) {
            tally->right++;
        } else if (accepted) {
            print_error("%s: %s: accepts %s\n",
                        cJSON_GetObjectItemCaseSensitive(group, "file")->valuestring,
                        cJSON_GetObjectItemCaseSensitive(group, "description")->valuestring,
                        text->valuestring);
            tally->wrongly_accepted++;
        } else {
            tally->wrongly_refused++;
        }
        valid = valid->next;
    }
    grammar_texts_close(&grammar);
}

static struct tally draft_try(const char *path)
{
    struct tally tally = {0};
    char *json = file_read(path);
    cJSON *groups = cJSON_Parse(json);
    assert_non_null(groups);
    struct grammar_vocabulary *vocabulary = grammar_texts_vocabulary();
    const cJSON *group;
    cJSON_ArrayForEach(group, groups) group_try(group, vocabulary, &tally);
    grammar_vocabulary_close(vocabulary);
    cJSON_Delete(groups);
    free(json);
    print_message("%s: %u right, %u wrongly accepted, %u wrongly refused, %u not compiled\n", path,
                  tally.right, tally.wrongly_accepted, tally.wrongly_refused, tally.not_compiled);
    return tally;
}

/* Wrongly refused: undeclared members before required ones, 1.0 for 1, formats (asserted here), NUL in cJSON's strings. */
static void draft_2020_12(void **state)
{
    (void)state;
    struct tally tally = draft_try("tests/golden/json_schema_suite/draft2020-12.json");
    assert_int_equal(tally.wrongly_accepted, 0);
    assert_true(tally.wrongly_refused <= 26);
    assert_true(tally.right >= 859);
}

static void draft_7(void **state)
{
    (void)state;
    struct tally tally = draft_try("tests/golden/json_schema_suite/draft7.json");
    assert_int_equal(tally.wrongly_accepted, 0);
    assert_true(tally.wrongly_refused <= 10);
    assert_true(tally.right >= 772);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draft_2020_12),
        cmocka_unit_test(draft_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
