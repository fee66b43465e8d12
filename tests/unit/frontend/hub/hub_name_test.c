/*
 * Names of models on the hub, read and written.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/hub/hub_name.h"

static void expect(const char *text, const char *org, const char *repository, const char *quant,
                   const char *revision)
{
    struct hub_name name;
    assert_true(hub_name_parse(text, &name));
    assert_string_equal(name.org, org);
    assert_string_equal(name.name, repository);
    assert_string_equal(name.quant, quant);
    assert_string_equal(name.revision, revision);
    assert_int_equal(name.has_revision, strchr(text, '@') != NULL);
}

static void names_have_parts(void **state)
{
    (void)state;
    expect("org/name", "org", "name", "", "main");
    expect("o_r-g/n.1--x", "o_r-g", "n.1--x", "", "main");
    expect("org/name:Q4_K_M", "org", "name", "Q4_K_M", "main");
    expect("org/name@v1.0", "org", "name", "", "v1.0");
    expect("org/name:a-b.gguf@refs/pr/12", "org", "name", "a-b.gguf", "refs/pr/12");
}

static void other_texts_are_no_names(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "name",
                                        "/name",
                                        "org/",
                                        "org/name/",
                                        "org/name/x",
                                        "../name",
                                        "org/..",
                                        "org/.x",
                                        "-org/name",
                                        "org/-x",
                                        "org/na me",
                                        "org/name:",
                                        "org/name@",
                                        "org/name:@x",
                                        "org/name@:x",
                                        "org/name@x:y",
                                        "org/name:x/y",
                                        "org/name@/",
                                        "org/name@x/",
                                        "org/name@x//y",
                                        "org/name@../x",
                                        "org/name@x/../y",
                                        "org/name@x..y",
                                        "org/name@x.lock",
                                        "org/name:..",
                                        "org/n\xC3\xA4me",
                                        "org/name\n"};
    struct hub_name name;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (hub_name_parse(texts[i], &name))
            fail_msg("'%s' is taken", texts[i]);
}

/* Each part as long as it may be, and one byte longer. */
static void parts_are_bounded(void **state)
{
    (void)state;
    struct hub_name name;
    for (int part = 0; part < 4; part++) {
        for (size_t more = 0; more < 2; more++) {
            static const size_t most[] = {HUB_PART_BYTES - 1, HUB_PART_BYTES - 1,
                                          HUB_QUANT_BYTES - 1, HUB_REVISION_BYTES - 1};
            static const char separators[] = {'/', ':', '@', '\0'};
            char text[600], *at = text;
            for (int i = 0; i < 4; i++) {
                size_t length = i == part ? most[i] + more : 1;
                memset(at, 'a', length);
                at += length;
                *at++ = separators[i];
            }
            assert_int_equal(hub_name_parse(text, &name), more == 0);
        }
    }
}

static void folders_have_names(void **state)
{
    (void)state;
    struct hub_name name, back;
    char folder[HUB_FOLDER_BYTES];
    assert_true(hub_name_parse("org/name--x.1:Q8_0", &name));
    hub_name_folder(&name, folder);
    assert_string_equal(folder, "models--org--name--x.1");
    assert_true(hub_name_from_folder(folder, &back));
    assert_string_equal(back.org, "org");
    assert_string_equal(back.name, "name--x.1");
    static const char *const folders[] = {"models--name",
                                          "datasets--org--name",
                                          "models--org--",
                                          "models----name",
                                          "models--org--na me",
                                          ".locks",
                                          ""};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_false(hub_name_from_folder(folders[i], &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_parts),
        cmocka_unit_test(other_texts_are_no_names),
        cmocka_unit_test(parts_are_bounded),
        cmocka_unit_test(folders_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
