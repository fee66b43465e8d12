/*
 * The cache directory: created if missing, not used if it cannot be created or others can write to
 * it.
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
#include <unistd.h>

#include <cmocka.h>

#include "frontend/serve/settings/cache_folder.h"

static char top[] = "build/tests/cache-folder-XXXXXX";

static int top_make(void **state)
{
    (void)state;
    return mkdtemp(top) ? 0 : -1;
}

static int top_remove(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command) == 0 ? 0 : -1;
}

static void below_top(char path[CACHE_FOLDER_BYTES], const char *rest)
{
    snprintf(path, CACHE_FOLDER_BYTES, "%s/%s", top, rest);
}

static void a_missing_folder_is_made_for_its_owner_only(void **state)
{
    (void)state;
    char wanted[CACHE_FOLDER_BYTES];
    char path[CACHE_FOLDER_BYTES];
    struct stat status;
    below_top(wanted, "some/where/shaders");
    for (int again = 0; again < 2; again++) {
        cache_folder_find(wanted, path);
        assert_string_equal(path, wanted);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0700);
    }
}

static void an_unusable_folder_is_not_used(void **state)
{
    (void)state;
    char wanted[CACHE_FOLDER_BYTES];
    char path[CACHE_FOLDER_BYTES] = "old";
    cache_folder_find("none", path);
    assert_string_equal(path, "");
    cache_folder_find("", path);
    assert_string_equal(path, "");
    below_top(wanted, "file");
    FILE *file = fopen(wanted, "w");
    assert_non_null(file);
    fclose(file);
    cache_folder_find(wanted, path);
    assert_string_equal(path, "");
    below_top(wanted, "file/below");
    cache_folder_find(wanted, path);
    assert_string_equal(path, "");
    char *longer = malloc(2 * CACHE_FOLDER_BYTES);
    assert_non_null(longer);
    memset(longer, 'x', 2 * CACHE_FOLDER_BYTES - 1);
    longer[2 * CACHE_FOLDER_BYTES - 1] = '\0';
    cache_folder_find(longer, path);
    assert_string_equal(path, "");
    free(longer);
}

static void a_folder_that_others_write_to_is_refused(void **state)
{
    (void)state;
    char wanted[CACHE_FOLDER_BYTES];
    char path[CACHE_FOLDER_BYTES];
    below_top(wanted, "open");
    assert_int_equal(mkdir(wanted, 0700), 0);
    assert_int_equal(chmod(wanted, 0777), 0);
    cache_folder_find(wanted, path);
    assert_string_equal(path, "");
    assert_int_equal(chmod(wanted, 0755), 0);
    cache_folder_find(wanted, path);
    assert_string_equal(path, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_folder_is_made_for_its_owner_only),
        cmocka_unit_test(an_unusable_folder_is_not_used),
        cmocka_unit_test(a_folder_that_others_write_to_is_refused),
    };
    return cmocka_run_group_tests(tests, top_make, top_remove);
}
