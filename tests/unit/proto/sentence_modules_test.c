/*
 * modules.json and the pooling file in their published forms, and every form that is refused.
 */
#include <fcntl.h>
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

#include "proto/sentence_modules.h"

#define TRANSFORMER "{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}"
#define POOLING     "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}"
#define NORMALIZE   "{\"path\": \"2_Normalize\", \"type\": \"a.b.Normalize\"}"
#define DENSE(path) "{\"path\": \"" path "\", \"type\": \"sentence_transformers.models.Dense\"}"
#define LIST(more)  "[" TRANSFORMER ", " more "]"
#define MEAN        "{\"pooling_mode\": \"mean\"}"

static char folder[] = "/tmp/sentence_modules_XXXXXX";
static int folder_fd;

static void write_file(const char *name, const char *text)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static enum result read_both(const char *modules, const char *pooling,
                             struct sentence_modules *read)
{
    struct error_text error;
    write_file("modules.json", modules);
    write_file("1_Pooling/config.json", pooling);
    return sentence_modules_read(folder_fd, read, &error);
}

static void published_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum pooling pooling;
    } forms[] = {
        {MEAN, POOLING_MEAN},
        {"{\"pooling_mode\": \"lasttoken\", \"include_prompt\": true}", POOLING_LAST},
        {"{\"pooling_mode\": \"cls\"}", POOLING_CLS},
        {"{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": false}", POOLING_CLS},
        {"{\"pooling_mode\": \"max\"}", POOLING_MAX},
        {"{\"pooling_mode_mean_tokens\": true}", POOLING_MEAN},
        {"{\"pooling_mode_lasttoken\": true}", POOLING_LAST},
    };
    struct sentence_modules read;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        assert_int_equal(read_both(LIST(POOLING), forms[i].text, &read), RESULT_OK);
        assert_true(read.found && !read.normalizes && read.dense_count == 0);
        assert_int_equal(read.pooling, forms[i].pooling);
    }
    assert_int_equal(
        read_both(LIST(POOLING ", " DENSE("2_Dense") ", " DENSE("3_Dense") ", " NORMALIZE), MEAN,
                  &read),
        RESULT_OK);
    assert_true(read.normalizes && read.dense_count == 2);
    assert_string_equal(read.dense[1], "3_Dense");
}

static void other_folders_do_not_pool(void **state)
{
    (void)state;
    struct sentence_modules read;
    struct error_text error;
    assert_int_equal(
        read_both(LIST("{\"path\": \"1_LogitScore\", \"type\": \"x.LogitScore\"}"), "{}", &read),
        RESULT_OK);
    assert_false(read.found);
    unlinkat(folder_fd, "modules.json", 0);
    assert_int_equal(sentence_modules_read(folder_fd, &read, &error), RESULT_OK);
    assert_true(!read.found && read.pooling == POOLING_OFF);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *modules, *pooling;
        enum result result;
    } wrong[] = {
        {"{}", MEAN, RESULT_INVALID},
        {"[", MEAN, RESULT_INVALID},
        {LIST(POOLING), "{}", RESULT_INVALID},
        {LIST(POOLING), "[]", RESULT_INVALID},
        {LIST(POOLING), "{\"pooling_mode\": \"weightedmean\"}", RESULT_UNSUPPORTED},
        {LIST(POOLING), "{\"pooling_mode\": [\"mean\", \"max\"]}", RESULT_UNSUPPORTED},
        {LIST(POOLING), "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": true}",
         RESULT_UNSUPPORTED},
        {LIST(POOLING), "{\"pooling_mode\": \"mean\", \"include_prompt\": false}",
         RESULT_UNSUPPORTED},
        {LIST(POOLING ", " POOLING), MEAN, RESULT_UNSUPPORTED},
        {LIST(NORMALIZE ", " POOLING), MEAN, RESULT_UNSUPPORTED},
        {LIST(DENSE("2_Dense") ", " POOLING), MEAN, RESULT_UNSUPPORTED},
        {LIST(POOLING ", " DENSE("../2_Dense")), MEAN, RESULT_INVALID},
        {LIST(POOLING ", " DENSE("/etc")), MEAN, RESULT_INVALID},
        {LIST(POOLING ", " DENSE("")), MEAN, RESULT_INVALID},
        {LIST(POOLING ", "
                      "{\"path\": \"2\", \"type\": \"x.LSTM\"}"),
         MEAN, RESULT_UNSUPPORTED},
        {LIST(POOLING ", "
                      "{\"path\": 2, \"type\": \"x.Dense\"}"),
         MEAN, RESULT_INVALID},
        {LIST(POOLING
              ", " DENSE("a") ", " DENSE("b") ", " DENSE("c") ", " DENSE("d") ", " DENSE("e")),
         MEAN, RESULT_UNSUPPORTED},
        {"[{\"path\": \"0_T\", \"type\": \"x.Transformer\"}, " POOLING "]", MEAN,
         RESULT_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sentence_modules read;
        assert_int_equal(read_both(wrong[i].modules, wrong[i].pooling, &read), wrong[i].result);
        assert_false(read.found);
    }
}

static void errors_name_the_file(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"[", MEAN, "modules.json: "},
        {LIST(POOLING), "[", "1_Pooling/config.json: "},
        {LIST(POOLING), "{}", "1_Pooling/config.json: no kind of pooling is on"},
    };
    struct sentence_modules read;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error_text error = {""};
        write_file("modules.json", wrong[i][0]);
        write_file("1_Pooling/config.json", wrong[i][1]);
        assert_int_not_equal(sentence_modules_read(folder_fd, &read, &error), RESULT_OK);
        assert_memory_equal(error.text, wrong[i][2], strlen(wrong[i][2]));
    }
    struct error_text error = {"before"};
    write_file("1_Pooling/config.json", MEAN);
    assert_int_equal(sentence_modules_read(folder_fd, &read, &error), RESULT_OK);
    assert_string_equal(error.text, "before");
    unlinkat(folder_fd, "1_Pooling/config.json", 0);
    assert_int_equal(sentence_modules_read(folder_fd, &read, &error), RESULT_INVALID);
    assert_string_equal(error.text, "1_Pooling/config.json is missing");
}

static void the_longest_folder_is_read(void **state)
{
    (void)state;
    char name[SENTENCE_FOLDER_BYTES + 1], path[SENTENCE_FOLDER_BYTES + 16], modules[512];
    struct sentence_modules read;
    for (size_t extra = 0; extra < 2; extra++) {
        memset(name, 'f', sizeof name);
        name[SENTENCE_FOLDER_BYTES - 1 + extra] = '\0';
        snprintf(path, sizeof path, "%s/config.json", name);
        snprintf(modules, sizeof modules, LIST("{\"path\": \"%s\", \"type\": \"x.Pooling\"}"),
                 name);
        assert_int_equal(mkdirat(folder_fd, name, 0700), 0);
        write_file(path, "{\"pooling_mode\": \"max\"}");
        enum result result = read_both(modules, MEAN, &read);
        unlinkat(folder_fd, path, 0);
        unlinkat(folder_fd, name, AT_REMOVEDIR);
        assert_int_equal(result, extra ? RESULT_INVALID : RESULT_OK);
        if (!extra)
            assert_int_equal(read.pooling, POOLING_MAX);
    }
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (folder_fd < 0 || mkdirat(folder_fd, "1_Pooling", 0700) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_forms),
        cmocka_unit_test(other_folders_do_not_pool),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(the_longest_folder_is_read),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlinkat(folder_fd, "1_Pooling/config.json", 0);
    unlinkat(folder_fd, "1_Pooling", AT_REMOVEDIR);
    unlinkat(folder_fd, "modules.json", 0);
    close(folder_fd);
    rmdir(folder);
    return failed;
}
