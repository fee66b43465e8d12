/*
 * Videos are decoded to the frames and times that Pillow gives (scripts/golden/video_frames.py), whole
 * and in part. Files that are cut off or changed are refused or give frames within the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/video_decoder.h"
#include "proto/limits.h"
#include "proto/must.h"
#include "tests/support/test_random.h"
#include "tests/support/whole_file.h"

#define FOLDER "tests/golden/videos/frames/"

struct golden {
    char name[32];
    uint32_t width;
    uint32_t height;
    uint32_t frames;
    uint32_t milliseconds;
};

static uint8_t *read_file(const char *name, size_t *bytes)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s", name);
    return whole_file_read(path, bytes);
}

static struct video_order order_of(const struct video_header *header, uint32_t *indices)
{
    return (struct video_order){.indices = indices,
                                .width = header->width,
                                .height = header->height,
                                .filter = IMAGE_FILTER_BICUBIC,
                                .arithmetic = IMAGE_ARITHMETIC_TORCH};
}

/* All frames, then every third one. */
static void check_file(const struct golden *golden)
{
    char name[64];
    size_t bytes, frame_bytes;
    uint32_t indices[LIMIT_VIDEO_FRAMES];
    struct video_header header;
    struct error_text error = {""};
    snprintf(name, sizeof name, "%s.rgb", golden->name);
    uint8_t *file = read_file(golden->name, &bytes), *expected = read_file(name, &frame_bytes);
    if (video_decoder_probe(file, bytes, &header, &error) != RESULT_OK)
        fail_msg("%s: %s", golden->name, error.text);
    assert_int_equal(header.width, golden->width);
    assert_int_equal(header.height, golden->height);
    assert_int_equal(header.frames, golden->frames);
    assert_int_equal(header.duration_us, 1000ull * golden->milliseconds);
    frame_bytes = (size_t)golden->width * golden->height * 3;
    uint8_t *out = must_alloc(golden->frames, frame_bytes);
    for (uint32_t step = 1; step <= 3; step += 2) {
        struct video_order order = order_of(&header, indices);
        for (uint32_t i = 0; i < golden->frames; i += step)
            indices[order.count++] = i;
        if (video_decoder_run(file, bytes, &header, &order, out, &error) != RESULT_OK)
            fail_msg("%s: %s", golden->name, error.text);
        for (uint32_t i = 0; i < order.count; i++)
            if (memcmp(out + i * frame_bytes, expected + indices[i] * frame_bytes, frame_bytes))
                fail_msg("%s: frame %u differs", golden->name, indices[i]);
    }
    free(out);
    free(expected);
    free(file);
}

static uint32_t each_file(void (*check)(const struct golden *golden))
{
    struct golden golden;
    uint32_t count = 0;
    FILE *list = fopen(FOLDER "frames.txt", "r");
    must(list != NULL);
    while (fscanf(list, "%31s %u %u %u %u", golden.name, &golden.width, &golden.height,
                  &golden.frames, &golden.milliseconds) == 5) {
        check(&golden);
        count++;
    }
    fclose(list);
    return count;
}

static void frames_are_those_of_pillow(void **state)
{
    (void)state;
    assert_int_equal(each_file(check_file), 24);
}

/* Decodes what a probe accepts; the words of a refusal are there. */
static void try_bytes(const uint8_t *bytes, size_t count)
{
    struct video_header header;
    struct error_text error = {""};
    uint32_t indices[2];
    uint8_t out[2 * 8 * 8 * 3];
    if (video_decoder_probe(bytes, count, &header, &error) != RESULT_OK) {
        assert_true(error.text[0] != '\0');
        return;
    }
    assert_true(video_header_is_valid(&header));
    struct video_order order = order_of(&header, indices);
    order.width = order.height = 8;
    indices[order.count++] = 0;
    indices[order.count++] = header.frames - 1;
    error.text[0] = '\0';
    if (video_decoder_run(bytes, count, &header, &order, out, &error) != RESULT_OK)
        assert_true(error.text[0] != '\0');
}

static void check_hostile(const struct golden *golden)
{
    size_t bytes;
    struct test_random random = {.state = 11};
    uint8_t *file = read_file(golden->name, &bytes);
    for (size_t end = 0; end < bytes; end += 1 + end / 40) {
        uint8_t *cut = must_alloc(end + 1, 1); /* sanitizers see reads beyond it */
        memcpy(cut, file, end);
        try_bytes(cut, end);
        free(cut);
    }
    for (uint32_t i = 0; i < 60; i++) {
        uint8_t *changed = must_alloc(bytes, 1);
        memcpy(changed, file, bytes);
        for (uint32_t change = 0; change < 3; change++)
            changed[test_random_below(&random, (uint32_t)bytes)] =
                (uint8_t)test_random_below(&random, 256);
        try_bytes(changed, bytes);
        free(changed);
    }
    free(file);
}

static void damaged_files_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(each_file(check_hostile), 24);
}

static void put(uint8_t **at, const void *bytes, size_t count)
{
    memcpy(*at, bytes, count);
    *at += count;
}

/* More frames than the limit, each of one pixel, of 15 bytes. */
static void a_million_frames_are_refused(void **state)
{
    static const uint8_t head[] = {'G',  'I', 'F', '8', '9', 'a', 1, 0, 1, 0,
                                   0x80, 0,   0,   0,   0,   0,   9, 9, 9};
    static const uint8_t frame[] = {0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 0x01, 0};
    const uint32_t frames = 1000000;
    struct video_header header;
    struct error_text error = {""};
    (void)state;
    uint8_t *file = must_alloc(sizeof head + (size_t)frames * sizeof frame, 1), *at = file;
    put(&at, head, sizeof head);
    for (uint32_t i = 0; i < frames; i++)
        put(&at, frame, sizeof frame);
    assert_int_equal(video_decoder_probe(file, (size_t)(at - file), &header, &error),
                     RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "131073 frames"));
    free(file);
}

/* A screen of 65,535 x 65,535 pixels in 34 bytes. */
static void a_huge_screen_is_refused(void **state)
{
    static const uint8_t file[] = {'G', 'I', 'F', '8', '9', 'a', 255, 255,  255,  255, 0x80, 0,
                                   0,   0,   0,   0,   9,   9,   9,   0x2c, 0,    0,   0,    0,
                                   1,   0,   1,   0,   0,   2,   2,   0x44, 0x01, 0};
    struct video_header header;
    struct error_text error = {""};
    (void)state;
    assert_int_equal(video_decoder_probe(file, sizeof file, &header, &error), RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "65535 x 65535"));
}

static void orders_have_bounds(void **state)
{
    const struct video_header header = {VIDEO_GIF, 10, 10, 5, 1000, 500};
    uint32_t indices[] = {0, 4, 4};
    struct video_order order = order_of(&header, indices);
    (void)state;
    assert_true(video_header_is_valid(&header));
    order.count = 3;
    assert_true(video_order_is_valid(&order, &header));
    order.count = 0;
    assert_false(video_order_is_valid(&order, &header));
    order.count = LIMIT_VIDEO_FRAMES + 1;
    assert_false(video_order_is_valid(&order, &header));
    order.count = 3;
    order.width = LIMIT_IMAGE_SIDE;
    order.height = LIMIT_VIDEO_PIXELS / LIMIT_IMAGE_SIDE / 3 + 1;
    assert_false(video_order_is_valid(&order, &header));
    order.width = order.height = 10;
    indices[1] = 5;
    assert_false(video_order_is_valid(&order, &header));
    indices[1] = 4;
    indices[2] = 3;
    assert_false(video_order_is_valid(&order, &header));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_of_pillow),   cmocka_unit_test(damaged_files_are_bounded),
        cmocka_unit_test(a_million_frames_are_refused), cmocka_unit_test(a_huge_screen_is_refused),
        cmocka_unit_test(orders_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
