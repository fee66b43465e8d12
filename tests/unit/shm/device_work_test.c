/*
 * Marks of device work: shared between two mappings, of one size only, and finished only if the device
 * counts and both counts are equal.
 */
// tags: arm
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shm/device_work.h"

static void work_is_finished_if_all_of_it_was_counted(void **state)
{
    (void)state;
    const struct device_work *seen = NULL;
    struct device_work *own = NULL;
    struct error_text error;
    int fd = -1;
    assert_int_equal(device_work_create(&fd, &seen, &error), RESULT_OK);
    assert_int_equal(device_work_open(fd, &own, &error), RESULT_OK);
    close(fd);
    assert_false(device_work_is_finished(seen)); /* equal counts of a device that does not count */
    atomic_store(&own->marked, 1);
    assert_true(device_work_is_finished(seen));
    atomic_store(&own->submitted, 3);
    assert_false(device_work_is_finished(seen));
    atomic_store(&own->finished, 2);
    assert_false(device_work_is_finished(seen));
    atomic_store(&own->finished, 3);
    assert_true(device_work_is_finished(seen));
    atomic_store(&own->finished, 4); /* of a process that writes anything */
    assert_false(device_work_is_finished(seen));
    atomic_store(&own->finished, 3);
    atomic_store(&own->marked, 2);
    assert_false(device_work_is_finished(seen));
    device_work_close(own);
    device_work_close(seen);
    device_work_close(NULL);
}

static void its_size_cannot_be_changed(void **state)
{
    (void)state;
    const struct device_work *seen = NULL;
    struct error_text error;
    int fd = -1;
    assert_int_equal(device_work_create(&fd, &seen, &error), RESULT_OK);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 2 * DEVICE_WORK_BYTES), -1);
    close(fd);
    device_work_close(seen);
}

static void other_descriptors_are_refused(void **state)
{
    (void)state;
    struct device_work *work = NULL;
    struct error_text error;
    int ends[2];
    int other = memfd_create("other", MFD_CLOEXEC);
    assert_true(other >= 0 && pipe(ends) == 0);
    assert_int_equal(device_work_open(other, &work, &error), RESULT_CORRUPT);
    assert_int_equal(ftruncate(other, DEVICE_WORK_BYTES - 1), 0);
    assert_int_equal(device_work_open(other, &work, &error), RESULT_CORRUPT);
    assert_int_equal(device_work_open(ends[0], &work, &error), RESULT_CORRUPT);
    assert_int_equal(device_work_open(-1, &work, &error), RESULT_CORRUPT);
    assert_null(work);
    close(other);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_finished_if_all_of_it_was_counted),
        cmocka_unit_test(its_size_cannot_be_changed),
        cmocka_unit_test(other_descriptors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
