/*
 * The segment: its byte map, rejections by attach (each header field broken alone, sizes, seals,
 * other files), and that it can never shrink under a reader.
 */
// tags: threads arm
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "shm/segment.h"
#include "tests/support/test_random.h"

static const struct segment_sizes small_sizes = {
    .submit_capacity = 16, .event_capacity = 64, .slab_bytes = 65536};

static struct segment created(void)
{
    struct segment segment;
    assert_int_equal(segment_create(&small_sizes, 5, &segment, NULL), RESULT_OK);
    return segment;
}

/* Attaches through a descriptor of its own, as the worker does. */
static enum result attach_copy(int fd, struct segment *segment, struct error_text *error)
{
    int own_fd = dup(fd);
    assert_true(own_fd >= 0);
    enum result result = segment_attach(own_fd, segment, error);
    if (result != RESULT_OK) {
        assert_null(segment->base);
        assert_int_equal(close(own_fd), 0); /* a refused descriptor stays the caller's */
    }
    return result;
}

static void byte_map_is_as_documented(void **state)
{
    (void)state;
    struct segment segment = created();
    uint8_t *base = segment.base;
    assert_ptr_equal(segment.header, base);
    assert_ptr_equal(segment.gauges, base + 256);
    assert_ptr_equal(segment.submit_shared, base + 1536);
    assert_ptr_equal(segment.submit_bell, base + 1536 + 128);
    assert_ptr_equal(segment.event_shared, base + 2048);
    assert_ptr_equal(segment.event_bell, base + 2048 + 128);
    assert_ptr_equal(segment.roster, base + 3072);
    assert_ptr_equal(segment.trace, base + 4096);
    assert_ptr_equal(segment.submit_records, base + 8192);
    assert_ptr_equal(segment.event_records, base + 8192 + 16 * 256);
    assert_ptr_equal(segment.slab, base + 8192 + 8192); /* 4096 + 4096 bytes, whole pages */
    assert_int_equal(segment.segment_bytes, 8192 + 8192 + 65536);
    assert_int_equal(segment.header->generation, 5);
    segment_detach(&segment);
}

static void both_sides_see_the_same_bytes(void **state)
{
    (void)state;
    struct segment frontend = created();
    struct segment worker;
    assert_int_equal(attach_copy(frontend.fd, &worker, NULL), RESULT_OK);
    assert_ptr_not_equal(worker.base, frontend.base);
    assert_int_equal(worker.slab - worker.base, frontend.slab - frontend.base);
    assert_int_equal(worker.event_capacity, 64);
    assert_int_equal(worker.slab_bytes, 65536);
    worker.slab[65535] = 42;
    atomic_store(&worker.gauges->heartbeat, 7);
    assert_int_equal(frontend.slab[65535], 42);
    assert_int_equal(atomic_load(&frontend.gauges->heartbeat), 7);
    segment_detach(&worker);
    segment_detach(&frontend);
    segment_detach(&frontend); /* a second time is harmless */
}

static void descriptor_does_not_leak_into_programs(void **state)
{
    (void)state;
    struct segment segment = created();
    assert_true(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC);
    segment_detach(&segment);
}

/* A zeroed struct has fd 0, which is not the segment's. */
static void detaching_nothing_closes_nothing(void **state)
{
    (void)state;
    int before = fcntl(0, F_GETFD);
    struct segment zeroed = {0};
    segment_detach(&zeroed);
    assert_int_equal(fcntl(0, F_GETFD), before);
}

/* The next descriptor that the process would get: the same as long as none leaks. */
static int next_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void detaching_closes_the_descriptor(void **state)
{
    (void)state;
    int before = next_descriptor();
    struct segment segment = created();
    segment_detach(&segment);
    assert_int_equal(segment.fd, -1);
    assert_null(segment.base);
    assert_int_equal(next_descriptor(), before);
}

/* A descriptor of number 0 is one like any other. */
static void standard_input_may_be_closed(void **state)
{
    (void)state;
    int saved = dup(STDIN_FILENO);
    assert_true(saved > 0);
    close(STDIN_FILENO);
    struct segment segment;
    enum result result = segment_create(&small_sizes, 5, &segment, NULL);
    int fd = segment.fd;
    segment_detach(&segment);
    bool closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
    assert_int_equal(result, RESULT_OK);
    assert_int_equal(fd, STDIN_FILENO);
    assert_true(closed);
}

/* The limit on file sizes makes ftruncate(2) fail. */
static void assert_failure_leaves_nothing_open(void)
{
    int before = next_descriptor();
    struct rlimit usual;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, usual.rlim_max}), 0);
    struct segment segment;
    struct error_text error = {""};
    enum result result = segment_create(&small_sizes, 5, &segment, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(result, RESULT_IO);
    assert_non_null(strstr(error.text, "ftruncate"));
    assert_null(segment.base);
    assert_int_equal(segment.fd, -1);
    assert_int_equal(next_descriptor(), before);
}

/* The second time the descriptor is the one of the closed standard input. */
static void failure_leaves_nothing_open(void **state)
{
    (void)state;
    assert_failure_leaves_nothing_open();
    int saved = dup(STDIN_FILENO);
    assert_true(saved > 0);
    close(STDIN_FILENO);
    assert_failure_leaves_nothing_open();
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    close(saved);
}

static void size_is_sealed(void **state)
{
    (void)state;
    struct segment segment = created();
    assert_int_not_equal(ftruncate(segment.fd, 0), 0);
    assert_int_not_equal(ftruncate(segment.fd, 1 << 30), 0);
    assert_int_not_equal(fcntl(segment.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    segment_detach(&segment);
}

static void sizes_out_of_bounds_are_refused(void **state)
{
    (void)state;
    const struct segment_sizes wrong[] = {
        {0, 64, 65536},
        {16, 0, 65536},
        {24, 64, 65536},
        {16, 63, 65536},
        {LIMIT_RING_RECORDS * 2, 64, 65536},
        {16, LIMIT_RING_RECORDS * 2, 65536},
        {16, 64, 0},
        {16, 64, 65537},
        {16, 64, LIMIT_SLAB_BYTES + 64},
        {16, 64, UINT64_MAX - 63},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct segment segment;
        assert_int_equal(segment_create(&wrong[i], 1, &segment, NULL), RESULT_INVALID);
        assert_null(segment.base);
        assert_int_equal(segment.fd, -1);
    }
}

static void sizes_at_the_bounds_are_taken(void **state)
{
    (void)state;
    const struct segment_sizes right[] = {{1, 1, 64},
                                          {LIMIT_RING_RECORDS, 2, 65536},
                                          {2, LIMIT_RING_RECORDS, 65536},
                                          {1, 1, LIMIT_SLAB_BYTES}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        struct segment segment;
        assert_int_equal(segment_create(&right[i], 1, &segment, NULL), RESULT_OK);
        assert_int_equal(segment.segment_bytes % 4096, 0);
        assert_true(segment.slab + segment.slab_bytes <= segment.base + segment.segment_bytes);
        assert_true(segment.segment_bytes - (uint64_t)(segment.slab - segment.base) <
                    segment.slab_bytes + 4096);
        segment_detach(&segment);
    }
}

/* Every byte of the header, each with several wrong values: attach names the field or, for the
 * generation, does not care. */
static void each_header_byte_is_checked(void **state)
{
    (void)state;
    struct segment frontend = created();
    struct segment_header right = *frontend.header;
    for (size_t at = 0; at < sizeof right; at++) {
        bool is_generation = at >= offsetof(struct segment_header, generation) &&
                             at < offsetof(struct segment_header, segment_bytes);
        for (int bit = 0; bit < 8; bit++) {
            *frontend.header = right;
            ((uint8_t *)frontend.header)[at] ^= (uint8_t)(1 << bit);
            struct segment worker;
            struct error_text error = {""};
            enum result result = attach_copy(frontend.fd, &worker, &error);
            assert_int_equal(result, is_generation ? RESULT_OK : RESULT_CORRUPT);
            if (result == RESULT_OK)
                segment_detach(&worker);
            else
                assert_non_null(strstr(error.text, "header field"));
        }
    }
    segment_detach(&frontend);
}

/* Another set of sizes can round to the same pages, and then the header is a valid one: everything
 * lies inside. */
static void assert_fits(const struct segment *segment)
{
    const uint8_t *end = segment->base + segment->segment_bytes;
    assert_true(segment->submit_records + segment->submit_capacity * 192u <=
                segment->event_records);
    assert_true(segment->event_records + segment->event_capacity * 64u <= segment->slab);
    assert_true(segment->slab_bytes <= (uint64_t)(end - segment->slab));
}

static void random_headers_are_refused_or_fit(void **state)
{
    (void)state;
    struct segment frontend = created();
    struct segment_header right = *frontend.header;
    struct test_random random = {51};
    uint32_t refused = 0;
    for (int round = 0; round < 5000; round++) {
        struct segment_header header = right;
        uint32_t *words = (uint32_t *)&header;
        for (uint32_t n = 1 + test_random_below(&random, 6); n > 0; n--)
            words[test_random_below(&random, 14)] = (uint32_t)test_random_edgy(&random);
        *frontend.header = header;
        struct segment worker;
        enum result result = attach_copy(frontend.fd, &worker, NULL);
        if (result == RESULT_OK) {
            assert_fits(&worker);
        } else {
            assert_int_equal(result, RESULT_CORRUPT);
            refused++;
        }
        segment_detach(&worker);
    }
    assert_in_range(refused, 4000, 4999);
    segment_detach(&frontend);
}

/* A file with a perfect header, but of another kind. */
static void other_files_are_refused(void **state)
{
    (void)state;
    struct segment frontend = created();
    struct segment worker;
    uint64_t bytes = frontend.segment_bytes;

    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, (off_t)bytes), 0);
    assert_int_equal(pwrite(unsealed, frontend.header, 256, 0), 256);
    assert_int_equal(attach_copy(unsealed, &worker, NULL), RESULT_CORRUPT);
    assert_int_equal(fcntl(unsealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(attach_copy(unsealed, &worker, NULL), RESULT_CORRUPT);
    assert_int_equal(fcntl(unsealed, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_int_equal(attach_copy(unsealed, &worker, NULL), RESULT_OK);
    segment_detach(&worker);
    close(unsealed);

    int shorter = memfd_create("shorter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(shorter, (off_t)bytes - 4096), 0);
    assert_int_equal(pwrite(shorter, frontend.header, 256, 0), 256);
    assert_int_equal(fcntl(shorter, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(attach_copy(shorter, &worker, NULL), RESULT_CORRUPT);
    close(shorter);

    int empty = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    assert_int_equal(attach_copy(empty, &worker, NULL), RESULT_CORRUPT);
    close(empty);

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(attach_copy(ends[0], &worker, NULL), RESULT_CORRUPT);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(segment_attach(-1, &worker, NULL), RESULT_IO);
    segment_detach(&frontend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_map_is_as_documented),
        cmocka_unit_test(both_sides_see_the_same_bytes),
        cmocka_unit_test(descriptor_does_not_leak_into_programs),
        cmocka_unit_test(detaching_nothing_closes_nothing),
        cmocka_unit_test(detaching_closes_the_descriptor),
        cmocka_unit_test(standard_input_may_be_closed),
        cmocka_unit_test(failure_leaves_nothing_open),
        cmocka_unit_test(size_is_sealed),
        cmocka_unit_test(sizes_at_the_bounds_are_taken),
        cmocka_unit_test(sizes_out_of_bounds_are_refused),
        cmocka_unit_test(each_header_byte_is_checked),
        cmocka_unit_test(random_headers_are_refused_or_fit),
        cmocka_unit_test(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
