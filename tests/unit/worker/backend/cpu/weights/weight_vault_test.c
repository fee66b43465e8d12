/*
 * The vault's life: empty, filled, sealed, mapped. Leftovers of an earlier filler are dropped; one
 * process at a time fills it, and after its death the next one may; a descriptor that is no vault
 * is told apart from an empty vault.
 */
// tags: threads
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/backend/cpu/weights/weight_vault.h"

#define VAULT_BYTES ((uint64_t)5 << 20) /* some whole large pages and a part of one */

static struct error_text error;

static int vault_open(void)
{
    int fd = memfd_create("vault", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    return fd;
}

static uint64_t resident_bytes(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

static enum result acquire(int fd)
{
    return weight_vault_acquire(fd, VAULT_BYTES, NULL, NULL, &error);
}

/* Fills it with counting bytes and leaves it sealed and unlocked. */
static void fill(int fd)
{
    struct weight_mapping mapping;
    assert_int_equal(acquire(fd), RESULT_EMPTY);
    assert_int_equal(weight_vault_map_empty(fd, VAULT_BYTES, &mapping, &error), RESULT_OK);
    for (uint64_t i = 0; i < VAULT_BYTES; i++) {
        if (i % 65536 == 0)
            weight_mapping_prepare(&mapping, i + 65536);
        assert_int_equal(mapping.bytes[i], 0);
        mapping.bytes[i] = (uint8_t)(i % 251);
    }
    assert_int_equal(weight_vault_seal(fd, &mapping, &error), RESULT_OK);
    assert_null(mapping.bytes);
    weight_vault_release(fd);
}

static void test_filled_sealed_mapped(void **state)
{
    (void)state;
    struct weight_mapping mapping;
    int fd = vault_open();
    fill(fd);
    assert_int_equal(acquire(fd), RESULT_OK);
    assert_int_equal(weight_vault_map_sealed(fd, VAULT_BYTES, &mapping, &error), RESULT_OK);
    assert_int_equal((uintptr_t)mapping.bytes % (2u << 20), 0);
    for (uint64_t i = 0; i < VAULT_BYTES; i++)
        assert_int_equal(mapping.bytes[i], i % 251);

    /* No process can change it any more. */
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(mprotect(mapping.bytes, 4096, PROT_READ | PROT_WRITE), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    weight_vault_release(fd); /* throws nothing away */
    assert_int_equal(mapping.bytes[VAULT_BYTES - 1], (VAULT_BYTES - 1) % 251);
    weight_mapping_close(&mapping);
    weight_mapping_close(&mapping);

    assert_int_equal(weight_vault_map_sealed(fd, VAULT_BYTES - 1, &mapping, &error), RESULT_STALE);
    assert_int_equal(weight_vault_map_sealed(fd, 0, &mapping, &error), RESULT_STALE);
    assert_int_equal(weight_vault_map_sealed(fd, UINT64_MAX, &mapping, &error), RESULT_STALE);
    assert_null(mapping.bytes);
    close(fd);
}

static void test_leftovers_are_gone(void **state)
{
    (void)state;
    int fd = vault_open();
    uint8_t noise[4096];
    memset(noise, 0xee, sizeof noise);
    for (int i = 0; i < 2000; i++) /* also longer than the new one */
        assert_int_equal(pwrite(fd, noise, sizeof noise, i * 4096), sizeof noise);
    fill(fd);
    close(fd);

    /* Given up: empty again, and its memory is free. */
    struct weight_mapping mapping;
    fd = vault_open();
    assert_int_equal(acquire(fd), RESULT_EMPTY);
    assert_int_equal(weight_vault_map_empty(fd, VAULT_BYTES, &mapping, &error), RESULT_OK);
    memset(mapping.bytes, 1, VAULT_BYTES);
    assert_true(resident_bytes(fd) >= VAULT_BYTES);
    weight_mapping_close(&mapping);
    weight_vault_release(fd);
    assert_int_equal(resident_bytes(fd), 0);
    fill(fd);
    close(fd);
}

static void test_no_vault(void **state)
{
    (void)state;
    static const int some[] = {F_SEAL_SEAL, F_SEAL_WRITE, F_SEAL_SHRINK,
                               F_SEAL_GROW | F_SEAL_WRITE};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        int fd = vault_open();
        assert_int_equal(fcntl(fd, F_ADD_SEALS, some[i]), 0);
        assert_int_equal(acquire(fd), RESULT_INVALID);
        close(fd);
    }
    int fd = memfd_create("unsealable", MFD_CLOEXEC);
    assert_int_equal(acquire(fd), RESULT_INVALID);
    close(fd);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(acquire(fds[0]), RESULT_INVALID);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(acquire(fds[0]), RESULT_INVALID);
    fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(acquire(fd), RESULT_INVALID);
    close(fd);
}

static void test_mapped_writable_elsewhere(void **state)
{
    (void)state;
    struct weight_mapping mapping;
    int fd = vault_open();
    assert_int_equal(acquire(fd), RESULT_EMPTY);
    assert_int_equal(weight_vault_map_empty(fd, VAULT_BYTES, &mapping, &error), RESULT_OK);
    void *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(other, MAP_FAILED);
    assert_int_equal(weight_vault_seal(fd, &mapping, &error), RESULT_IO);
    weight_vault_release(fd);
    munmap(other, 4096);
    fill(fd);
    close(fd);
}

static void test_impossible_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX / 2, (uint64_t)1 << 62,
                                     (uint64_t)1 << 55};
    struct weight_mapping mapping;
    int fd = vault_open();
    assert_int_equal(acquire(fd), RESULT_EMPTY);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(weight_vault_map_empty(fd, sizes[i], &mapping, &error), RESULT_IO);
        assert_null(mapping.bytes);
    }
    weight_vault_release(fd);
    fill(fd);
    close(fd);
}

enum { CALLS_AWAITED = 6 };

/* Progress of a waiting process: counts the calls, and writes to a pipe when there are enough. */
struct patience {
    int calls;
    int told;
};

static void count_calls(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct patience *patience = context;
    assert_true(done_bytes <= total_bytes);
    if (++patience->calls == CALLS_AWAITED)
        assert_int_equal(write(patience->told, "w", 1), 1);
}

/* A child takes the lock, fills half, and is killed, or finishes, while the parent waits. */
static void wait_for_child(bool finishes)
{
    int fd = vault_open();
    int told[2], waits[2];
    char byte = 0;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(waits), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct weight_mapping mapping;
        close(waits[1]);
        bool good = acquire(fd) == RESULT_EMPTY &&
                    weight_vault_map_empty(fd, VAULT_BYTES, &mapping, NULL) == RESULT_OK;
        if (good)
            memset(mapping.bytes, 0x77, finishes ? VAULT_BYTES : VAULT_BYTES / 2);
        (void)!write(told[1], &good, 1);
        good = good && read(waits[0], &byte, 1) == 1;
        if (finishes && good)
            good = weight_vault_seal(fd, &mapping, NULL) == RESULT_OK;
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    struct patience patience = {.told = waits[1]};
    enum result result = weight_vault_acquire(fd, VAULT_BYTES, count_calls, &patience, &error);
    close(waits[1]);
    assert_int_equal(result, finishes ? RESULT_OK : RESULT_EMPTY);
    assert_true(patience.calls >= CALLS_AWAITED); /* that keeps the heartbeat going */
    assert_int_equal(waitpid(child, NULL, 0), child);
    weight_vault_release(fd);
    if (!finishes)
        fill(fd);
    close(fd);
    close(told[0]);
    close(told[1]);
    close(waits[0]);
}

static void test_filler_is_waited_for(void **state)
{
    (void)state;
    wait_for_child(true);
}

static void test_fillers_death_is_seen(void **state)
{
    (void)state;
    wait_for_child(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filled_sealed_mapped),
        cmocka_unit_test(test_leftovers_are_gone),
        cmocka_unit_test(test_no_vault),
        cmocka_unit_test(test_mapped_writable_elsewhere),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_filler_is_waited_for),
        cmocka_unit_test(test_fillers_death_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
