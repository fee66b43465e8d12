/*
 * Recording, submitting and waiting, with copies and fills only: commands take effect in the order
 * of their barriers, a recording can be submitted again, and timestamps increase. Chunks of an
 * arena hold whole pieces, so that large pieces of one size waste no memory. The device counts what it has
 * finished in memory of the host.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/vulkan_fixture.h"
#include "worker/backend/vulkan/device/vulkan_commands.h"
#include "worker/backend/vulkan/device/vulkan_work_marks.h"

#define WORDS 1000u
#define BYTES (WORDS * 4u)

struct buffers {
    struct vulkan_buffer upload, device, readback;
};

static void make_buffer(const struct vulkan_device *device, enum vulkan_place place,
                        struct vulkan_buffer *buffer)
{
    struct error_text error;
    if (vulkan_buffer_create(device, place, BYTES, "a test", buffer, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void buffers_init(const struct vulkan_device *device, struct buffers *buffers)
{
    make_buffer(device, VULKAN_UPLOAD, &buffers->upload);
    make_buffer(device, VULKAN_DEVICE, &buffers->device);
    make_buffer(device, VULKAN_READBACK, &buffers->readback);
}

static void buffers_fini(const struct vulkan_device *device, struct buffers *buffers)
{
    vulkan_buffer_destroy(device, &buffers->upload);
    vulkan_buffer_destroy(device, &buffers->device);
    vulkan_buffer_destroy(device, &buffers->readback);
}

static struct vulkan_commands *begin(const struct vulkan_device *device, enum vulkan_queue queue)
{
    struct vulkan_commands *commands = NULL;
    struct error_text error;
    assert_int_equal(vulkan_commands_create(device, queue, 2, &commands, &error), RESULT_OK);
    assert_int_equal(vulkan_commands_begin(commands, &error), RESULT_OK);
    return commands;
}

static void end_and_run(struct vulkan_commands *commands)
{
    struct error_text error;
    assert_int_equal(vulkan_commands_end(commands, &error), RESULT_OK);
    if (vulkan_commands_run(commands, &error) != RESULT_OK)
        fail_msg("%s", error.text);
}

static void record_round_trip(struct vulkan_commands *commands, const struct buffers *buffers)
{
    vulkan_commands_copy(commands, &buffers->upload, 0, &buffers->device, 0, BYTES);
    vulkan_commands_barrier(commands);
    vulkan_commands_fill(commands, &buffers->device, 40, 8, 0xabcd0123u);
    vulkan_commands_barrier(commands);
    vulkan_commands_copy(commands, &buffers->device, 4, &buffers->readback, 0, BYTES - 4);
    vulkan_commands_barrier(commands);
}

static void expect_round_trip(const struct buffers *buffers, uint32_t first)
{
    const uint32_t *got = (const uint32_t *)buffers->readback.mapped;
    for (uint32_t i = 1; i < WORDS; i++)
        assert_int_equal(got[i - 1], i == 10 || i == 11 ? 0xabcd0123u : first + i);
}

static void write_upload(const struct buffers *buffers, uint32_t first)
{
    uint32_t *words = (uint32_t *)buffers->upload.mapped;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = first + i;
}

static void test_copies_and_fills_in_order(void **state)
{
    struct vulkan_device *device = (struct vulkan_device *)*state;
    struct buffers buffers;
    buffers_init(device, &buffers);
    for (enum vulkan_queue queue = VULKAN_QUEUE_COMPUTE; queue <= VULKAN_QUEUE_TRANSFER; queue++) {
        memset(buffers.readback.mapped, 0, BYTES);
        write_upload(&buffers, 7);
        struct vulkan_commands *commands = begin(device, queue);
        record_round_trip(commands, &buffers);
        end_and_run(commands);
        expect_round_trip(&buffers, 7);
        vulkan_commands_destroy(commands);
    }
    buffers_fini(device, &buffers);
}

static void test_a_recording_is_run_again(void **state)
{
    struct vulkan_device *device = (struct vulkan_device *)*state;
    struct buffers buffers;
    struct error_text error;
    buffers_init(device, &buffers);
    struct vulkan_commands *commands = begin(device, VULKAN_QUEUE_COMPUTE);
    record_round_trip(commands, &buffers);
    assert_int_equal(vulkan_commands_end(commands, &error), RESULT_OK);
    for (uint32_t run = 0; run < 3; run++) {
        write_upload(&buffers, run * 1000);
        assert_int_equal(vulkan_commands_run(commands, &error), RESULT_OK);
        expect_round_trip(&buffers, run * 1000);
    }
    vulkan_commands_destroy(commands);
    buffers_fini(device, &buffers);
}

static void test_timestamps_go_forward(void **state)
{
    struct vulkan_device *device = (struct vulkan_device *)*state;
    if (device->facts.timestamp_ns == 0)
        vulkan_fixture_skip("the device has no timestamps");
    struct buffers buffers;
    buffers_init(device, &buffers);
    struct vulkan_commands *commands = begin(device, VULKAN_QUEUE_COMPUTE);
    vulkan_commands_timestamp(commands, 0);
    record_round_trip(commands, &buffers);
    vulkan_commands_timestamp(commands, 1);
    end_and_run(commands);
    double elapsed_ns = vulkan_commands_elapsed_ns(commands, 0, 1);
    assert_true(elapsed_ns > 0);
    assert_true(elapsed_ns < 60e9);
    vulkan_commands_destroy(commands);
    buffers_fini(device, &buffers);
}

/* Submissions of recordings made after the marks began, on the compute queue only where there are two. */
static void test_finished_work_is_counted(void **state)
{
    struct vulkan_device *device = *state;
    struct vulkan_kernels *kernels = NULL;
    const struct device_work *seen = NULL;
    struct device_work *work = NULL;
    struct error_text error;
    struct buffers buffers;
    int fd = -1;
    if (!device->facts.external_host)
        vulkan_fixture_skip("the device cannot write to memory of the host");
    buffers_init(device, &buffers);
    assert_int_equal(device_work_create(&fd, &seen, &error), RESULT_OK);
    assert_int_equal(device_work_open(fd, &work, &error), RESULT_OK);
    close(fd);
    if (vulkan_work_marks_create(device, work, &device->marks, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    struct vulkan_commands *earlier = begin(device, VULKAN_QUEUE_COMPUTE);
    end_and_run(earlier);
    assert_false(device_work_is_finished(seen));
    assert_int_equal(vulkan_kernels_create(device, NULL, &kernels, &error), RESULT_OK);
    assert_int_equal(vulkan_work_marks_begin(device->marks, kernels, &error), RESULT_OK);
    assert_true(device_work_is_finished(seen));
    assert_int_equal(vulkan_commands_run(earlier, &error), RESULT_OK);
    assert_int_equal(atomic_load(&seen->submitted), 0);

    struct vulkan_commands *commands = begin(device, VULKAN_QUEUE_COMPUTE);
    write_upload(&buffers, 5);
    record_round_trip(commands, &buffers);
    assert_int_equal(vulkan_commands_end(commands, &error), RESULT_OK);
    assert_false(atomic_load(&seen->submitted) > 0);
    for (uint32_t run = 1; run <= 3; run++) {
        assert_int_equal(vulkan_commands_submit(commands, &error), RESULT_OK);
        assert_int_equal(atomic_load(&seen->submitted), run);
        assert_int_equal(vulkan_commands_wait(commands, 60000, &error), RESULT_OK);
        assert_int_equal(atomic_load(&seen->finished), run);
        assert_true(device_work_is_finished(seen));
        expect_round_trip(&buffers, 5);
    }
    vulkan_commands_destroy(commands);
    vulkan_commands_destroy(earlier);
    vulkan_work_marks_destroy(device, device->marks);
    device->marks = NULL;
    vulkan_kernels_destroy(kernels);
    buffers_fini(device, &buffers);
    device_work_close(work);
    device_work_close(seen);
}

static void test_spare_commands_are_used_first(void **state)
{
    struct vulkan_device *device = *state;
    struct error_text error;
    struct buffers buffers;
    buffers_init(device, &buffers);
    assert_int_equal(vulkan_spare_commands_create(device, 2, &device->spare, &error), RESULT_OK);
    struct vulkan_commands *made[3] = {NULL};
    struct vulkan_commands *timed =
        begin(device, VULKAN_QUEUE_COMPUTE); /* with timestamps: none is */
    for (uint32_t i = 0; i < 3; i++) {
        memset(buffers.readback.mapped, 0, BYTES);
        write_upload(&buffers, 9 + i);
        assert_int_equal(vulkan_commands_create(device, VULKAN_QUEUE_COMPUTE, 0, &made[i], &error),
                         RESULT_OK);
        assert_true(i == 0 || made[i] != made[i - 1]);
        assert_int_equal(vulkan_commands_begin(made[i], &error), RESULT_OK);
        record_round_trip(made[i], &buffers);
        end_and_run(made[i]); /* waits by polling */
        expect_round_trip(&buffers, 9 + i);
    }
    end_and_run(timed);
    for (uint32_t i = 0; i < 3; i++)
        vulkan_commands_destroy(made[i]);
    vulkan_commands_destroy(timed);
    vulkan_spare_commands_destroy(device->spare);
    assert_int_equal(vulkan_spare_commands_create(device, 1, &device->spare, &error), RESULT_OK);
    vulkan_spare_commands_destroy(device->spare);
    device->spare = NULL;
    buffers_fini(device, &buffers);
}

/* Of 600 kB, where a chunk holds at most 1 MB, and of 300 kB, of which three fit. */
static void test_large_pieces_waste_no_memory(void **state)
{
    struct vulkan_device *device = *state;
    const uint64_t all = device->facts.max_allocation_bytes;
    static const uint64_t sizes[] = {600 << 10, 300 << 10};
    device->facts.max_allocation_bytes = 1 << 20;
    for (uint32_t size = 0; size < 2; size++) {
        struct vulkan_arena *arena = vulkan_arena_create(device, 12 * sizes[size], false);
        struct vulkan_piece piece;
        struct error_text error;
        for (uint32_t i = 0; i < 12; i++)
            assert_int_equal(vulkan_arena_take(arena, sizes[size], "a test", &piece, &error),
                             RESULT_OK);
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < vulkan_arena_chunk_count(arena); i++)
            bytes += vulkan_arena_chunk(arena, i)->bytes;
        assert_int_equal(bytes, 12 * sizes[size]);
        vulkan_arena_destroy(arena);
    }
    device->facts.max_allocation_bytes = all;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_and_fills_in_order),
        cmocka_unit_test(test_a_recording_is_run_again),
        cmocka_unit_test(test_timestamps_go_forward),
        cmocka_unit_test(test_finished_work_is_counted),
        cmocka_unit_test(test_spare_commands_are_used_first),
        cmocka_unit_test(test_large_pieces_waste_no_memory),
    };
    return cmocka_run_group_tests(tests, vulkan_fixture_setup, vulkan_fixture_teardown);
}
