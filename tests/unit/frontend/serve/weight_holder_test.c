/*
 * The holder's vault is empty memory that can be sealed and that no program inherits by accident;
 * it is replaced when a worker cannot use it, once, however many workers say so.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/serve/weight_holder.h"

static ino_t inode_of(const struct weight_holder *holder)
{
    struct stat status;
    assert_int_equal(fstat(weight_holder_fd(holder), &status), 0);
    assert_int_equal(status.st_size, 0);
    return status.st_ino;
}

static void test_vault(void **state)
{
    (void)state;
    struct weight_holder *holder = weight_holder_create();
    int fd = weight_holder_fd(holder);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW), 0);
    inode_of(holder);
    weight_holder_destroy(holder);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    weight_holder_destroy(NULL);
}

static void test_replaced_once(void **state)
{
    (void)state;
    struct weight_holder *holder = weight_holder_create();
    uint32_t first = weight_holder_generation(holder);
    int kept = dup(weight_holder_fd(holder)); /* as a worker would, so that its inode stays */
    ino_t old = inode_of(holder);
    weight_holder_replace(holder, first);
    assert_int_not_equal(weight_holder_generation(holder), first);
    ino_t new = inode_of(holder);
    assert_true(new != old);
    weight_holder_replace(holder, first);
    weight_holder_replace(holder, first + 7);
    assert_true(inode_of(holder) == new);
    assert_true(fcntl(weight_holder_fd(holder), F_GETFD) & FD_CLOEXEC);
    close(kept);
    weight_holder_destroy(holder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vault),
        cmocka_unit_test(test_replaced_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
