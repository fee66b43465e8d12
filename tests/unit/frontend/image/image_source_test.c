/*
 * Which sources of images are read: schemes, and files below the operator's folder with every known
 * way out of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/image/image_source.h"

static char root[64];
static char folder[80];

static void file_write(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void link_make(const char *to, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(symlink(to, path), 0);
}

static int setup(void **state)
{
    (void)state;
    char path[200];
    strcpy(root, "/tmp/shoal_image_source_XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/open", root);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/open/sub", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/open-not", root);
    assert_int_equal(mkdir(path, 0700), 0);
    file_write("secret", "secret");
    file_write("open-not/secret", "secret");
    file_write("open/a b.png", "picture");
    file_write("open/sub/x.png", "other");
    file_write("open/empty", "");
    link_make("../secret", "open/out");
    link_make("/etc", "open/etc");
    link_make("a b.png", "open/inside");
    snprintf(path, sizeof path, "%s/open/pipe", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[120];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static enum result read_file(const char *tail, struct file_bytes *file)
{
    const struct media_policy policy = {.folder = folder, .most_bytes = 100};
    struct error_text error;
    char name[400];
    snprintf(name, sizeof name, "file://%s%s", root, tail);
    return image_source_read(&policy, IMAGE_NAMED_BY_URI, name, NULL, file, &error);
}

static void expect(const char *tail, const char *text)
{
    struct file_bytes file;
    assert_int_equal(read_file(tail, &file), RESULT_OK);
    assert_int_equal(file.count, strlen(text));
    assert_memory_equal(file.bytes, text, file.count);
    file_bytes_fini(&file);
}

static void files_of_the_folder_are_read(void **state)
{
    (void)state;
    expect("/open/a%20b.png", "picture");
    expect("/open//sub/./x.png", "other");
    struct file_bytes file;
    struct error_text error;
    char name[400];
    const struct media_policy slashed = {.folder = "/", .most_bytes = 100};
    snprintf(name, sizeof name, "FILE://LOCALHOST%s/secret", root);
    assert_int_equal(image_source_read(&slashed, IMAGE_NAMED_BY_URI, name, NULL, &file, &error),
                     RESULT_OK);
    assert_int_equal(file.count, 6);
    file_bytes_fini(&file);
}

static void nothing_leads_out(void **state)
{
    (void)state;
    static const char *const tails[] = {
        "/secret",
        "/open-not/secret",
        "/open/../secret",
        "/open/sub/../../secret",
        "/open/%2e%2e/secret",
        "/open/sub/..%2f..%2fsecret",
        "/open/out",
        "/open/etc/passwd",
        "/open/inside",
        "/open/missing",
        "/open/missing/x",
        "/open/",
        "/open",
        "/open/sub/x.png/",
    };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct file_bytes file;
        enum result result = read_file(tails[i], &file);
        if (result != RESULT_NOT_FOUND)
            fail_msg("%s: %s", tails[i], result_name(result));
        assert_null(file.bytes);
    }
}

static void only_regular_files_within_bounds(void **state)
{
    (void)state;
    struct file_bytes file;
    assert_int_equal(read_file("/open/sub", &file), RESULT_INVALID);
    assert_int_equal(read_file("/open/pipe", &file), RESULT_INVALID);
    assert_int_equal(read_file("/open/empty", &file), RESULT_INVALID);
    char long_text[102];
    memset(long_text, 'x', 101);
    long_text[101] = '\0';
    file_write("open/long", long_text);
    assert_int_equal(read_file("/open/long", &file), RESULT_TOO_LARGE);
}

static void what_is_not_opened_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum result as;
        const char *says;
    } rows[] = {
        {"file:///etc/passwd", RESULT_UNSUPPORTED, "--allow-media-path"},
        {"http://example.com/x.png", RESULT_UNSUPPORTED, "--allow-media-domain"},
        {"HTTPS://example.com/x.png", RESULT_UNSUPPORTED, "--allow-media-domain"},
        {"/etc/passwd", RESULT_UNSUPPORTED, "none of"},
        {"etc/passwd", RESULT_UNSUPPORTED, "none of"},
        {"", RESULT_UNSUPPORTED, "none of"},
        {"ftp://example.com/x.png", RESULT_UNSUPPORTED, "none of"},
        {"iVBORw0KGgo=", RESULT_UNSUPPORTED, "none of"},
        {" data:,x", RESULT_UNSUPPORTED, "none of"},
    };
    const struct media_policy policy = {.most_bytes = 100};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file_bytes file;
        struct error_text error;
        assert_int_equal(
            image_source_read(&policy, IMAGE_NAMED_BY_URI, rows[i].name, NULL, &file, &error),
            rows[i].as);
        assert_non_null(strstr(error.text, rows[i].says));
    }
    const struct media_policy with_folder = {.most_bytes = 100, .folder = folder};
    static const char *const without_path[] = {"file:", "file:x.png", "file://host/x.png",
                                               "file:///%00"};
    for (size_t i = 0; i < sizeof without_path / sizeof without_path[0]; i++) {
        struct file_bytes file;
        struct error_text error;
        assert_int_equal(image_source_read(&with_folder, IMAGE_NAMED_BY_URI, without_path[i], NULL,
                                           &file, &error),
                         RESULT_INVALID);
    }
}

static void base64_is_a_name_of_its_own(void **state)
{
    (void)state;
    const struct media_policy policy = {.most_bytes = 100};
    struct file_bytes file;
    struct error_text error;
    assert_int_equal(
        image_source_read(&policy, IMAGE_NAMED_BY_BASE64, "iVBORw==", NULL, &file, &error),
        RESULT_OK);
    assert_memory_equal(file.bytes, "\x89PNG", 4);
    file_bytes_fini(&file);
    assert_int_equal(
        image_source_read(&policy, IMAGE_NAMED_BY_BASE64, "data:,x", NULL, &file, &error),
        RESULT_INVALID);
    assert_true(image_source_is_remote(IMAGE_NAMED_BY_URI, "Http://x/"));
    assert_false(image_source_is_remote(IMAGE_NAMED_BY_BASE64, "http"));
    assert_false(image_source_is_remote(IMAGE_NAMED_BY_URI, "data:,x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_the_folder_are_read),
        cmocka_unit_test(nothing_leads_out),
        cmocka_unit_test(only_regular_files_within_bounds),
        cmocka_unit_test(what_is_not_opened_is_refused),
        cmocka_unit_test(base64_is_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
