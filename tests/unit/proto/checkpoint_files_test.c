/* The list of a checkpoint's files changes with each file that a loader reads, and names it. */
#include <fcntl.h>
#include <inttypes.h>
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

#include "proto/checkpoint_files.h"
#include "proto/limits.h"

static char folder[] = "/tmp/shoal-checkpoint-XXXXXX";
static char name[CHECKPOINT_FILE_NAME_BYTES];

static void put(const char *file, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *out = fopen(path, "r+");
    if (!out)
        out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static char *list(const char *file)
{
    char path[200];
    char *text;
    struct error_text error = {""};
    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(checkpoint_files_read(path, NULL, &text, &error), RESULT_OK);
    assert_true(strlen(text) < LIMIT_CHECKPOINT_FILES_BYTES);
    return text;
}

static bool differs(const char *before, const char *file)
{
    char *now = list(file);
    bool found = checkpoint_files_differ(before, now, name);
    free(now);
    return found;
}

static void files_of_a_folder_are_compared(void **state)
{
    (void)state;
    put("config.json", "{}");
    put("model-00002.safetensors", "abc");
    char *before = list("");
    assert_false(differs(before, ""));
    put("notes.txt", "not read by any loader");
    assert_false(differs(before, ""));
    put("model-00001.safetensors", "new");
    assert_true(differs(before, ""));
    assert_string_equal(name, "model-00001.safetensors");
    free(before);

    before = list("");
    usleep(20000); /* the clock of files ticks every few milliseconds */
    put("model-00002.safetensors", "abd");
    assert_true(differs(before, ""));
    assert_string_equal(name, "model-00002.safetensors");
    free(before);

    before = list("");
    char old_path[200];
    snprintf(old_path, sizeof old_path, "%s/config.json", folder);
    assert_int_equal(unlink(old_path), 0);
    assert_true(differs(before, ""));
    assert_string_equal(name, "config.json");
    assert_true(checkpoint_files_differ("", before, name));
    assert_string_equal(name, "config.json");
    assert_true(checkpoint_files_differ(before, "", name));
    assert_string_equal(name, "config.json");
    free(before);
}

static void all_parts_of_a_split_file_are_compared(void **state)
{
    (void)state;
    put("m-00001-of-00002.gguf", "one");
    put("m-00002-of-00002.gguf", "two");
    char *before = list("m-00001-of-00002.gguf");
    assert_false(differs(before, "m-00001-of-00002.gguf"));
    put("m-00002-of-00002.gguf", "longer");
    assert_true(differs(before, "m-00001-of-00002.gguf"));
    assert_string_equal(name, "m-00002-of-00002.gguf");
    free(before);
}

static void a_line_has_identity_size_time_and_name(void **state)
{
    (void)state;
    char path[200];
    char expected[400];
    struct stat status;
    const struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 4}};
    put("single.gguf", "12345");
    snprintf(path, sizeof path, "%s/single.gguf", folder);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(stat(path, &status), 0);
    snprintf(expected, sizeof expected, "%" PRIu64 " %" PRIu64 " 5 3000000004 single.gguf\n",
             (uint64_t)status.st_dev, (uint64_t)status.st_ino);
    char *text = list("single.gguf");
    assert_string_equal(text, expected);
    free(text);
}

static size_t lines_of(const char *file)
{
    char *text = list(file);
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    free(text);
    return lines;
}

static void only_names_of_first_parts_have_other_parts(void **state)
{
    (void)state;
    put("p-00001-of-00002.gguf", "one");
    put("p-00002-of-00002.gguf", "two");
    assert_int_equal(lines_of("p-00001-of-00002.gguf"), 2);
    assert_int_equal(lines_of("p-00002-of-00002.gguf"), 1);
    put("p-00001-of_00002.gguf", "one");
    put("p-00002-of_00002.gguf", "two");
    assert_int_equal(lines_of("p-00001-of_00002.gguf"), 1);
    /* A path that is nothing but the ending. */
    put("-00001-of-00002.gguf", "one");
    put("-00002-of-00002.gguf", "two");
    int home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(home >= 0);
    assert_int_equal(chdir(folder), 0);
    char *text;
    enum result result = checkpoint_files_read("-00001-of-00002.gguf", NULL, &text, NULL);
    assert_int_equal(fchdir(home), 0);
    close(home);
    assert_int_equal(result, RESULT_OK);
    assert_null(strstr(text, "-00002-of-00002.gguf"));
    free(text);
}

static enum result read_folder(const char *file, char **text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return checkpoint_files_read(path, NULL, text, NULL);
}

static void parts_are_bounded(void **state)
{
    (void)state;
    char file[64];
    char *text;
    snprintf(file, sizeof file, "q-00001-of-%05u.gguf", LIMIT_CHECKPOINT_FILES);
    put(file, "one");
    assert_int_equal(lines_of(file), 1);
    snprintf(file, sizeof file, "q-00001-of-%05u.gguf", LIMIT_CHECKPOINT_FILES + 1);
    put(file, "one");
    assert_int_equal(read_folder(file, &text), RESULT_TOO_LARGE);
    put("q-00001-of-10001.gguf", "one");
    assert_int_equal(read_folder("q-00001-of-10001.gguf", &text), RESULT_TOO_LARGE);
}

static void files_of_a_folder_are_bounded(void **state)
{
    (void)state;
    char path[200];
    char file[64];
    char *text;
    snprintf(path, sizeof path, "%s/many", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint32_t i = 0; i < LIMIT_CHECKPOINT_FILES; i++) {
        snprintf(file, sizeof file, "many/%u.jinja", i);
        put(file, "");
    }
    assert_int_equal(lines_of("many"), LIMIT_CHECKPOINT_FILES);
    put("many/one_more.jinja", "");
    assert_int_equal(read_folder("many", &text), RESULT_TOO_LARGE);
    assert_null(text);
}

/* Gives the file long/<letters>.jinja, of one letter repeated, a name of another length. */
static void resize_name(char letter, size_t old_count, size_t new_count)
{
    char from[600];
    char to[600];
    char letters[256];
    memset(letters, letter, sizeof letters);
    snprintf(from, sizeof from, "%s/long/%.*s.jinja", folder, (int)old_count, letters);
    snprintf(to, sizeof to, "%s/long/%.*s.jinja", folder, (int)new_count, letters);
    assert_int_equal(rename(from, to), 0);
}

/* Files with long names leave less than 400 bytes; the names of two others are then made as long as
 * the text has room. */
static void text_is_bounded(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/long", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put("long/a.jinja", "");
    put("long/b.jinja", "");
    char *text = list("long");
    size_t bytes = strlen(text);
    free(text);
    for (uint32_t i = 0; LIMIT_CHECKPOINT_FILES_BYTES - 1 - bytes >= 400; i++) {
        char file[200];
        snprintf(file, sizeof file, "long/%0*u.jinja", 140, i);
        put(file, "");
        text = list("long");
        bytes = strlen(text);
        free(text);
    }
    size_t left = LIMIT_CHECKPOINT_FILES_BYTES - 1 - bytes;
    resize_name('a', 1, 1 + left / 2);
    resize_name('b', 1, 1 + left - left / 2);
    text = list("long");
    assert_int_equal(strlen(text), LIMIT_CHECKPOINT_FILES_BYTES - 1);
    free(text);
    resize_name('a', 1 + left / 2, 2 + left / 2);
    assert_int_equal(read_folder("long", &text), RESULT_TOO_LARGE);
    assert_null(text);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    static const size_t lengths[] = {CHECKPOINT_FILE_NAME_BYTES - 1, CHECKPOINT_FILE_NAME_BYTES,
                                     CHECKPOINT_FILE_NAME_BYTES + 40};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char line[400] = "1 2 3 4 ";
        memset(line + 8, 'n', lengths[i]);
        line[8 + lengths[i]] = '\n';
        assert_true(checkpoint_files_differ(line, "", name));
        assert_int_equal(strlen(name), CHECKPOINT_FILE_NAME_BYTES - 1);
    }
}

static void a_replaced_file_is_another(void **state)
{
    (void)state;
    char from[200];
    char to[200];
    put("one.gguf", "same");
    char *before = list("one.gguf");
    put("new.gguf", "same");
    snprintf(from, sizeof from, "%s/new.gguf", folder);
    snprintf(to, sizeof to, "%s/one.gguf", folder);
    assert_int_equal(rename(from, to), 0);
    assert_true(differs(before, "one.gguf"));
    assert_string_equal(name, "one.gguf");
    free(before);
}

static void only_files_changed_in_place_are_overwritten(void **state)
{
    (void)state;
    static const char recorded[] = "1 22 333 4444 a name\n1 23 333 4444 b\n";
    static const struct {
        const char *now;
        bool overwritten;
    } cases[] = {{recorded, false},
                 {"", false},
                 {"1 22 333 4444 a name\n", false},                         /* one is gone */
                 {"1 22 333 4444 other\n1 23 333 4444 b\n", false},         /* renamed */
                 {"1 29 300 5000 a name\n1 23 333 4444 b\n", false},        /* replaced */
                 {"1 229 333 5000 a name\n1 23 333 4444 b\n", false},       /* the same digits */
                 {"2 22 333 5000 a name\n1 23 333 4444 b\n", false},        /* another device */
                 {"1 22 333 4445 a name\n1 23 333 4444 b\n", true},         /* its time */
                 {"1 22 333 4444 a name\n1 23 33 4444 b\n", true},          /* its size */
                 {"1 22 333 4444 a name\n1 29 1 1 b\n1 23 3 4 c\n", true}}; /* moved and written */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(checkpoint_files_overwritten(recorded, cases[i].now),
                         cases[i].overwritten);
}

static void a_missing_checkpoint_is_an_error(void **state)
{
    (void)state;
    char *text;
    assert_int_equal(checkpoint_files_read("/nowhere/at.gguf", NULL, &text, NULL), RESULT_IO);
    assert_null(text);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_folder_are_compared),
        cmocka_unit_test(all_parts_of_a_split_file_are_compared),
        cmocka_unit_test(a_line_has_identity_size_time_and_name),
        cmocka_unit_test(only_names_of_first_parts_have_other_parts),
        cmocka_unit_test(parts_are_bounded),
        cmocka_unit_test(files_of_a_folder_are_bounded),
        cmocka_unit_test(text_is_bounded),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(a_replaced_file_is_another),
        cmocka_unit_test(only_files_changed_in_place_are_overwritten),
        cmocka_unit_test(a_missing_checkpoint_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
