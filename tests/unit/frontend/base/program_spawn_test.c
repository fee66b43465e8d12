/*
 * A spawned program has exactly the descriptors it is given, also where their numbers cross.
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
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/base/program_spawn.h"

/* A pipe that holds one letter; its reading end has the number `fd`. */
static void letter_put(char letter, int fd)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], &letter, 1), 1);
    close(ends[1]);
    assert_int_equal(dup3(ends[0], fd, O_CLOEXEC), fd);
    close(ends[0]);
}

static int run(char *script, const struct program_descriptor *descriptors, size_t count)
{
    pid_t pid;
    struct error_text error = {""}, how;
    char *arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, script, NULL};
    char *environment[] = {NULL};
    const struct program_start start = {.path = "/bin/sh",
                                        .arguments = arguments,
                                        .environment = environment,
                                        .descriptors = descriptors,
                                        .descriptor_count = count};
    if (program_spawn(&start, &pid, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    return program_reap(pid, &how);
}

static void descriptors_may_swap_numbers(void **state)
{
    (void)state;
    char script[] =
        "read a <&8 || [ \"$a\" = b ] || exit 1; read b <&7 || [ \"$b\" = a ] || exit 2; "
        "[ ! -e /proc/self/fd/9 ] || exit 3";
    const struct program_descriptor swapped[] = {{7, 8}, {8, 7}, {-1, 5}};
    letter_put('b', 7);
    letter_put('a', 8);
    letter_put('c', 9);
    assert_int_equal(run(script, swapped, 3), 0);
    for (int fd = 7; fd <= 9; fd++)
        close(fd);
}

static void descriptors_may_keep_their_numbers(void **state)
{
    (void)state;
    char script[] = "read a <&7 || [ \"$a\" = a ] || exit 1; [ ! -e /proc/self/fd/8 ] || exit 2";
    const struct program_descriptor kept = {7, 7};
    letter_put('a', 7);
    letter_put('b', 8);
    assert_int_equal(run(script, &kept, 1), 0);
    close(7);
    close(8);
}

static void an_end_is_told_in_words(void **state)
{
    (void)state;
    pid_t pid;
    struct error_text error, how;
    char *arguments[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"kill -9 $$"}, NULL};
    char *environment[] = {NULL};
    struct program_start start = {
        .path = "/bin/sh", .arguments = arguments, .environment = environment};
    assert_int_equal(program_spawn(&start, &pid, &error), RESULT_OK);
    assert_true(WIFSIGNALED(program_reap(pid, &how)));
    assert_string_equal(how.text, "killed by signal 9 (Killed)");
    start.path = "/nowhere";
    assert_int_equal(program_spawn(&start, &pid, &error), RESULT_IO);
    assert_non_null(strstr(error.text, "/nowhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_may_swap_numbers),
        cmocka_unit_test(descriptors_may_keep_their_numbers),
        cmocka_unit_test(an_end_is_told_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
