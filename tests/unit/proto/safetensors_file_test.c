/*
 * Valid files are read correctly; every broken one is rejected with the tensor and the reason, and
 * a file that is cut off anywhere is rejected.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/safetensors_file.h"

/* Header and data as one file, in memory of its exact size, so that a sanitizer sees every step
 * too far. `length` SIZE_MAX: the header's own. */
static enum result open_file(const char *header, size_t header_bytes, uint64_t length,
                             size_t data_bytes, uint8_t **bytes, struct safetensors_file **file,
                             struct error_text *error)
{
    *bytes = malloc(8 + header_bytes + data_bytes);
    assert_non_null(*bytes);
    length = length == UINT64_MAX ? header_bytes : length;
    for (unsigned i = 0; i < 8; i++)
        (*bytes)[i] = (uint8_t)(length >> (8 * i));
    memcpy(*bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        (*bytes)[8 + header_bytes + i] = (uint8_t)i;
    return safetensors_file_open(*bytes, 8 + header_bytes + data_bytes, file, error);
}

static void test_tensors(void **state)
{
    (void)state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
        "\"a\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\"},"
        "\"n\\u00e4me\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1,1,1,1,2],\"data_offsets\":[16,32]},"
        "\"none\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[32,32]}}  ";
    struct safetensors_file *file = NULL;
    struct error_text error = {""};
    uint8_t *bytes;
    if (open_file(header, strlen(header), UINT64_MAX, 32, &bytes, &file, &error) != RESULT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(safetensors_file_tensor_count(file), 4);
    assert_int_equal(safetensors_file_header_bytes(file), 8 + strlen(header));
    const struct safetensors_tensor *a = safetensors_file_find_tensor(file, "a");
    assert_ptr_equal(a, safetensors_file_tensor(file, 0));
    assert_int_equal(a->type, SAFETENSORS_F32);
    assert_int_equal(a->dimension_count, 0);
    assert_int_equal(a->data_bytes, 4);
    assert_int_equal(a->data[0], 0);
    const struct safetensors_tensor *b = safetensors_file_find_tensor(file, "b.weight");
    assert_int_equal(b->type, SAFETENSORS_BF16);
    assert_int_equal(b->dimension_count, 2);
    assert_int_equal(b->dimensions[0], 2);
    assert_int_equal(b->dimensions[1], 3);
    assert_int_equal(b->data[0], 4);
    assert_int_equal(safetensors_file_find_tensor(file, "n\xC3\xA4me")->dimensions[7], 2);
    assert_int_equal(safetensors_file_find_tensor(file, "none")->data_bytes, 0);
    assert_null(safetensors_file_find_tensor(file, "b"));
    assert_null(safetensors_file_find_tensor(file, ""));
    assert_null(safetensors_file_find_tensor(file, "__metadata__"));
    assert_string_equal(safetensors_type_name(SAFETENSORS_F8_E4M3), "F8_E4M3");
    assert_string_equal(safetensors_type_name(SAFETENSORS_TYPE_COUNT), "?");
    safetensors_file_close(file);
    free(bytes);
}

/* More tensors than the table first has room for. */
static void test_many_tensors(void **state)
{
    (void)state;
    char header[20000];
    size_t at = 0;
    for (uint32_t i = 0; i < 130; i++)
        at += (size_t)snprintf(header + at, sizeof header - at,
                               "%c\"%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                               i == 0 ? '{' : ',', i, i, i + 1);
    header[at++] = '}';
    struct safetensors_file *file = NULL;
    uint8_t *bytes;
    assert_int_equal(open_file(header, at, UINT64_MAX, 130, &bytes, &file, NULL), RESULT_OK);
    assert_int_equal(safetensors_file_tensor_count(file), 130);
    for (uint32_t i = 0; i < 130; i++) {
        char name[8];
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(safetensors_file_find_tensor(file, name)->data[0], i);
    }
    safetensors_file_close(file);
    free(bytes);
}

/* A tensor without data may be where another begins, listed before or after it. */
static void test_empty_tensors(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
        "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct safetensors_file *file = NULL;
        uint8_t *bytes;
        assert_int_equal(
            open_file(headers[i], strlen(headers[i]), UINT64_MAX, 4, &bytes, &file, NULL),
            RESULT_OK);
        assert_int_equal(safetensors_file_find_tensor(file, "a")->data_bytes, 4);
        safetensors_file_close(file);
        free(bytes);
    }
}

#define T(name, rest) "\"" name "\":{" rest "}"
#define A             T("a", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]")
#define TYPE(type)    "{" T("a", "\"dtype\":" type ",\"shape\":[1],\"data_offsets\":[0,4]") "}"
#define SHAPE(shape)  "{" T("a", "\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[0,4]") "}"
#define PLACE(place)  "{" T("a", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" place) "}"

struct broken {
    const char *header;
    size_t data_bytes;
    enum result result;
    const char *words;
};

static const struct broken broken[] = {
    /* the header as JSON */
    {"", 4, RESULT_CORRUPT, "no JSON object"},
    {" ", 4, RESULT_CORRUPT, "no JSON object"},
    {"[]", 4, RESULT_CORRUPT, "no JSON object"},
    {"null", 4, RESULT_CORRUPT, "no JSON object"},
    {"{", 4, RESULT_CORRUPT, "no JSON object"},
    {"{]", 4, RESULT_CORRUPT, "no JSON object"},
    {"{,}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{a:1}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{\"a\"}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{" A, 4, RESULT_CORRUPT, "malformed behind tensor a"},
    {"{" A ",", 4, RESULT_CORRUPT, "malformed behind tensor a"},
    {"{" A ",}", 4, RESULT_CORRUPT, "malformed behind tensor a"},
    {"{" A " \"b\":1}", 4, RESULT_CORRUPT, "malformed behind tensor a"},
    {"{" A "}{}", 4, RESULT_CORRUPT, "follows"},
    {"{" A "}\x01", 4, RESULT_CORRUPT, "follows"},
    {"{}", 0, RESULT_INVALID, "no tensors"},
    {"{\"__metadata__\":{}}", 0, RESULT_INVALID, "no tensors"},
    {"{\"__metadata__\":[]," A "}", 4, RESULT_CORRUPT, "__metadata__"},
    {"{\"__metadata__\":\"x\"," A "}", 4, RESULT_CORRUPT, "__metadata__"},
    {"{\"__metadata__\":{},\"__metadata__\":{}," A "}", 4, RESULT_CORRUPT, "__metadata__"},
    {"{\"__metadata__\":{\"a\":[}}," A "}", 4, RESULT_CORRUPT, "__metadata__"},
    /* names */
    {"{" T("", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]") "}", 4, RESULT_CORRUPT,
     "tensor 0 has an empty name"},
    {"{" T("a\\u0000", "") "}", 4, RESULT_CORRUPT, "control character"},
    {"{" T("a\\n", "") "}", 4, RESULT_CORRUPT, "control character"},
    {"{" T("\\u001b[2J", "") "}", 4, RESULT_CORRUPT, "control character"},
    {"{" T("\x7f", "") "}", 4, RESULT_CORRUPT, "control character"},
    {"{" T("\\u001f", "") "}", 4, RESULT_CORRUPT, "control character"},
    {"{" T(" ", "") "}", 4, RESULT_CORRUPT, "tensor  : no dtype"},
    {"{" T("\xff", "") "}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{" T("\xc0\x80", "") "}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{" T("\\ud800", "") "}", 4, RESULT_CORRUPT, "no JSON object"},
    {"{" A "," A "}", 4, RESULT_CORRUPT, "overlap"},
    {"{" A "," T("a", "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]") "}", 8,
     RESULT_CORRUPT, "tensor a occurs twice"},
    /* entries */
    {"{\"a\":1}", 4, RESULT_CORRUPT, "tensor a: malformed entry"},
    {"{\"a\":[]}", 4, RESULT_CORRUPT, "tensor a: malformed entry"},
    {"{\"a\":\"F32\"}", 4, RESULT_CORRUPT, "tensor a: malformed entry"},
    {"{\"a\":null}", 4, RESULT_CORRUPT, "tensor a: malformed entry"},
    {"{" T("a", "") "}", 4, RESULT_CORRUPT, "tensor a: no dtype"},
    {"{" T("a", "\"dtype\":\"F32\"") "}", 4, RESULT_CORRUPT, "tensor a: no shape"},
    {"{" T("a", "\"dtype\":\"F32\",\"shape\":[1]") "}", 4, RESULT_CORRUPT, "no data_offsets"},
    {"{" T("a", "\"shape\":[1],\"data_offsets\":[0,4]") "}", 4, RESULT_CORRUPT, "no dtype"},
    {"{" T("a", "\"stride\":[1]") "}", 4, RESULT_UNSUPPORTED, "unknown member \"stride\""},
    {"{" T("a", "\"\\u001b\":[1]") "}", 4, RESULT_UNSUPPORTED, "unknown member \"?\""},
    {"{" T("a", "\"dtype\":\"F32\",\"dtype\":\"F32\"") "}", 4, RESULT_CORRUPT, "malformed dtype"},
    {"{" T("a", "\"shape\":[1],\"shape\":[1]") "}", 4, RESULT_CORRUPT, "malformed shape"},
    {"{" T("a", "\"data_offsets\":[0,4],\"data_offsets\":[0,4]") "}", 4, RESULT_CORRUPT,
     "malformed data_offsets"},
    /* types */
    {TYPE("\"F33\""), 4, RESULT_UNSUPPORTED, "dtype \"F33\""},
    {TYPE("\"f32\""), 4, RESULT_UNSUPPORTED, "dtype \"f32\""},
    {TYPE("\"\""), 4, RESULT_UNSUPPORTED, "dtype \"\""},
    {TYPE("\"F4\""), 4, RESULT_UNSUPPORTED, "dtype \"F4\""},
    {TYPE("\"F6_E2M3\""), 4, RESULT_UNSUPPORTED, "dtype"},
    {TYPE("\"\\u0007\""), 4, RESULT_UNSUPPORTED, "dtype \"?\""},
    {TYPE("\" ~\\u001f\\u007f\""), 4, RESULT_UNSUPPORTED, "dtype \" ~??\""},
    {TYPE("\"BOOL\""), 4, RESULT_CORRUPT, "4 bytes of data, but its shape says 1"},
    {TYPE("0"), 4, RESULT_CORRUPT, "malformed dtype"},
    {TYPE("null"), 4, RESULT_CORRUPT, "malformed dtype"},
    {TYPE("[\"F32\"]"), 4, RESULT_CORRUPT, "malformed dtype"},
    {TYPE("\"F64\""), 4, RESULT_CORRUPT, "4 bytes of data, but its shape says 8"},
    {TYPE("\"U8\""), 4, RESULT_CORRUPT, "4 bytes of data, but its shape says 1"},
    /* shapes */
    {SHAPE("1"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("null"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[-1]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[1.0]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[1e0]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[01]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[\"1\"]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[[1]]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[1,]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[18446744073709551616]"), 4, RESULT_CORRUPT, "malformed shape"},
    {SHAPE("[1,1,1,1,1,1,1,1,1]"), 4, RESULT_TOO_LARGE, "more than 8 dimensions"},
    {SHAPE("[18446744073709551615]"), 4, RESULT_TOO_LARGE, "overflow"},
    {SHAPE("[4611686018427387904]"), 4, RESULT_TOO_LARGE, "overflow"},
    {SHAPE("[2305843009213693952]"), 4, RESULT_TOO_LARGE, "overflow"},
    {SHAPE("[4294967296,4294967296]"), 4, RESULT_TOO_LARGE, "overflow"},
    {"{" T("a", "\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,4]") "}", 4,
     RESULT_CORRUPT, "but its shape says 9223372036854775807"},
    {SHAPE("[4294967296,0,4294967296]"), 4, RESULT_CORRUPT, "but its shape says 0"},
    {SHAPE("[2]"), 4, RESULT_CORRUPT, "4 bytes of data, but its shape says 8"},
    {SHAPE("[0]"), 4, RESULT_CORRUPT, "4 bytes of data, but its shape says 0"},
    /* places */
    {PLACE("0"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[]"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[4]"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[0,4,8]"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[-4,0]"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[0.5,4]"), 4, RESULT_CORRUPT, "malformed data_offsets"},
    {PLACE("[4,0]"), 4, RESULT_CORRUPT, "ends before it begins"},
    {PLACE("[0,8]"), 4, RESULT_CORRUPT, "ends at 8, past the 4 bytes"},
    {PLACE("[4,8]"), 4, RESULT_CORRUPT, "ends at 8, past the 4 bytes"},
    {PLACE("[18446744073709551612,18446744073709551615]"), 4, RESULT_CORRUPT, "past the 4 bytes"},
    {PLACE("[0,3]"), 4, RESULT_CORRUPT, "3 bytes of data, but its shape says 4"},
    {PLACE("[1,4]"), 4, RESULT_CORRUPT, "3 bytes of data, but its shape says 4"},
    {PLACE("[4,8]"), 8, RESULT_CORRUPT, "4 bytes before tensor a belong to no tensor"},
    {PLACE("[0,4]"), 5, RESULT_CORRUPT, "the last 1 bytes are no tensor's"},
    {"{" A "," T("b", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]") "}", 6,
     RESULT_CORRUPT, "tensors a and b overlap"},
    {"{" A "," T("b", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]") "}", 4,
     RESULT_CORRUPT, "tensors a and b overlap"},
    {"{" A "," T("b", "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]") "}", 6,
     RESULT_CORRUPT, "1 bytes before tensor b"},
    {"{" A "," T("b", "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]") "}", 4,
     RESULT_CORRUPT, "overlap"},
};

static void refuse(const char *header, size_t header_bytes, uint64_t length, size_t data_bytes,
                   enum result result, const char *words)
{
    struct safetensors_file *file = NULL;
    struct error_text error = {""};
    uint8_t *bytes;
    enum result opened = open_file(header, header_bytes, length, data_bytes, &bytes, &file, &error);
    if (opened != result || !strstr(error.text, words))
        fail_msg("%.80s: %s \"%s\", not %s with \"%s\"", header, result_name(opened), error.text,
                 result_name(result), words);
    assert_null(file);
    free(bytes);
}

static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        refuse(broken[i].header, strlen(broken[i].header), UINT64_MAX, broken[i].data_bytes,
               broken[i].result, broken[i].words);
}

static void test_lengths(void **state)
{
    (void)state;
    static const char header[] = "{" A "}";
    size_t bytes = strlen(header);
    refuse(header, bytes, 0, 4, RESULT_CORRUPT, "no JSON object");
    refuse(header, bytes, bytes - 1, 4, RESULT_CORRUPT, "malformed behind tensor a");
    refuse(header, bytes, bytes + 5, 4, RESULT_CORRUPT, "in a file of");
    refuse(header, bytes, 100000000, 4, RESULT_CORRUPT, "in a file of");
    refuse(header, bytes, 100000001, 4, RESULT_TOO_LARGE, "not a safetensors file");
    refuse("", 0, 0, 0, RESULT_CORRUPT, "no JSON object");
    refuse(header, bytes + 1, bytes + 1, 4, RESULT_CORRUPT, "follows"); /* a zero byte */
    refuse(header, bytes, UINT64_MAX - 1, 4, RESULT_TOO_LARGE, "not a safetensors file");
    refuse(header, bytes, UINT64_MAX - 8, 4, RESULT_TOO_LARGE, "not a safetensors file");
    /* types and members of 63 bytes, and of 64 */
    char word[64];
    memset(word, 'w', sizeof word);
    char short_header[200];
    for (int length = 63; length <= 64; length++) {
        bool fits = length == 63;
        enum result result = fits ? RESULT_UNSUPPORTED : RESULT_CORRUPT;
        snprintf(short_header, sizeof short_header, "{\"a\":{\"dtype\":\"%.*s\"}}", length, word);
        refuse(short_header, strlen(short_header), UINT64_MAX, 4, result,
               fits ? "is not known" : "malformed dtype");
        snprintf(short_header, sizeof short_header, "{\"a\":{\"%.*s\":1}}", length, word);
        refuse(short_header, strlen(short_header), UINT64_MAX, 4, result,
               fits ? "unknown member" : "malformed entry");
    }
    /* a tensor's name of 257 bytes, and one of 256 */
    char name[300], long_header[600];
    memset(name, 'n', sizeof name);
    int length =
        snprintf(long_header, sizeof long_header,
                 "{\"%.257s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    refuse(long_header, (size_t)length, UINT64_MAX, 1, RESULT_CORRUPT, "no JSON object");
    length = snprintf(long_header, sizeof long_header,
                      "{\"%.256s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    refuse(long_header, (size_t)length, UINT64_MAX, 2, RESULT_CORRUPT, "the last 1 bytes");
}

/* Arrays in arrays, without end: the reader does not recurse into what it skips. */
static void test_depth(void **state)
{
    (void)state;
    static char header[20000];
    size_t at = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"a\":");
    memset(header + at, '[', sizeof header - at - 1);
    refuse(header, strlen(header), UINT64_MAX, 4, RESULT_CORRUPT, "__metadata__");
}

static void test_cut_short(void **state)
{
    (void)state;
    static const char header[] =
        "{" A "," T("b", "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]") "}";
    uint8_t whole[8 + sizeof header - 1 + 8] = {sizeof header - 1};
    memcpy(whole + 8, header, sizeof header - 1);
    for (size_t count = 0; count <= sizeof whole; count++) {
        struct safetensors_file *file = NULL;
        struct error_text error = {""};
        uint8_t *copy = malloc(count + 1);
        memcpy(copy, whole, count);
        enum result result = safetensors_file_open(copy, count, &file, &error);
        assert_int_equal(result == RESULT_OK, count == sizeof whole);
        assert_true(result == RESULT_OK || error.text[0] != '\0');
        safetensors_file_close(file);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_tensors), cmocka_unit_test(test_empty_tensors),
        cmocka_unit_test(test_tensors),      cmocka_unit_test(test_broken),
        cmocka_unit_test(test_lengths),      cmocka_unit_test(test_depth),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
