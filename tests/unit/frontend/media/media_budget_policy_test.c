/*
 * The CPU time of an image grows with its bytes, pixels and scans, and a small file gets little.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/media/media_budget_policy.h"
#include "proto/limits.h"
#include "tests/support/sanitized.h"

static const struct image_header photo = {IMAGE_JPEG, 4000, 3000, 1, 1};

static void headers_have_half_a_second(void **state)
{
    (void)state;
    int64_t cpu_us = media_budget_cpu_us(640000, NULL); /* finding of 60,000 segments: 11 s */
    if (SANITIZED)
        assert_true(cpu_us > 500000);
    else
        assert_in_range(cpu_us, 500000, 600000);
}

/* 20 ns a byte; 100 ns a pixel and 2 ns for each scan of it. */
static void time_is_proportional_to_bytes_and_pixels(void **state)
{
    (void)state;
    const struct image_header small = {IMAGE_JPEG, 1000, 10, 1, 3};
    int64_t least_us = media_budget_cpu_us(0, NULL);
    int64_t factor = least_us / 500000; /* sanitizers slow the decoders down */
    assert_int_equal(least_us, factor * 500000);
    assert_true(SANITIZED || factor == 1);
    assert_int_equal(media_budget_cpu_us(50000000, NULL), factor * 1500000);
    assert_int_equal(media_budget_cpu_us(0, &small), factor * (500000 + 1000 + 60));
}

static void each_part_adds_time(void **state)
{
    (void)state;
    struct image_header progressive = photo, larger = photo;
    progressive.scans = 10;
    larger.height *= 2;
    int64_t base_us = media_budget_cpu_us(1 << 20, &photo);
    assert_true(base_us > media_budget_cpu_us(1 << 20, NULL));
    assert_true(media_budget_cpu_us(8 << 20, &photo) > base_us);
    assert_true(media_budget_cpu_us(1 << 20, &progressive) > base_us);
    assert_true(media_budget_cpu_us(1 << 20, &larger) > base_us);
}

/* Measured: a PNG takes 36 ns a pixel, a WebP 28, a scan of a JPEG 1 (frontend/image/README.md). */
static void the_slowest_valid_images_fit_twice(void **state)
{
    (void)state;
    const struct image_header png = {IMAGE_PNG, 8192, 8192, 1, 1};
    const struct image_header scans = {IMAGE_JPEG, 4096, 4096, 1, 95};
    assert_true(media_budget_cpu_us(LIMIT_SOURCE_IMAGE_BYTES, &png) > 2 * 8192 * 8192 / 1000 * 36);
    assert_true(media_budget_cpu_us(1000, &scans) > 2ll * 4096 * 4096 / 1000 * 95);
}

static void the_largest_image_has_a_bound(void **state)
{
    (void)state;
    const struct image_header largest = {IMAGE_JPEG, 8192, 8192, 1, LIMIT_JPEG_SCANS};
    int64_t cpu_us = media_budget_cpu_us(LIMIT_SOURCE_IMAGE_BYTES, &largest);
    if (!SANITIZED)
        assert_true(cpu_us < 25000000);
    assert_true(media_budget_wall_us(cpu_us) > 10 * cpu_us);
}

/* 20 ns a byte, 40 ns a pixel that is decoded, 60 ns one that is shown, 20 us a frame. */
static void videos_have_time_for_what_they_decode(void **state)
{
    (void)state;
    const struct video_header header = {VIDEO_GIF, 1000, 100, 50, 1000000, 5000000};
    const struct video_order order = {.count = 4, .width = 28, .height = 28};
    int64_t factor = media_budget_cpu_us(0, NULL) / 500000;
    int64_t expected = 500000 + 20 + 200000 + 24000 + 1000;
    assert_int_equal(media_budget_video_cpu_us(1000, &header, &order), factor * expected);
}

/* Its length is not known before: the longest of audio_decoder.h takes 2.4 s as stereo. */
static void audio_has_time_for_the_longest(void **state)
{
    (void)state;
    int64_t factor = media_budget_cpu_us(0, NULL) / 500000;
    assert_int_equal(media_budget_audio_cpu_us(1000), factor * (500000 + 20000000 + 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_have_half_a_second),
        cmocka_unit_test(time_is_proportional_to_bytes_and_pixels),
        cmocka_unit_test(each_part_adds_time),
        cmocka_unit_test(the_slowest_valid_images_fit_twice),
        cmocka_unit_test(the_largest_image_has_a_bound),
        cmocka_unit_test(videos_have_time_for_what_they_decode),
        cmocka_unit_test(audio_has_time_for_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
