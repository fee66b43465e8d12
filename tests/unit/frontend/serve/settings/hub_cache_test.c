/*
 * A model's name in Hugging Face's cache: found by its ref or commit, with its quantization and
 * projector, or refused with the command that downloads it; other names and existing files are left
 * alone.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "frontend/serve/settings/hub_cache.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static char top[] = "build/tests/hub-cache-XXXXXX";
static char path[HUB_CACHE_PATH_BYTES], projector[HUB_CACHE_PATH_BYTES];
static struct error_text error;

static void shell(const char *format, const char *value)
{
    char command[512];
    int length = snprintf(command, sizeof command, "cd '%s' && ", top);
    snprintf(command + length, sizeof command - (size_t)length, format, value);
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(top, "build/tests/hub-cache-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    shell("mkdir -p models--org--name.v1/refs models--org--name.v1/snapshots/%s", COMMIT);
    shell("printf %s > models--org--name.v1/refs/main", COMMIT);
    shell("cd models--org--name.v1/snapshots/%s && touch config.json model.safetensors", COMMIT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

static void refuse(const char *model)
{
    char words[128];
    assert_int_equal(hub_cache_find(top, model, path, projector, &error), RESULT_INVALID);
    assert_string_equal(path, "");
    snprintf(words, sizeof words, "shoal pull %s", model);
    assert_non_null(strstr(error.text, words));
}

static void a_repository_is_found(void **state)
{
    (void)state;
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s/models--org--name.v1/snapshots/" COMMIT, top);
    assert_int_equal(hub_cache_find(top, "org/name.v1", path, projector, &error), RESULT_OK);
    assert_string_equal(path, wanted);
    shell("printf '%s\n' > models--org--name.v1/refs/main", COMMIT); /* with a line's end */
    assert_int_equal(hub_cache_find(top, "org/name.v1", path, projector, &error), RESULT_OK);
    assert_string_equal(path, wanted);
}

static void expect(const char *model, const char *file, const char *projector_file)
{
    char wanted[256], wanted_projector[256] = "";
    snprintf(wanted, sizeof wanted, "%s/models--org--name.v1/snapshots/" COMMIT "/%s", top, file);
    if (projector_file)
        snprintf(wanted_projector, sizeof wanted_projector,
                 "%s/models--org--name.v1/snapshots/" COMMIT "/%s", top, projector_file);
    assert_int_equal(hub_cache_find(top, model, path, projector, &error), RESULT_OK);
    assert_string_equal(path, wanted);
    assert_string_equal(projector, wanted_projector);
}

static void a_quantization_and_a_revision_are_found(void **state)
{
    (void)state;
    shell("cd models--org--name.v1/snapshots/%s && rm * && mkdir b && "
          "touch a-Q8_0.gguf b/a-Q4_0-00001-of-00002.gguf "
          "b/a-Q4_0-00002-of-00002.gguf mmproj-f16.gguf",
          COMMIT);
    shell("mkdir -p models--org--name.v1/refs/pr && cp models--org--name.v1/refs/%s "
          "models--org--name.v1/refs/pr/1",
          "main");
    expect("org/name.v1", "b/a-Q4_0-00001-of-00002.gguf", "mmproj-f16.gguf");
    expect("org/name.v1:q8_0", "a-Q8_0.gguf", "mmproj-f16.gguf");
    expect("org/name.v1:q8_0@pr/1", "a-Q8_0.gguf", "mmproj-f16.gguf");
    expect("org/name.v1@" COMMIT, "b/a-Q4_0-00001-of-00002.gguf", "mmproj-f16.gguf");
    refuse("org/name.v1:Q5_0");
    refuse("org/name.v1@pr/2");
    shell("rm models--org--name.v1/snapshots/%s/b/a-Q4_0-00002-of-00002.gguf", COMMIT);
    refuse("org/name.v1:Q4_0");
}

static void a_missing_repository_is_reported_with_a_command(void **state)
{
    (void)state;
    refuse("org/other");
    shell("rm -r models--org--name.v1/snapshots/%s", COMMIT);
    refuse("org/name.v1");
    static const char *const commits[] = {"",
                                          "main",
                                          "../../../..",
                                          "0123",
                                          "../3456789abcdef0123456789abcdef01234567",
                                          "0123456789ABCDEF0123456789abcdef01234567"};
    for (size_t i = 0; i < sizeof commits / sizeof commits[0]; i++) {
        shell("printf '%%s' '%s' > models--org--name.v1/refs/main", commits[i]);
        refuse("org/name.v1");
    }
}

static void other_names_are_left_alone(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",          "name",      "model.gguf",      "/org/name",    "org/name/", "org//name",
        "a/b/c",     "./name",    "../name",         "org/..",       "org/.name", "-org/name",
        "org/-name", "org/na me", "org/n\xC3\xA4me", "tests/support"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_int_equal(hub_cache_find(top, words[i], path, projector, &error), RESULT_OK);
        assert_string_equal(path, "");
    }
    char longest[220] = "org/";
    memset(longest + 4, 'n', 97);
    assert_int_equal(hub_cache_find(top, longest, path, projector, &error), RESULT_OK);
    assert_string_equal(path, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_repository_is_found),
        TEST(a_quantization_and_a_revision_are_found),
        TEST(a_missing_repository_is_reported_with_a_command),
        TEST(other_names_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
