/*
 * What data URIs and base64 become, and what is refused of them. Expected bytes are Python's
 * (base64.b64encode) or written out by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/base/base64.h"
#include "frontend/image/data_uri.h"

#define MOST 1000u

static void expect(const char *uri, const char *bytes, size_t count)
{
    struct file_bytes file;
    struct error_text error;
    assert_int_equal(data_uri_read(uri, MOST, &file, &error), RESULT_OK);
    assert_int_equal(file.count, count);
    assert_memory_equal(file.bytes, bytes, count);
    file_bytes_fini(&file);
}

static void refuse(const char *uri, enum result as)
{
    struct file_bytes file;
    struct error_text error = {""};
    assert_int_equal(data_uri_read(uri, MOST, &file, &error), as);
    assert_null(file.bytes);
    assert_true(error.text[0] != '\0');
}

static void base64_and_escapes_are_read(void **state)
{
    (void)state;
    expect("data:image/png;base64,iVBORw==", "\x89PNG", 4);
    expect("data:;base64,iVBORw0=", "\x89PNG\r", 5);
    expect("data:;base64,iVBORw0K", "\x89PNG\r\n", 6);
    expect("data:text/plain;base64,iVBORw", "\x89PNG", 4); /* the type is not looked at */
    expect("DATA:image/jpeg;x=\"y\";BASE64,+/+/", "\xfb\xff\xbf", 3);
    expect("data:;base64,iVBO\r\nRw%3D%3d", "\x89PNG", 4);
    expect("data:image/gif,GIF%38%39a", "GIF89a", 6);
    expect("data:,%00%ff,a", "\0\xff,a", 4);
    expect("data:;base64x,YQ==", "YQ==", 4);
}

static void every_byte_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[256];
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    for (size_t count = 1; count <= 256; count++) {
        struct text_buffer text = {0};
        struct file_bytes file;
        struct error_text error;
        base64_append(bytes, count, &text);
        assert_int_equal(data_uri_read_base64(text.bytes, MOST, &file, &error), RESULT_OK);
        assert_int_equal(file.count, count);
        assert_memory_equal(file.bytes, bytes, count);
        file_bytes_fini(&file);
        text_buffer_fini(&text);
    }
}

static void base64_is_written(void **state)
{
    (void)state;
    static const char *const rows[] = {"", "iQ==", "iVA=", "iVBO", "iVBORw=="};
    for (size_t count = 0; count < 5; count++) {
        struct text_buffer text = {0};
        base64_append((const uint8_t *)"\x89PNG", count, &text);
        assert_string_equal(text.bytes ? text.bytes : "", rows[count]);
        text_buffer_fini(&text);
    }
}

static void broken_ones_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "data:",
        "data:image/png;base64",
        "data:image/png;base64,",
        "data:image/png;base64,====",
        "data:;base64,iVBORw=",
        "data:;base64,iVBORw===",
        "data:;base64,iVBO=Rw=",
        "data:;base64,iVBORw==iVBO",
        "data:;base64,iVBOR",
        "data:;base64,iVBORx==", /* bits behind the last byte */
        "data:;base64,iV-_",
        "data:;base64,iV\xc3\xa9w",
        "data:;base64,iVB%4",
        "data:;base64,iVBO%3D",
        "data:,%",
        "data:,%4",
        "data:,%zz",
        "data:,",
        "http://example.com/",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        refuse(texts[i], RESULT_INVALID);
    char head[400];
    memset(head, 'a', sizeof head);
    memcpy(head, "data:", 5);
    strcpy(head + 300, ";base64,iVBO");
    refuse(head, RESULT_INVALID);
}

static void size_is_bounded(void **state)
{
    (void)state;
    struct file_bytes file;
    struct error_text error;
    for (size_t count = MOST; count <= 64 * MOST; count += 21 * MOST) {
        char *uri = malloc(6 + count + 1);
        assert_non_null(uri);
        memcpy(uri, "data:,", 6);
        memset(uri + 6, 'x', count);
        uri[6 + count] = '\0';
        assert_int_equal(data_uri_read(uri, MOST, &file, &error),
                         count == MOST ? RESULT_OK : RESULT_TOO_LARGE);
        file_bytes_fini(&file);
        assert_int_equal(data_uri_read(uri, count - 1, &file, &error), RESULT_TOO_LARGE);
        free(uri);
    }
}

static void paths_are_unescaped(void **state)
{
    (void)state;
    char *path = data_uri_unescape("/a%20b/%C3%A9.png");
    assert_string_equal(path, "/a b/\xc3\xa9.png");
    free(path);
    assert_null(data_uri_unescape("/a%00b"));
    assert_null(data_uri_unescape("/a%2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_and_escapes_are_read), cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(broken_ones_are_refused),     cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(paths_are_unescaped),         cmocka_unit_test(base64_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
