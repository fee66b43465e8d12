/*
 * Mapping a file: its bytes, its identity, and what is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/mapped_file.h"

struct fixture {
    char folder[64];
    int folder_fd;
};

static int open_fixture(void **state)
{
    static struct fixture fixture;
    snprintf(fixture.folder, sizeof fixture.folder, "/tmp/shoal-mapped-XXXXXX");
    if (!mkdtemp(fixture.folder))
        return -1;
    fixture.folder_fd = open(fixture.folder, O_RDONLY | O_DIRECTORY);
    *state = &fixture;
    return fixture.folder_fd < 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    unlinkat(fixture->folder_fd, "file", 0);
    close(fixture->folder_fd);
    return rmdir(fixture->folder);
}

static void write_file(const struct fixture *fixture, const char *text)
{
    int fd = openat(fixture->folder_fd, "file", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void bytes_and_identity_are_those_of_the_file(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "seven b");
    const struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 3, .tv_nsec = 4}};
    assert_int_equal(utimensat(fixture->folder_fd, "file", times, 0), 0);
    struct stat status;
    assert_int_equal(fstatat(fixture->folder_fd, "file", &status, 0), 0);
    struct mapped_file file;
    assert_int_equal(mapped_file_open(fixture->folder_fd, "file", &file, NULL), RESULT_OK);
    assert_int_equal(file.byte_count, 7);
    assert_memory_equal(file.bytes, "seven b", 7);
    assert_int_equal(file.modified_ns, 3000000004);
    assert_int_equal(file.changed_ns, nanoseconds(status.st_ctim));
    assert_int_equal(file.device, status.st_dev);
    assert_int_equal(file.inode, status.st_ino);
    mapped_file_close(&file);
    assert_null(file.bytes);
    assert_int_equal(file.byte_count, 0);
    mapped_file_close(&file); /* a second time is harmless */
}

static void one_byte_is_enough(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "x");
    struct mapped_file file;
    assert_int_equal(mapped_file_open(fixture->folder_fd, "file", &file, NULL), RESULT_OK);
    assert_int_equal(file.byte_count, 1);
    mapped_file_close(&file);
}

static void assert_refused(const struct fixture *fixture, enum result result, const char *words)
{
    struct mapped_file file = {.byte_count = 1};
    struct error_text error = {""};
    assert_int_equal(mapped_file_open(fixture->folder_fd, "file", &file, &error), result);
    assert_string_equal(error.text, words);
    assert_null(file.bytes);
    assert_int_equal(file.byte_count, 0);
}

static void other_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    assert_refused(fixture, RESULT_NOT_FOUND, strerror(ENOENT));
    write_file(fixture, "");
    assert_refused(fixture, RESULT_INVALID, "the file is empty");
    assert_int_equal(unlinkat(fixture->folder_fd, "file", 0), 0);
    assert_int_equal(symlinkat("file", fixture->folder_fd, "file"), 0);
    assert_refused(fixture, RESULT_IO, strerror(ELOOP));
    assert_int_equal(unlinkat(fixture->folder_fd, "file", 0), 0);
    alarm(300); /* opening a pipe without a writer must not block */
    assert_int_equal(mkfifoat(fixture->folder_fd, "file", 0600), 0);
    assert_refused(fixture, RESULT_INVALID, "not a regular file");
    alarm(0);
}

/* As many descriptors are open after as before. */
static void no_descriptor_stays_open(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "x");
    int before = dup(0);
    close(before);
    struct mapped_file file;
    assert_int_equal(mapped_file_open(fixture->folder_fd, "file", &file, NULL), RESULT_OK);
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
    mapped_file_close(&file);
}

/* A descriptor of number 0 is one like any other. */
static void standard_input_may_be_closed(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "x");
    int saved = dup(STDIN_FILENO);
    assert_true(saved > 0);
    close(STDIN_FILENO);
    struct mapped_file file;
    enum result result = mapped_file_open(fixture->folder_fd, "file", &file, NULL);
    bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    assert_int_equal(result, RESULT_OK);
    assert_true(closed);
    mapped_file_close(&file);
}

/* A file that lost its name meanwhile: the time at which that happened says nothing. */
static void a_file_without_a_name_has_no_time_of_change(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "x");
    int fd = openat(fixture->folder_fd, "file", O_RDONLY);
    int descriptors = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0 && descriptors >= 0);
    assert_int_equal(unlinkat(fixture->folder_fd, "file", 0), 0);
    char name[16];
    struct mapped_file file;
    snprintf(name, sizeof name, "%d", fd);
    assert_int_equal(mapped_file_open(descriptors, name, &file, NULL), RESULT_OK);
    assert_int_equal(file.changed_ns, 0);
    assert_int_equal(file.byte_count, 1);
    mapped_file_close(&file);
    close(descriptors);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_and_identity_are_those_of_the_file, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(one_byte_is_enough, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(other_files_are_refused, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(no_descriptor_stays_open, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(standard_input_may_be_closed, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(a_file_without_a_name_has_no_time_of_change, open_fixture,
                                        close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
