/*
 * The vault's sockets, with descriptors of plain files instead of device memory: contents stay
 * after the process that left them ends, every reader gets its own descriptors, the lock belongs to
 * a process, and messages of all sizes and kinds are handled.
 */
// tags: threads
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "worker/backend/vulkan/weights/vulkan_vault.h"

static struct vulkan_vault vault;

static int vault_open(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    vault = (struct vulkan_vault){.fd = ends[0], .send_fd = ends[1]};
    return 0;
}

static int vault_close(void **state)
{
    (void)state;
    close(vault.fd);
    close(vault.send_fd);
    return 0;
}

/* A file that says which one it is. */
static int numbered_file(uint32_t number)
{
    int fd = memfd_create("a chunk", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, &number, sizeof number) == sizeof number);
    return fd;
}

static uint32_t number_of(int fd)
{
    uint32_t number = 0;
    must(pread(fd, &number, sizeof number, 0) == sizeof number);
    return number;
}

static enum result leave(uint32_t fd_count, struct error_text *error)
{
    struct vulkan_vault_message message = {.byte_count = 3, .bytes = "abc", .fd_count = fd_count};
    for (uint32_t i = 0; i < fd_count; i++)
        message.fds[i] = numbered_file(i);
    enum result result = vulkan_vault_leave(&vault, &message, error);
    vulkan_vault_message_close(&message);
    return result;
}

static uint32_t open_fds(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) != -1;
    return count;
}

static void expect_message(uint32_t fd_count)
{
    struct vulkan_vault_message message;
    struct error_text error = {""};
    uint32_t before = open_fds();
    if (vulkan_vault_peek(&vault, &message, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(message.byte_count, 3);
    assert_memory_equal(message.bytes, "abc", 3);
    assert_int_equal(message.fd_count, fd_count);
    for (uint32_t i = 0; i < fd_count; i++) {
        assert_int_equal(number_of(message.fds[i]), i);
        assert_true(fcntl(message.fds[i], F_GETFD) & FD_CLOEXEC);
    }
    vulkan_vault_message_close(&message);
    assert_int_equal(open_fds(), before);
}

static void run_child(void (*run)(void), int signal_expected)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (signal_expected)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_expected);
    else
        assert_int_equal(status, 0);
}

static void leave_and_die(void)
{
    struct error_text error;
    must(vulkan_vault_lock(&vault, &error) == RESULT_OK);
    must(leave(7, &error) == RESULT_OK);
    raise(SIGKILL);
}

static void what_a_dead_process_left_is_there_for_all(void **state)
{
    (void)state;
    struct vulkan_vault_message message;
    struct error_text error;
    assert_false(vulkan_vault_is_filled(&vault));
    assert_int_equal(vulkan_vault_peek(&vault, &message, &error), RESULT_EMPTY);
    run_child(leave_and_die, SIGKILL);
    assert_true(vulkan_vault_is_filled(&vault));
    for (int reader = 0; reader < 3; reader++)
        expect_message(7);
}

static void lock_is_taken(void)
{
    struct error_text error;
    must(vulkan_vault_lock(&vault, &error) == RESULT_FULL);
}

static void lock_is_free(void)
{
    struct error_text error;
    must(vulkan_vault_lock(&vault, &error) == RESULT_OK);
}

static void the_lock_is_a_process_own(void **state)
{
    (void)state;
    struct error_text error;
    run_child(lock_is_free, 0); /* and gone with it */
    assert_int_equal(vulkan_vault_lock(&vault, &error), RESULT_OK);
    run_child(lock_is_taken, 0);
    vulkan_vault_unlock(&vault);
    run_child(lock_is_free, 0);
}

static void as_many_as_the_kernel_passes(void **state)
{
    (void)state;
    struct error_text error = {""};
    if (leave(VULKAN_VAULT_FDS_MAX, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    expect_message(VULKAN_VAULT_FDS_MAX);
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    assert_false(vulkan_vault_is_filled(&vault));
    struct vulkan_vault_message message = {.byte_count = 3, .fd_count = VULKAN_VAULT_FDS_MAX + 1};
    assert_int_equal(vulkan_vault_leave(&vault, &message, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "254 allocations; at most 253"));
}

/* The last descriptor of discarded contents is closed, which the other end of a pipe shows. */
static void emptying_frees_what_waits(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    struct error_text error;
    assert_int_equal(pipe(ends), 0);
    struct vulkan_vault_message message = {.byte_count = 1, .fd_count = 1, .fds = {ends[1]}};
    assert_int_equal(vulkan_vault_leave(&vault, &message, &error), RESULT_OK);
    vulkan_vault_message_close(&message);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(read(ends[0], &byte, 1), -1); /* a write end is still open */
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void send_noise(size_t byte_count)
{
    static char noise[4096];
    memset(noise, 'x', sizeof noise);
    assert_true(byte_count <= sizeof noise);
    assert_int_equal(send(vault.send_fd, noise, byte_count, MSG_DONTWAIT), byte_count);
}

static void foreign_messages_do_no_harm(void **state)
{
    (void)state;
    struct vulkan_vault_message message;
    struct error_text error;
    uint32_t before = open_fds();
    send_noise(VULKAN_VAULT_BYTES_MAX + 1);
    assert_int_equal(vulkan_vault_peek(&vault, &message, &error), RESULT_CORRUPT);
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    send_noise(VULKAN_VAULT_BYTES_MAX);
    assert_int_equal(vulkan_vault_peek(&vault, &message, &error), RESULT_OK);
    assert_int_equal(message.byte_count, VULKAN_VAULT_BYTES_MAX);
    assert_int_equal(message.fd_count, 0);
    send_noise(0); /* and behind it an empty one */
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_OK);
    assert_int_equal(vulkan_vault_peek(&vault, &message, &error), RESULT_EMPTY);
    for (int i = 0; i < 100; i++)
        send_noise(1);
    assert_int_equal(vulkan_vault_empty(&vault, &error), RESULT_CORRUPT);
    assert_int_equal(open_fds(), before);
}

static void other_descriptors_are_no_vault(void **state)
{
    (void)state;
    struct vulkan_vault_message message = {.byte_count = 1, .fd_count = 1, .fds = {vault.fd}};
    struct error_text error;
    int file = numbered_file(1);
    const struct vulkan_vault other = {.fd = file, .send_fd = file};
    assert_false(vulkan_vault_is_filled(&other));
    assert_int_equal(vulkan_vault_leave(&other, &message, &error), RESULT_IO);
    assert_int_equal(vulkan_vault_empty(&other, &error), RESULT_INVALID);
    assert_int_equal(vulkan_vault_peek(&other, &message, &error), RESULT_INVALID);
    close(file);
}

int main(void)
{
#define VAULT_TEST(test) cmocka_unit_test_setup_teardown(test, vault_open, vault_close)
    const struct CMUnitTest tests[] = {
        VAULT_TEST(what_a_dead_process_left_is_there_for_all),
        VAULT_TEST(the_lock_is_a_process_own),
        VAULT_TEST(as_many_as_the_kernel_passes),
        VAULT_TEST(emptying_frees_what_waits),
        VAULT_TEST(foreign_messages_do_no_harm),
        VAULT_TEST(other_descriptors_are_no_vault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
