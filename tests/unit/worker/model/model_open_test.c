/*
 * Opening by path: a path that is not a file, not a GGUF or a truncated one is refused with the
 * path in the error; and the fingerprint tells files apart.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/tiny_checkpoint.h"

static struct tiny_checkpoint tiny;
static char folder[] = "/tmp/shoal-model-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(tiny.file.bytes, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void refuse(const char *opened, enum result result)
{
    struct error_text error = {""};
    struct model *model = NULL;
    assert_int_equal(model_open(opened, &model, &error), result);
    assert_null(model);
    assert_non_null(strstr(error.text, opened));
    assert_true(strlen(error.text) > strlen(opened) + 4);
}

static struct model_fingerprint fingerprint_of_file(void)
{
    struct error_text error = {""};
    struct model *model = NULL;
    if (model_open(path, &model, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    struct model_fingerprint fingerprint = model_fingerprint(model);
    assert_string_equal(model_config(model)->architecture, "llama");
    model_close(model);
    return fingerprint;
}

static void test_no_file(void **state)
{
    (void)state;
    refuse("/nonexistent/model.gguf", RESULT_IO);
    refuse(folder, RESULT_INVALID);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse(path, RESULT_INVALID);
    unlink(path);
}

static void test_no_gguf(void **state)
{
    (void)state;
    memset(&tiny, 0x55, sizeof tiny);
    write_file(0);
    refuse(path, RESULT_INVALID);
    write_file(100);
    refuse(path, RESULT_INVALID);
}

static void test_cut_short(void **state)
{
    (void)state;
    struct error_text error = {""};
    struct model *model = NULL;
    tiny_checkpoint_init_llama(&tiny, 1);
    model_close(tiny_checkpoint_must_open(&tiny));
    for (size_t bytes = 1; bytes < tiny.file.byte_count; bytes += 61) {
        write_file(bytes);
        assert_int_not_equal(model_open(path, &model, &error), RESULT_OK);
        assert_null(model);
    }
}

static void test_fingerprint(void **state)
{
    (void)state;
    tiny_checkpoint_init_llama(&tiny, 1);
    model_close(tiny_checkpoint_must_open(&tiny));
    write_file(tiny.file.byte_count);
    struct model_fingerprint first = fingerprint_of_file();
    struct model_fingerprint again = fingerprint_of_file();
    assert_memory_equal(&first, &again, sizeof first);
    assert_int_equal(first.file_bytes, tiny.file.byte_count);

    /* other metadata of the same length */
    tiny_checkpoint_set_u32(&tiny, "llama.context_length", 65);
    model_close(tiny_checkpoint_must_open(&tiny));
    write_file(tiny.file.byte_count);
    struct model_fingerprint other = fingerprint_of_file();
    assert_int_equal(other.file_bytes, first.file_bytes);
    assert_true(other.header_hash != first.header_hash);

    /* the same bytes, touched */
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000, .tv_nsec = 5}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    struct model_fingerprint touched = fingerprint_of_file();
    assert_true(touched.header_hash == other.header_hash);
    assert_true(touched.modified_ns == 1000000000000000005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_no_gguf),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
