/*
 * A huge JPEG is decoded smaller only if the result is much smaller anyway. The images are made
 * here: their tables have one code, a zero bit, so any number of zero bytes is an image of middle
 * gray.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/image/image_decoder.h"
#include "proto/limits.h"
#include "proto/must.h"

struct jpeg_bytes {
    uint8_t *bytes;
    size_t count;
};

static void append(struct jpeg_bytes *jpeg, const void *bytes, size_t count)
{
    memcpy(jpeg->bytes + jpeg->count, bytes, count);
    jpeg->count += count;
}

/* Gray of one value, `width` and `height` multiples of 8. A block is two bits. */
static struct jpeg_bytes make_jpeg(uint32_t width, uint32_t height)
{
    static const uint8_t quantizers[4] = {0xff, 0xdb, 0, 67};
    static const uint8_t codes[2][6] = {{0xff, 0xc4, 0, 20, 0x00, 1}, {0xff, 0xc4, 0, 20, 0x10, 1}};
    static const uint8_t scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0};
    const uint8_t frame[] = {0xff,
                             0xc0,
                             0,
                             11,
                             8,
                             (uint8_t)(height >> 8),
                             (uint8_t)height,
                             (uint8_t)(width >> 8),
                             (uint8_t)width,
                             1,
                             1,
                             0x11,
                             0};
    uint8_t ones[65], zeros[16] = {0};
    size_t data = (size_t)(width / 8) * (height / 8) / 4 + 1;
    struct jpeg_bytes jpeg = {calloc(1, data + 512), 0};
    must(jpeg.bytes != NULL);
    memset(ones, 1, sizeof ones);
    ones[0] = 0;
    append(&jpeg, "\xff\xd8", 2);
    append(&jpeg, quantizers, sizeof quantizers);
    append(&jpeg, ones, sizeof ones);
    append(&jpeg, frame, sizeof frame);
    for (unsigned i = 0; i < 2; i++) {
        append(&jpeg, codes[i], sizeof codes[i]);
        append(&jpeg, zeros, 16);
    }
    append(&jpeg, scan, sizeof scan);
    jpeg.count += data;
    append(&jpeg, "\xff\xd9", 2);
    return jpeg;
}

static void check_decoded(uint32_t width, uint32_t height, uint32_t wanted, uint32_t got_width,
                          uint32_t got_height)
{
    struct jpeg_bytes jpeg = make_jpeg(width, height);
    struct error_text error = {""};
    struct image_header header;
    struct image_pixels pixels;
    if (image_decoder_probe(jpeg.bytes, jpeg.count, &header, &error) != RESULT_OK ||
        image_decoder_run(jpeg.bytes, jpeg.count, &header, wanted, wanted, &pixels, &error) !=
            RESULT_OK)
        fail_msg("%u x %u: %s", width, height, error.text);
    assert_int_equal(header.width, width);
    assert_int_equal(header.height, height);
    assert_int_equal(pixels.width, got_width);
    assert_int_equal(pixels.height, got_height);
    for (size_t i = 0; i < image_pixels_bytes(pixels.width, pixels.height); i += 997)
        assert_int_equal(pixels.rgb[i], 128);
    image_pixels_fini(&pixels);
    free(jpeg.bytes);
}

static void test_huge_ones_are_decoded_smaller(void **state)
{
    (void)state;
    check_decoded(8192, 8192, 224, 1024, 1024);
    check_decoded(8192, 4096, 600, 4096, 2048);
    check_decoded(4104, 4104, 1000, 2052, 2052);
}

static void test_others_are_decoded_as_they_are(void **state)
{
    (void)state;
    check_decoded(4104, 4104, 1100, 4104, 4104); /* half of it is less than twice the wanted size */
    check_decoded(4104, 4104, 0, 4104, 4104);    /* unknown size */
    check_decoded(4096, 4096, 28, 4096, 4096);   /* LIMIT_JPEG_EXACT_PIXELS */
}

static void test_larger_ones_are_refused(void **state)
{
    (void)state;
    struct jpeg_bytes jpeg = make_jpeg(8200, 8192);
    struct error_text error = {""};
    struct image_header header;
    assert_int_equal(image_decoder_probe(jpeg.bytes, jpeg.count, &header, &error),
                     RESULT_TOO_LARGE);
    assert_non_null(strstr(error.text, "8200 x 8192"));
    free(jpeg.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huge_ones_are_decoded_smaller),
        cmocka_unit_test(test_others_are_decoded_as_they_are),
        cmocka_unit_test(test_larger_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
