/*
 * Compressed bodies: what is unpacked, and what is refused within the bounds of memory and time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#if __has_include(<zstd.h>)
#include <zstd.h>
#define HAS_ZSTD 1
#endif

#include "frontend/base/body_coding.h"

struct bytes {
    char *at;
    size_t count;
};

static struct bytes gzip(const char *text, size_t bytes)
{
    z_stream stream = {0};
    struct bytes made = {malloc(compressBound(bytes) + 64), 0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    stream.next_in = (unsigned char *)(uintptr_t)text;
    stream.avail_in = (unsigned)bytes;
    stream.next_out = (unsigned char *)made.at;
    stream.avail_out = (unsigned)(compressBound(bytes) + 64);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    made.count = stream.total_out;
    deflateEnd(&stream);
    return made;
}

static struct bytes pack(enum body_coding coding, const char *text, size_t bytes)
{
#ifdef HAS_ZSTD
    if (coding == BODY_ZSTD) {
        struct bytes made = {malloc(ZSTD_compressBound(bytes)), 0};
        made.count = ZSTD_compress(made.at, ZSTD_compressBound(bytes), text, bytes, 3);
        return made;
    }
#endif
    assert_int_equal(coding, BODY_GZIP);
    return gzip(text, bytes);
}

static enum body_coding last_coding(void)
{
    enum body_coding coding;
    return body_coding_find("zstd", &coding) == RESULT_OK ? BODY_ZSTD : BODY_GZIP;
}

static void names_of_codings(void **state)
{
    (void)state;
    enum body_coding coding;
    static const char *const plain[] = {NULL, "", "identity", "Identity"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(body_coding_find(plain[i], &coding), RESULT_OK);
        assert_int_equal(coding, BODY_PLAIN);
    }
    assert_int_equal(body_coding_find("GZip", &coding), RESULT_OK);
    assert_int_equal(coding, BODY_GZIP);
    static const char *const others[] = {"br", "deflate", "gzip, gzip", "gzip ", "zst"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(body_coding_find(others[i], &coding), RESULT_UNSUPPORTED);
#ifdef HAS_ZSTD
    assert_int_equal(last_coding(), BODY_ZSTD);
#endif
}

/* Sizes around the first buffer and the limit; two members are one body. */
static void bodies_are_unpacked_up_to_the_limit(void **state)
{
    (void)state;
    enum { MOST = 200000 };
    static const size_t sizes[] = {0, 1, 65534, 65535, 65536, MOST - 1, MOST, MOST + 1, 5 * MOST};
    char *text = malloc(5 * MOST);
    for (size_t i = 0; i < 5 * MOST; i++)
        text[i] = (char)('a' + (i * i >> 5) % 26);
    for (enum body_coding coding = BODY_GZIP; coding <= last_coding(); coding++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char *body = NULL;
            size_t bytes = 0;
            struct bytes packed = pack(coding, text, sizes[i]);
            enum result result =
                body_coding_unpack(coding, packed.at, packed.count, MOST, NULL, &body, &bytes);
            assert_int_equal(result, sizes[i] <= MOST ? RESULT_OK : RESULT_TOO_LARGE);
            if (result == RESULT_OK) {
                assert_int_equal(bytes, sizes[i]);
                assert_memory_equal(body, text, bytes);
                assert_int_equal(body[bytes], '\0');
            }
            free(body);
            free(packed.at);
        }
        struct bytes one = pack(coding, "{\"a\":", 5), two = pack(coding, "1}", 2);
        char *both = malloc(one.count + two.count), *body = NULL;
        size_t bytes = 0;
        memcpy(both, one.at, one.count);
        memcpy(both + one.count, two.at, two.count);
        assert_int_equal(
            body_coding_unpack(coding, both, one.count + two.count, MOST, NULL, &body, &bytes),
            RESULT_OK);
        assert_string_equal(body, "{\"a\":1}");
        free(body);
        free(both);
        free(one.at);
        free(two.at);
    }
    free(text);
}

static void broken_bodies_are_refused(void **state)
{
    (void)state;
    char *body;
    size_t bytes;
    for (enum body_coding coding = BODY_GZIP; coding <= last_coding(); coding++) {
        struct bytes packed = pack(coding, "{\"messages\":[]} and some more text", 34);
        for (size_t cut = 0; cut < packed.count; cut++)
            assert_int_equal(body_coding_unpack(coding, packed.at, cut, 1000, NULL, &body, &bytes),
                             RESULT_INVALID);
        packed.at = realloc(packed.at, packed.count + 3);
        memcpy(packed.at + packed.count, "xyz", 3);
        assert_int_equal(
            body_coding_unpack(coding, packed.at, packed.count + 3, 1000, NULL, &body, &bytes),
            RESULT_INVALID);
        assert_int_equal(body_coding_unpack(coding, "{\"a\":1}", 7, 1000, NULL, &body, &bytes),
                         RESULT_INVALID);
        free(packed.at);
    }
}

/* 256 MB of zeros in a few hundred kilobytes or less: unpacking ends at the limit. */
static void a_bomb_ends_at_the_limit(void **state)
{
    (void)state;
    enum { ZEROS = 256 << 20 };
    char *zeros = calloc(1, ZEROS), *body;
    size_t bytes;
    for (enum body_coding coding = BODY_GZIP; coding <= last_coding(); coding++) {
        struct bytes packed = pack(coding, zeros, ZEROS);
        assert_true(packed.count < 400000);
        assert_int_equal(
            body_coding_unpack(coding, packed.at, packed.count, 1 << 20, NULL, &body, &bytes),
            RESULT_TOO_LARGE);
        free(packed.at);
    }
    free(zeros);
}

#ifdef HAS_ZSTD
/* A frame may ask for a window of gigabytes. */
static void a_large_window_is_refused(void **state)
{
    (void)state;
    static const unsigned char header[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x01, 0x00, 0x00};
    char *body;
    size_t bytes;
    assert_int_equal(body_coding_unpack(BODY_ZSTD, (const char *)header, sizeof header, 1000, NULL,
                                        &body, &bytes),
                     RESULT_INVALID);
    unsigned char small[sizeof header];
    memcpy(small, header, sizeof header);
    small[5] = 0x58; /* 2 MB */
    assert_int_equal(
        body_coding_unpack(BODY_ZSTD, (const char *)small, sizeof small, 1000, NULL, &body, &bytes),
        RESULT_OK);
    assert_int_equal(bytes, 0);
    free(body);
}
#endif

static void a_cancelled_request_is_not_unpacked(void **state)
{
    (void)state;
    atomic_bool cancelled = true;
    char *body;
    size_t bytes;
    struct bytes packed = gzip("text", 4);
    assert_int_equal(
        body_coding_unpack(BODY_GZIP, packed.at, packed.count, 1000, &cancelled, &body, &bytes),
        RESULT_CANCELLED);
    free(packed.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_codings),
        cmocka_unit_test(bodies_are_unpacked_up_to_the_limit),
        cmocka_unit_test(broken_bodies_are_refused),
        cmocka_unit_test(a_bomb_ends_at_the_limit),
#ifdef HAS_ZSTD
        cmocka_unit_test(a_large_window_is_refused),
#endif
        cmocka_unit_test(a_cancelled_request_is_not_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
