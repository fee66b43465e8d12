/* The JSON files of a folder: the first one must be there, a damaged one is named, all are closed. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/json_files.h"

enum { FILES = 3 };
static const char *const names[FILES] = {"first.json", "second.json", "third.json"};
static char folder[] = "/tmp/shoal-json-XXXXXX";
static int folder_fd = -1;
static struct json_value values[FILES];
static struct json_file files[FILES];

/* texts: of each file, NULL for one that is not there. */
static enum result open_all(const char *const texts[FILES], struct error_text *error)
{
    memset(values, 0, sizeof values);
    for (int i = 0; i < FILES; i++) {
        files[i] = (struct json_file){.name = names[i], .value = &values[i]};
        (void)unlinkat(folder_fd, names[i], 0);
        if (!texts[i])
            continue;
        int fd = openat(folder_fd, names[i], O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
        assert_int_equal(close(fd), 0);
    }
    return json_files_open(folder_fd, files, FILES, error);
}

static uint32_t number_of(int i)
{
    uint32_t number = 0;
    assert_int_equal(json_value_u32(json_value_member(values[i], "a"), &number), RESULT_OK);
    return number;
}

static void close_all(void)
{
    json_files_close(files, FILES);
    for (int i = 0; i < FILES; i++)
        assert_null(files[i].file.bytes);
}

static void test_all_are_read(void **state)
{
    (void)state;
    struct error_text error = {""};
    const char *const texts[FILES] = {"{\"a\": 1}", "{\"a\": 2}", "{\"a\": 3}"};
    assert_int_equal(open_all(texts, &error), RESULT_OK);
    for (int i = 0; i < FILES; i++) {
        assert_non_null(files[i].file.bytes);
        assert_int_equal(number_of(i), i + 1);
    }
    json_files_close(files, FILES - 1); /* the rest stays as it is */
    assert_non_null(files[FILES - 1].file.bytes);
    close_all();
}

static void test_all_but_the_first_may_lack(void **state)
{
    (void)state;
    struct error_text error = {""};
    const char *const one[FILES] = {"{\"a\": 1}", NULL, NULL};
    static const struct json_value none;
    assert_int_equal(open_all(one, &error), RESULT_OK);
    assert_int_equal(number_of(0), 1);
    for (int i = 1; i < FILES; i++) {
        assert_null(files[i].file.bytes);
        assert_memory_equal(&values[i], &none, sizeof none);
    }
    close_all();
    const char *const last[FILES] = {"{\"a\": 1}", NULL, "{\"a\": 3}"};
    assert_int_equal(open_all(last, &error), RESULT_OK);
    assert_int_equal(number_of(2), 3);
    close_all();
    assert_string_equal(error.text, "");
    const char *const not_first[FILES] = {NULL, "{\"a\": 2}", "{\"a\": 3}"};
    assert_int_equal(open_all(not_first, &error), RESULT_NOT_FOUND);
    assert_memory_equal(error.text, "first.json: ", 12);
    close_all();
}

static void test_a_damaged_one_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) {
        struct error_text error = {""};
        const char *texts[FILES] = {"{\"a\": 1}", "{\"a\": 2}", "{\"a\": 3}"};
        texts[i] = "{\"a\": ";
        assert_int_equal(open_all(texts, &error), RESULT_INVALID);
        assert_memory_equal(error.text, names[i], strlen(names[i]));
        for (int later = i + 1; later < FILES; later++) /* none after it is opened */
            assert_null(files[later].file.bytes);
        close_all();
        texts[i] = ""; /* an empty file is there, and damaged */
        assert_int_equal(open_all(texts, &error), RESULT_INVALID);
        assert_memory_equal(error.text, names[i], strlen(names[i]));
        close_all();
    }
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY);
    return folder_fd < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++)
        (void)unlinkat(folder_fd, names[i], 0);
    return close(folder_fd) != 0 || rmdir(folder) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_read),
        cmocka_unit_test(test_all_but_the_first_may_lack),
        cmocka_unit_test(test_a_damaged_one_is_named),
    };
    return cmocka_run_group_tests_name("json_files", tests, make_folder, remove_folder);
}
