/*
 * Malformed and oversized images: the seeds of fuzz_image, with the result that their names state,
 * and every golden file cut off and changed in many ways, about 450 in all. Each is rejected with a
 * text or becomes an image of the size in its header; all of them together use hardly any memory.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "frontend/image/image_codec.h"
#include "frontend/image/image_decoder.h"
#include "proto/limits.h"
#include "proto/mapped_file.h"
#include "proto/must.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_random.h"

#define SEEDS        "tests/fuzz/corpus/image"
#define GOLDEN       "tests/golden/images"
#define TURNED       GOLDEN "/turned-6.jpg"
#define CUTS         5u
#define BENDS        5u
#define ALL_AT_LEAST 300u
/* CPU time; a few milliseconds without sanitizers. A quadratic walk takes hours */
#define SEGMENTS_MOST_S 20.0
/* growth of the peak; the largest rejected headers declare 192 MB of pixels */
#define MEMORY_MOST_KB (96l * 1024)

/* True if it became an image; a refusal has an error text. */
static bool try_image(const char *name, const uint8_t *bytes, size_t count)
{
    struct error_text error = {""};
    struct image_header header;
    struct image_pixels pixels;
    enum result result = image_decoder_probe(bytes, count, &header, &error);
    if (result == RESULT_OK) {
        assert_in_range(header.width, 1, LIMIT_SOURCE_IMAGE_SIDE);
        assert_in_range(header.height, 1, LIMIT_SOURCE_IMAGE_SIDE);
        assert_true((uint64_t)header.width * header.height <= LIMIT_SOURCE_IMAGE_PIXELS);
        result = image_decoder_run(bytes, count, &header, 28, 28, &pixels, &error);
    }
    if (result != RESULT_OK && !error.text[0])
        fail_msg("%s: refused without words", name);
    if (result != RESULT_OK)
        return false;
    assert_true(pixels.width >= 1 && pixels.width <= header.width);
    assert_true(pixels.height >= 1 && pixels.height <= header.height);
    image_pixels_fini(&pixels);
    return true;
}

/* A copy whose end is the heap's, so that a sanitizer sees what reads over it. */
static bool try_copy(const char *name, const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count ? count : 1);
    must(copy != NULL);
    memcpy(copy, bytes, count);
    bool taken = try_image(name, copy, count);
    free(copy);
    return taken;
}

static void check_seed(const char *name, const struct mapped_file *file)
{
    bool taken = try_copy(name, file->bytes, file->byte_count);
    if (strncmp(name, "refused-", 8) == 0 && taken)
        fail_msg("%s: taken", name);
    if (strncmp(name, "taken-", 6) == 0 && !taken)
        fail_msg("%s: refused", name);
}

static void check_cut_and_bent(const char *name, const struct mapped_file *file,
                               struct test_random *random)
{
    size_t count = file->byte_count;
    for (unsigned i = 0; i < CUTS; i++) {
        size_t left = 1 + test_random_below(random, (uint32_t)(count / 2));
        if (try_copy(name, file->bytes, left))
            fail_msg("%s: taken with %zu of its %zu bytes", name, left, count);
    }
    uint8_t *bent = malloc(count);
    must(bent != NULL);
    for (unsigned i = 0; i < BENDS; i++) {
        memcpy(bent, file->bytes, count);
        for (unsigned k = 0; k <= i; k++)
            bent[test_random_below(random, (uint32_t)count)] = (uint8_t)test_random_edgy(random);
        (void)try_image(name, bent, count);
    }
    free(bent);
}

/* Returns the number of image files in a folder. */
static unsigned for_each(const char *folder, struct test_random *random)
{
    unsigned count = 0;
    DIR *at = opendir(folder);
    assert_non_null(at);
    for (struct dirent *entry; (entry = readdir(at)) != NULL;) {
        const char *name = entry->d_name;
        const char *ending = strrchr(name, '.');
        char path[512];
        struct error_text error;
        struct mapped_file file;
        if (name[0] == '.' ||
            (ending && (strcmp(ending, ".rgb") == 0 || strcmp(ending, ".txt") == 0 ||
                        strcmp(ending, ".md") == 0)))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        enum result result = mapped_file_open(AT_FDCWD, path, &file, &error);
        if (result == RESULT_INVALID && !random)
            file = (struct mapped_file){.bytes = ""}; /* an empty file */
        else
            assert_int_equal(result, RESULT_OK);
        if (random)
            check_cut_and_bent(name, &file, random);
        else
            check_seed(name, &file);
        if (file.byte_count)
            mapped_file_close(&file);
        count++;
    }
    (void)closedir(at);
    return count;
}

static long most_memory_kb(void)
{
    struct rusage usage;
    must(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

static void test_hostile_images_are_refused_or_bounded(void **state)
{
    (void)state;
    struct test_random random = {20261122};
    long before = most_memory_kb();
    unsigned seeds = for_each(SEEDS, NULL);
    unsigned files = for_each(GOLDEN, &random);
    assert_true(seeds >= 60);
    assert_true(seeds + files * (CUTS + BENDS) >= ALL_AT_LEAST);
    assert_true(SANITIZED_ADDRESS || most_memory_kb() - before <= MEMORY_MOST_KB);
}

static void test_too_many_bytes_are_refused_unread(void **state)
{
    (void)state;
    struct error_text error = {""};
    struct image_header header;
    const uint8_t byte = 0xff;
    assert_int_equal(
        image_decoder_probe(&byte, (size_t)LIMIT_SOURCE_IMAGE_BYTES + 1, &header, &error),
        RESULT_TOO_LARGE);
    assert_string_not_equal(error.text, "");
}

/* `count` segments without content between the beginning of a JPEG and `rest`; malloc'd. */
static uint8_t *with_segments(uint8_t marker, uint32_t count, const void *rest, size_t rest_bytes,
                              size_t *byte_count)
{
    *byte_count = 2 + 4 * (size_t)count + rest_bytes;
    uint8_t *bytes = malloc(*byte_count);
    must(bytes != NULL);
    memcpy(bytes, "\xff\xd8", 2);
    for (uint32_t i = 0; i < count; i++)
        memcpy(bytes + 2 + 4 * (size_t)i, (const uint8_t[]){0xff, marker, 0, 2}, 4);
    memcpy(bytes + 2 + 4 * (size_t)count, rest, rest_bytes);
    return bytes;
}

static double cpu_s(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 1.4 million segments took more than an hour, when each was compared with those before it. */
static void test_a_jpeg_of_many_segments_is_refused_at_once(void **state)
{
    (void)state;
    static const uint8_t markers[] = {0xe1, 0xe2, 0xfe};
    for (size_t i = 0; i < sizeof markers; i++) {
        struct error_text error = {""};
        struct image_header header;
        size_t count;
        uint8_t *bytes = with_segments(markers[i], 1400000, "\xff\xd9", 2, &count);
        double before_s = cpu_s();
        assert_int_equal(image_decoder_probe(bytes, count, &header, &error), RESULT_INVALID);
        assert_true(cpu_s() - before_s < SEGMENTS_MOST_S);
        assert_non_null(strstr(error.text, "more than 4096 segments"));
        free(bytes);
    }
}

/* The limit itself, with an image after it whose EXIF data are found. */
static void test_a_jpeg_of_as_many_segments_as_allowed_is_probed(void **state)
{
    (void)state;
    struct error_text error = {""};
    struct image_header header, plain;
    struct mapped_file file;
    size_t count;
    assert_int_equal(mapped_file_open(AT_FDCWD, TURNED, &file, &error), RESULT_OK);
    assert_int_equal(image_decoder_probe(file.bytes, file.byte_count, &plain, &error), RESULT_OK);
    assert_int_not_equal(plain.orientation, 1);
    const uint8_t *rest = (const uint8_t *)file.bytes + 2;
    uint8_t *bytes =
        with_segments(0xe2, LIMIT_JPEG_SEGMENTS - 16, rest, file.byte_count - 2, &count);
    assert_int_equal(image_decoder_probe(bytes, count, &header, &error), RESULT_OK);
    assert_int_equal(header.orientation, plain.orientation);
    assert_true(header.width == plain.width && header.height == plain.height);
    free(bytes);
    mapped_file_close(&file);
}

static void test_scans_are_counted_before_decoding(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t scans;
    } files[] = {{GOLDEN "/rgb-444.jpg", 1},
                 {GOLDEN "/restarts.jpg", 1},
                 {TURNED, 1},
                 {GOLDEN "/progressive.jpg", 10},
                 {GOLDEN "/rgb.png", 1}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct error_text error = {""};
        struct image_header header;
        struct mapped_file file;
        assert_int_equal(mapped_file_open(AT_FDCWD, files[i].name, &file, &error), RESULT_OK);
        assert_int_equal(image_decoder_probe(file.bytes, file.byte_count, &header, &error),
                         RESULT_OK);
        assert_int_equal(header.scans, files[i].scans);
        mapped_file_close(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_images_are_refused_or_bounded),
        cmocka_unit_test(test_too_many_bytes_are_refused_unread),
        cmocka_unit_test(test_a_jpeg_of_many_segments_is_refused_at_once),
        cmocka_unit_test(test_a_jpeg_of_as_many_segments_as_allowed_is_probed),
        cmocka_unit_test(test_scans_are_counted_before_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
