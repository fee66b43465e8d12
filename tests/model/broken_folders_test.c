/*
 * Folders with one defect each, listed in tests/golden/broken_checkpoints/folders.txt: every one is
 * refused with the error text listed there. The folders without a defect open.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/broken_list.h"
#include "tests/support/tiny_folder.h"
#include "worker/model/model.h"

#define LIST      "tests/golden/broken_checkpoints/folders.txt"
#define CASES_MIN 375u

static struct tiny_folder folder;
static struct broken_list *list;

static int setup(void **state)
{
    (void)state;
    tiny_folder_create(&folder);
    list = broken_list_read(LIST);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    broken_list_destroy(list);
    tiny_folder_destroy(&folder);
    return 0;
}

static void test_whole_sets_open(void **state)
{
    (void)state;
    const char *set;
    for (uint32_t i = 0; (set = broken_list_set(list, i)); i++) {
        struct error_text error = {""};
        struct model *model = NULL;
        broken_list_write_set(list, set, folder.path);
        if (model_open(folder.path, &model, &error) != RESULT_OK)
            fail_msg("set %s: %s", set, error.text);
        model_close(model);
    }
}

/* Checks every case before it fails, so that one run shows all that changed. */
static void test_broken_ones_are_refused(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < broken_list_count(list); i++) {
        const struct broken_case *c = broken_list_case(list, i);
        struct error_text error = {""};
        struct model *model = NULL;
        broken_list_write_case(list, c, folder.path);
        enum result result = model_open(folder.path, &model, &error);
        size_t prefix = strlen(folder.path);
        bool as_listed = result != RESULT_OK && !model && c->words &&
                         strncmp(error.text, folder.path, prefix) == 0 &&
                         strstr(error.text + prefix, c->words);
        if (!as_listed)
            print_message("%s:%u: %s\n", LIST, c->line,
                          result == RESULT_OK ? "it opens" : error.text + prefix);
        wrong += !as_listed;
        model_close(model);
    }
    assert_int_equal(wrong, 0);
    assert_true(broken_list_count(list) >= CASES_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_sets_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_ones_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
