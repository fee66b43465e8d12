/*
 * The holder's vault is empty memory that can be sealed, or a pair of sockets between which a
 * message waits, and no program inherits it by accident; it is replaced when a worker cannot use
 * it, once, however many workers say so.
 */
// tags: threads
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/serve/worker/vault_holder.h"

static ino_t inode_of(const struct vault_holder *holder)
{
    struct stat status;
    assert_int_equal(fstat(vault_holder_fds(holder).vault, &status), 0);
    assert_int_equal(status.st_size, 0);
    return status.st_ino;
}

static void test_vault(void **state)
{
    (void)state;
    struct vault_holder *holder = vault_holder_create(DEVICE_CPU, "test");
    int fd = vault_holder_fds(holder).vault;
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW), 0);
    inode_of(holder);
    assert_int_equal(vault_holder_fds(holder).send, -1);
    vault_holder_destroy(holder);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    vault_holder_destroy(NULL);
}

/* What is sent into one end waits at the other for as long as the holder lives. */
static void test_sockets(void **state)
{
    (void)state;
    struct vault_holder *holder = vault_holder_create(DEVICE_VULKAN, "test");
    struct vault_holder_fds fds = vault_holder_fds(holder);
    char text[8];
    assert_true(fcntl(fds.vault, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fds.send, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(recv(fds.vault, text, sizeof text, MSG_PEEK | MSG_DONTWAIT), -1);
    assert_int_equal(send(fds.send, "first", 5, MSG_DONTWAIT), 5);
    assert_int_equal(send(fds.send, "2nd", 3, MSG_DONTWAIT), 3);
    for (int again = 0; again < 2; again++)
        assert_int_equal(recv(fds.vault, text, sizeof text, MSG_PEEK | MSG_DONTWAIT), 5);
    vault_holder_replace(holder, vault_holder_generation(holder));
    fds = vault_holder_fds(holder);
    assert_int_equal(recv(fds.vault, text, sizeof text, MSG_PEEK | MSG_DONTWAIT), -1);
    vault_holder_destroy(holder);
    assert_int_equal(fcntl(fds.vault, F_GETFD), -1);
    assert_int_equal(fcntl(fds.send, F_GETFD), -1);
}

static void test_replaced_once(void **state)
{
    (void)state;
    struct vault_holder *holder = vault_holder_create(DEVICE_CPU, "test");
    uint32_t first = vault_holder_generation(holder);
    int kept = dup(vault_holder_fds(holder).vault); /* as a worker would, so that its inode stays */
    ino_t old = inode_of(holder);
    vault_holder_replace(holder, first);
    assert_int_not_equal(vault_holder_generation(holder), first);
    ino_t new = inode_of(holder);
    assert_true(new != old);
    vault_holder_replace(holder, first);
    vault_holder_replace(holder, first + 7);
    assert_true(inode_of(holder) == new);
    assert_true(fcntl(vault_holder_fds(holder).vault, F_GETFD) & FD_CLOEXEC);
    close(kept);
    vault_holder_destroy(holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vault),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_replaced_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
