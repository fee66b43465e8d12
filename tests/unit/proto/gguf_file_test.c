/*
 * gguf_file: the contents of a well-formed file, and every way in which a file is rejected. Each
 * rejection starts from a file that opens, so that only the planted fault can be the reason; result
 * and error text are both checked.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/gguf_file.h"
#include "tests/support/gguf_builder.h"

static struct gguf_builder builder;

#define DEFAULT_ALIGNMENT 32
#define DIMENSIONS(...)                                                                            \
    (const uint64_t[])                                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Opens a copy whose size is exact, so that a sanitizer sees a read one byte past the end. */
static enum result open_exact(const uint8_t *bytes, size_t byte_count, struct gguf_file **file,
                              uint8_t **copy, struct error_text *error)
{
    *copy = malloc(byte_count ? byte_count : 1);
    assert_non_null(*copy);
    memcpy(*copy, bytes, byte_count);
    return gguf_file_open(*copy, byte_count, file, error);
}

static void assert_refused(enum result expected, const char *words)
{
    struct gguf_file *file = NULL;
    struct error_text error = {""};
    uint8_t *copy;
    enum result result = open_exact(builder.bytes, builder.byte_count, &file, &copy, &error);
    if (result != expected || !strstr(error.text, words))
        print_error("got %s: %s\n", result_name(result), error.text);
    assert_int_equal(result, expected);
    assert_non_null(strstr(error.text, words));
    assert_null(file);
    free(copy);
}

static void assert_opens(void)
{
    struct gguf_file *file;
    struct error_text error = {""};
    uint8_t *copy;
    if (open_exact(builder.bytes, builder.byte_count, &file, &copy, &error) != RESULT_OK)
        fail_msg("refused: %s", error.text);
    gguf_file_close(file);
    free(copy);
}

/* Two tensors (F32 [4, 2] and Q8_0 [32]) and one key of each kind. */
static void build_good(void)
{
    gguf_builder_init(&builder, 2, 8);
    gguf_builder_add_key_string(&builder, "general.architecture", "llama");
    gguf_builder_add_key_u32(&builder, "count", 7);
    gguf_builder_add_key_f32(&builder, "scale", 0.5f);
    gguf_builder_add_key(&builder, "flag", GGUF_BOOL);
    gguf_builder_add_u8(&builder, 1);
    gguf_builder_add_key(&builder, "negative", GGUF_INT8);
    gguf_builder_add_u8(&builder, 0xfe);
    gguf_builder_add_key(&builder, "huge", GGUF_UINT64);
    gguf_builder_add_u64(&builder, UINT64_MAX);
    gguf_builder_add_key_array(&builder, "numbers", GGUF_INT32, 3);
    gguf_builder_add_u32(&builder, 1);
    gguf_builder_add_u32(&builder, (uint32_t)-5);
    gguf_builder_add_u32(&builder, 9);
    gguf_builder_add_key_array(&builder, "words", GGUF_STRING, 3);
    gguf_builder_add_string(&builder, "one");
    gguf_builder_add_string(&builder, "");
    gguf_builder_add_string(&builder, "three");
    gguf_builder_add_tensor(&builder, "weight", 2, DIMENSIONS(4, 2), GGML_F32, 0);
    gguf_builder_add_tensor(&builder, "quantized", 1, DIMENSIONS(32), GGML_Q8_0, 32);
    gguf_builder_add_data(&builder, 32, 32 + 34);
}

/* One tensor of the given shape, type and offset over `data_bytes` bytes of data. */
static void build_tensor(uint32_t dimension_count, const uint64_t *dimensions, uint32_t type,
                         uint64_t offset, size_t data_bytes)
{
    gguf_builder_init(&builder, 1, 0);
    gguf_builder_add_tensor(&builder, "t", dimension_count, dimensions, type, offset);
    gguf_builder_add_data(&builder, 32, data_bytes);
}

static void gives_back_tensors_by_index_and_name(void **state)
{
    (void)state;
    struct gguf_file *file;
    struct error_text error;
    build_good();
    assert_int_equal(gguf_file_open(builder.bytes, builder.byte_count, &file, &error), RESULT_OK);
    assert_int_equal(gguf_file_tensor_count(file), 2);
    const struct gguf_tensor *weight = gguf_file_tensor(file, 0);
    assert_int_equal(weight->name.length, 6);
    assert_memory_equal(weight->name.bytes, "weight", 6);
    assert_int_equal(weight->type, GGML_F32);
    assert_int_equal(weight->dimension_count, 2);
    assert_int_equal(weight->dimensions[0], 4);
    assert_int_equal(weight->dimensions[1], 2);
    assert_int_equal(weight->dimensions[2], 1);
    assert_int_equal(weight->dimensions[3], 1);
    assert_int_equal(weight->data_bytes, 32);
    assert_ptr_equal(weight->data, builder.bytes + builder.byte_count - 66);
    const struct gguf_tensor *quantized = gguf_file_find_tensor(file, "quantized");
    assert_ptr_equal(quantized, gguf_file_tensor(file, 1));
    assert_int_equal(quantized->data_bytes, 34);
    assert_ptr_equal(quantized->data, weight->data + 32);
    assert_ptr_equal(gguf_file_find_tensor(file, "weight"), weight);
    assert_null(gguf_file_find_tensor(file, "weigh"));
    assert_null(gguf_file_find_tensor(file, ""));
    gguf_file_close(file);
}

static void gives_back_scalars_where_they_fit(void **state)
{
    (void)state;
    struct gguf_file *file;
    struct error_text error;
    uint32_t number = 99;
    float real = 9.0f;
    bool flag = false;
    struct gguf_string string = {NULL, 0};
    build_good();
    assert_int_equal(gguf_file_open(builder.bytes, builder.byte_count, &file, &error), RESULT_OK);
    assert_int_equal(gguf_file_u32(file, "absent", &number), RESULT_NOT_FOUND);
    assert_int_equal(gguf_file_u32(file, "negative", &number), RESULT_INVALID);
    assert_int_equal(gguf_file_u32(file, "huge", &number), RESULT_INVALID);
    assert_int_equal(gguf_file_u32(file, "scale", &number), RESULT_INVALID);
    assert_int_equal(gguf_file_u32(file, "numbers", &number), RESULT_INVALID);
    assert_int_equal(number, 99);
    assert_int_equal(gguf_file_u32(file, "count", &number), RESULT_OK);
    assert_int_equal(number, 7);
    assert_int_equal(gguf_file_f32(file, "count", &real), RESULT_INVALID);
    assert_int_equal(gguf_file_f32(file, "scale", &real), RESULT_OK);
    assert_float_equal(real, 0.5f, 0);
    assert_int_equal(gguf_file_bool(file, "count", &flag), RESULT_INVALID);
    assert_int_equal(gguf_file_bool(file, "flag", &flag), RESULT_OK);
    assert_true(flag);
    assert_int_equal(gguf_file_string(file, "words", &string), RESULT_INVALID);
    assert_int_equal(gguf_file_string(file, "general.architecture", &string), RESULT_OK);
    assert_int_equal(string.length, 5);
    assert_memory_equal(string.bytes, "llama", 5);
    gguf_file_close(file);
}

static void gives_back_arrays(void **state)
{
    (void)state;
    static const char *const words[] = {"one", "", "three"};
    struct gguf_file *file;
    struct error_text error;
    struct gguf_array array;
    struct gguf_string string;
    build_good();
    assert_int_equal(gguf_file_open(builder.bytes, builder.byte_count, &file, &error), RESULT_OK);
    assert_int_equal(gguf_file_array(file, "absent", &array), RESULT_NOT_FOUND);
    assert_int_equal(gguf_file_array(file, "count", &array), RESULT_INVALID);
    assert_int_equal(gguf_file_array(file, "numbers", &array), RESULT_OK);
    assert_int_equal(array.count, 3);
    assert_int_equal(gguf_array_i64(&array, 1), -5);
    assert_float_equal(gguf_array_f64(&array, 2), 9.0, 0);
    assert_int_equal(gguf_file_array(file, "words", &array), RESULT_OK);
    const uint8_t *cursor = array.first;
    for (size_t i = 0; i < 3; i++) {
        assert_true(gguf_array_next_string(&array, &cursor, &string));
        assert_int_equal(string.length, strlen(words[i]));
        assert_memory_equal(string.bytes, words[i], string.length);
    }
    assert_false(gguf_array_next_string(&array, &cursor, &string));
    gguf_file_close(file);
}

static void knows_the_block_of_every_type(void **state)
{
    (void)state;
    assert_int_equal(ggml_type_block(GGML_F32).elements, 1);
    assert_int_equal(ggml_type_block(GGML_F32).bytes, 4);
    assert_int_equal(ggml_type_block((enum ggml_type)4).bytes, 0);
    assert_int_equal(ggml_type_stored_block((enum ggml_type)4).elements, 0);
    assert_int_equal(ggml_type_stored_block((enum ggml_type)4).bytes, 0);
    assert_int_equal(ggml_type_block(GGML_Q4_0).elements, 32);
    assert_int_equal(ggml_type_block(GGML_Q4_0).bytes, 18);
    assert_int_equal(ggml_type_block(GGML_Q4_1).elements, 32);
    assert_int_equal(ggml_type_block(GGML_Q4_1).bytes, 20);
    assert_int_equal(ggml_type_block(GGML_Q6_K).elements, 256);
    assert_int_equal(ggml_type_block(GGML_Q6_K).bytes, 210);
    assert_int_equal(ggml_type_block((enum ggml_type)4).elements, 0);
    assert_string_equal(ggml_type_name(GGML_BF16), "BF16");
    assert_string_equal(ggml_type_name((enum ggml_type)99), "?");
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    build_good();
    for (size_t cut = 0; cut < builder.byte_count; cut++) {
        struct gguf_file *file;
        struct error_text error = {""};
        uint8_t *copy;
        enum result result = open_exact(builder.bytes, cut, &file, &copy, &error);
        if (result == RESULT_OK)
            fail_msg("opened when cut to %zu of %zu bytes", cut, builder.byte_count);
        assert_true(error.text[0] != '\0');
        free(copy);
    }
    assert_opens();
}

static void survives_every_single_byte_change(void **state)
{
    (void)state;
    static const uint8_t patterns[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    build_good();
    for (size_t at = 0; at < builder.byte_count; at++)
        for (size_t i = 0; i < sizeof patterns; i++) {
            struct gguf_file *file;
            struct error_text error;
            uint8_t *copy;
            uint8_t kept = builder.bytes[at];
            builder.bytes[at] = patterns[i];
            if (open_exact(builder.bytes, builder.byte_count, &file, &copy, &error) == RESULT_OK)
                gguf_file_close(file);
            free(copy);
            builder.bytes[at] = kept;
        }
}

static void refuses_a_wrong_head(void **state)
{
    (void)state;
    build_good();
    builder.bytes[0] = 'g';
    assert_refused(RESULT_INVALID, "not a GGUF file");
    build_good();
    builder.bytes[4] = 1;
    assert_refused(RESULT_UNSUPPORTED, "version 1");
    builder.bytes[4] = 4;
    assert_refused(RESULT_UNSUPPORTED, "version 4");
    builder.bytes[4] = 0;
    assert_refused(RESULT_UNSUPPORTED, "version 0");
    memcpy(builder.bytes + 4, "\0\0\0\3", 4);
    assert_refused(RESULT_UNSUPPORTED, "big-endian");
    builder.bytes[4] = 2;
    builder.bytes[7] = 0;
    assert_opens();
}

static void refuses_absurd_counts(void **state)
{
    (void)state;
    gguf_builder_init(&builder, UINT64_MAX, 0);
    assert_refused(RESULT_TOO_LARGE, "tensors, over");
    gguf_builder_init(&builder, 0, UINT64_MAX);
    assert_refused(RESULT_TOO_LARGE, "metadata keys, over");
    gguf_builder_init(&builder, LIMIT_GGUF_TENSORS, 0);
    assert_refused(RESULT_CORRUPT, "do not fit");
    gguf_builder_init(&builder, 0, 0);
    assert_opens();
}

static void refuses_bad_names(void **state)
{
    (void)state;
    char long_name[LIMIT_GGUF_NAME_BYTES + 2];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';

    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_u32(&builder, long_name, 1);
    assert_refused(RESULT_TOO_LARGE, "has 257 bytes, over 256");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_u32(&builder, "line\nfeed", 1);
    assert_refused(RESULT_CORRUPT, "control character");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_u32(&builder, "", 1);
    gguf_builder_add_u64(&builder, 0);
    assert_refused(RESULT_CORRUPT, "empty name");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_u64(&builder, UINT64_MAX - 3);
    gguf_builder_add_u64(&builder, 0);
    assert_refused(RESULT_CORRUPT, "inside the name");
    gguf_builder_init(&builder, 0, 2);
    gguf_builder_add_key_u32(&builder, "same", 1);
    gguf_builder_add_key_u32(&builder, "same", 1);
    assert_refused(RESULT_CORRUPT, "key same occurs twice");
    gguf_builder_init(&builder, 2, 0);
    gguf_builder_add_tensor(&builder, "same", 1, DIMENSIONS(8), GGML_F32, 0);
    gguf_builder_add_tensor(&builder, "same", 1, DIMENSIONS(8), GGML_F32, 32);
    gguf_builder_add_data(&builder, 32, 64);
    assert_refused(RESULT_CORRUPT, "tensor same occurs twice");
}

static void refuses_bad_values(void **state)
{
    (void)state;
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_u32(&builder, "k", 1);
    builder.bytes[24 + 9] = GGUF_VALUE_TYPE_COUNT;
    assert_refused(RESULT_UNSUPPORTED, "key k: value type 13");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key(&builder, "k", GGUF_BOOL);
    gguf_builder_add_u8(&builder, 2);
    assert_refused(RESULT_CORRUPT, "key k: a bool holds 2");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_array(&builder, "k", GGUF_ARRAY, 1);
    gguf_builder_add_u64(&builder, 0);
    assert_refused(RESULT_UNSUPPORTED, "array of arrays");
    /* Counts whose product with the element size wraps to something small. */
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_array(&builder, "k", GGUF_UINT32, 1ull << 62);
    gguf_builder_add_u64(&builder, 0);
    assert_refused(RESULT_CORRUPT, "do not fit");
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_array(&builder, "k", GGUF_STRING, 2);
    gguf_builder_add_string(&builder, "12345678");
    assert_refused(RESULT_CORRUPT, "string 1 runs past the end");
}

static void takes_names_and_counts_at_their_bounds(void **state)
{
    (void)state;
    char longest[LIMIT_GGUF_NAME_BYTES + 1];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    gguf_builder_init(&builder, 0, 3);
    gguf_builder_add_key_u32(&builder, longest, 1);
    gguf_builder_add_key_u32(&builder, " ~", 1);
    gguf_builder_add_key_u32(&builder, "~ ", 1);
    assert_opens();
    static const char *const bad[] = {"\nfeed", "feed\n", "\x1f", "a\x7f", "\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_builder_init(&builder, 0, 1);
        gguf_builder_add_key_u32(&builder, bad[i], 1);
        assert_refused(RESULT_CORRUPT, "control character");
    }
    gguf_builder_init(&builder, 0, LIMIT_GGUF_METADATA);
    assert_refused(RESULT_CORRUPT, "");
    gguf_builder_init(&builder, 0, LIMIT_GGUF_METADATA + 1);
    assert_refused(RESULT_TOO_LARGE, "metadata keys, over");
}

/* An array of each numeric type of two elements, and a key after it. */
static void every_numeric_type_has_its_size(void **state)
{
    (void)state;
    static const size_t sizes[GGUF_VALUE_TYPE_COUNT] = {
        [GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,  [GGUF_INT16] = 2,
        [GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
        [GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8};
    for (uint32_t type = 0; type < GGUF_VALUE_TYPE_COUNT; type++) {
        if (sizes[type] == 0)
            continue;
        gguf_builder_init(&builder, 0, 3);
        gguf_builder_add_key_array(&builder, "array", type, 2);
        for (size_t i = 0; i < 2 * sizes[type]; i++)
            gguf_builder_add_u8(&builder, i == sizes[type]);
        gguf_builder_add_key(&builder, "single", type);
        for (size_t i = 0; i < sizes[type]; i++)
            gguf_builder_add_u8(&builder, 0);
        gguf_builder_add_key_u32(&builder, "last", 8);
        struct gguf_file *file;
        struct error_text error = {""};
        uint8_t *copy;
        assert_int_equal(open_exact(builder.bytes, builder.byte_count, &file, &copy, &error),
                         RESULT_OK);
        struct gguf_array array;
        uint32_t last = 0;
        assert_int_equal(gguf_file_array(file, "array", &array), RESULT_OK);
        assert_int_equal(array.count, 2);
        assert_int_equal(array.end - array.first, 2 * sizes[type]);
        assert_int_equal(gguf_file_u32(file, "last", &last), RESULT_OK);
        assert_int_equal(last, 8);
        gguf_file_close(file);
        free(copy);
    }
}

/* Values at the ends of their types, and keys that are absent for each reader. */
static void scalars_at_the_ends_of_their_types(void **state)
{
    (void)state;
    struct gguf_file *file;
    struct error_text error;
    uint32_t number = 99;
    float real = 9.0f;
    bool flag = true;
    struct gguf_string text;
    gguf_builder_init(&builder, 0, 5);
    gguf_builder_add_key_u32(&builder, "most", UINT32_MAX);
    gguf_builder_add_key_u32(&builder, "none", 0);
    gguf_builder_add_key(&builder, "over", GGUF_UINT64);
    gguf_builder_add_u64(&builder, 1ull << 32);
    gguf_builder_add_key_f32(&builder, "largest", 0x1.fffffep127f);
    gguf_builder_add_key(&builder, "no", GGUF_BOOL);
    gguf_builder_add_u8(&builder, 0);
    assert_int_equal(gguf_file_open(builder.bytes, builder.byte_count, &file, &error), RESULT_OK);
    assert_int_equal(gguf_file_u32(file, "none", &number), RESULT_OK);
    assert_int_equal(number, 0);
    assert_int_equal(gguf_file_u32(file, "most", &number), RESULT_OK);
    assert_int_equal(number, UINT32_MAX);
    assert_int_equal(gguf_file_u32(file, "over", &number), RESULT_INVALID);
    assert_int_equal(gguf_file_f32(file, "largest", &real), RESULT_OK);
    assert_true(real == 0x1.fffffep127f);
    assert_int_equal(gguf_file_bool(file, "no", &flag), RESULT_OK);
    assert_false(flag);
    assert_int_equal(gguf_file_f32(file, "absent", &real), RESULT_NOT_FOUND);
    assert_int_equal(gguf_file_bool(file, "absent", &flag), RESULT_NOT_FOUND);
    assert_int_equal(gguf_file_string(file, "absent", &text), RESULT_NOT_FOUND);
    gguf_file_close(file);
}

static void alignments_at_the_bounds(void **state)
{
    (void)state;
    static const uint32_t good[] = {8, 16, LIMIT_GGUF_ALIGNMENT};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gguf_builder_init(&builder, 0, 1);
        gguf_builder_add_key_u32(&builder, "general.alignment", good[i]);
        assert_opens();
    }
    gguf_builder_init(&builder, 1, 1);
    gguf_builder_add_key_u32(&builder, "general.alignment", 8);
    gguf_builder_add_tensor(&builder, "t", 1, DIMENSIONS(4), GGML_F32, 0);
    gguf_builder_add_data(&builder, 8, 16);
    assert_opens();
    static const uint32_t bad[] = {7, 9, 12, LIMIT_GGUF_ALIGNMENT - 8, LIMIT_GGUF_ALIGNMENT + 1};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_builder_init(&builder, 0, 1);
        gguf_builder_add_key_u32(&builder, "general.alignment", bad[i]);
        assert_refused(RESULT_CORRUPT, "general.alignment is");
    }
}

static void refuses_bad_alignment(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 1, 4, 24, 33, LIMIT_GGUF_ALIGNMENT * 2, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_builder_init(&builder, 0, 1);
        gguf_builder_add_key_u32(&builder, "general.alignment", bad[i]);
        assert_refused(RESULT_CORRUPT, "general.alignment is");
    }
    gguf_builder_init(&builder, 0, 1);
    gguf_builder_add_key_string(&builder, "general.alignment", "32");
    assert_refused(RESULT_CORRUPT, "general.alignment is not a");
    gguf_builder_init(&builder, 1, 1);
    gguf_builder_add_key_u32(&builder, "general.alignment", 64);
    gguf_builder_add_tensor(&builder, "t", 1, DIMENSIONS(4), GGML_F32, 64);
    gguf_builder_add_data(&builder, 64, 80);
    assert_opens();
}

static void refuses_bad_shapes(void **state)
{
    (void)state;
    build_tensor(0, NULL, GGML_F32, 0, 64);
    assert_refused(RESULT_CORRUPT, "0 dimensions");
    build_tensor(5, DIMENSIONS(1, 1, 1, 1, 1), GGML_F32, 0, 64);
    assert_refused(RESULT_CORRUPT, "5 dimensions");
    build_tensor(2, DIMENSIONS(0, 4), GGML_F32, 0, 64);
    assert_refused(RESULT_CORRUPT, "dimension 0 is 0");
    build_tensor(2, DIMENSIONS(4, 0), GGML_F32, 0, 64);
    assert_refused(RESULT_CORRUPT, "dimension 1 is 0");
    build_tensor(2, DIMENSIONS(33, 1), GGML_Q4_0, 0, 64);
    assert_refused(RESULT_CORRUPT, "rows of 33 are not whole blocks of 32 (Q4_0)");
    build_tensor(1, DIMENSIONS(4), 4, 0, 64);
    assert_refused(RESULT_UNSUPPORTED, "type 4 has no reader");
    build_tensor(1, DIMENSIONS(4), UINT32_MAX, 0, 64);
    assert_refused(RESULT_UNSUPPORTED, "no reader");
    /* 2^32 x 2^32 floats are 2^66 bytes, which wrap to 0; in Q8_0 the bytes wrap though the blocks
     * do not. */
    build_tensor(2, DIMENSIONS(1ull << 32, 1ull << 32), GGML_F32, 0, 64);
    assert_refused(RESULT_TOO_LARGE, "overflow");
    build_tensor(4, DIMENSIONS(1u << 16, 1u << 16, 1u << 16, 1u << 16), GGML_Q2_K, 0, 64);
    assert_refused(RESULT_TOO_LARGE, "overflow");
    build_tensor(1, DIMENSIONS(1ull << 62), GGML_F32, 0, 64);
    assert_refused(RESULT_TOO_LARGE, "overflow");
    /* The bytes of 2^63 elements in Q2_K fit in 64 bits, but the elements exceed INT64_MAX. */
    build_tensor(1, DIMENSIONS(1ull << 63), GGML_Q2_K, 0, 64);
    assert_refused(RESULT_TOO_LARGE, "overflow");
    build_tensor(1, DIMENSIONS(INT64_MAX), GGML_F16, 0, 64);
    assert_refused(RESULT_CORRUPT, "pass the 64 bytes");
}

static void refuses_bad_places(void **state)
{
    (void)state;
    build_tensor(1, DIMENSIONS(16), GGML_F32, 0, 64);
    assert_opens();
    build_tensor(1, DIMENSIONS(16), GGML_F32, 0, 63);
    assert_refused(RESULT_CORRUPT, "64 bytes at 0 pass the 63 bytes of data");
    build_tensor(1, DIMENSIONS(16), GGML_F32, 0, 0);
    assert_refused(RESULT_CORRUPT, "64 bytes at 0 pass the 0 bytes of data");
    build_tensor(1, DIMENSIONS(16), GGML_F32, 32, 64);
    assert_refused(RESULT_CORRUPT, "pass the 64 bytes");
    build_tensor(1, DIMENSIONS(16), GGML_F32, 16, 96);
    assert_refused(RESULT_CORRUPT, "offset 16 is not aligned to 32");
    /* An offset whose sum with the size wraps. */
    build_tensor(1, DIMENSIONS(16), GGML_F32, UINT64_MAX - 31, 64);
    assert_refused(RESULT_CORRUPT, "pass the 64 bytes");
}

/* The data starts at the next multiple of the alignment, whatever the length of the table. */
static void data_starts_at_the_alignment(void **state)
{
    (void)state;
    char name[DEFAULT_ALIGNMENT + 1] = "";
    for (size_t length = 1; length <= DEFAULT_ALIGNMENT; length++) {
        name[length - 1] = 'n';
        gguf_builder_init(&builder, 1, 0);
        gguf_builder_add_tensor(&builder, name, 1, DIMENSIONS(16), GGML_F32, 0);
        gguf_builder_add_data(&builder, DEFAULT_ALIGNMENT, 64);
        struct gguf_file *file;
        uint8_t *copy;
        assert_int_equal(open_exact(builder.bytes, builder.byte_count, &file, &copy, NULL),
                         RESULT_OK);
        const struct gguf_tensor *tensor = gguf_file_find_tensor(file, name);
        assert_non_null(tensor);
        assert_ptr_equal(tensor->data, copy + builder.byte_count - 64);
        gguf_file_close(file);
        free(copy);
    }
}

/* Each name is the beginning of the next. */
static void names_that_begin_alike_are_told_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"n", "nn", "nnn", "nnnn"};
    gguf_builder_init(&builder, 4, 0);
    for (uint32_t i = 0; i < 4; i++)
        gguf_builder_add_tensor(&builder, names[i], 1, DIMENSIONS(8), GGML_F32, 32 * i);
    gguf_builder_add_data(&builder, 32, 128);
    struct gguf_file *file;
    uint8_t *copy;
    assert_int_equal(open_exact(builder.bytes, builder.byte_count, &file, &copy, NULL), RESULT_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_ptr_equal(gguf_file_find_tensor(file, names[i]), gguf_file_tensor(file, i));
    gguf_file_close(file);
    free(copy);
}

static void refuses_overlap(void **state)
{
    (void)state;
    gguf_builder_init(&builder, 3, 0);
    gguf_builder_add_tensor(&builder, "long", 1, DIMENSIONS(16), GGML_F32, 0);
    gguf_builder_add_tensor(&builder, "last", 1, DIMENSIONS(8), GGML_F32, 96);
    gguf_builder_add_tensor(&builder, "inside", 1, DIMENSIONS(8), GGML_F32, 32);
    gguf_builder_add_data(&builder, 32, 128);
    assert_refused(RESULT_CORRUPT, "long and inside overlap");
    gguf_builder_init(&builder, 3, 0);
    gguf_builder_add_tensor(&builder, "last", 1, DIMENSIONS(8), GGML_F32, 96);
    gguf_builder_add_tensor(&builder, "long", 1, DIMENSIONS(17), GGML_F32, 0);
    gguf_builder_add_tensor(&builder, "next", 1, DIMENSIONS(8), GGML_F32, 64);
    gguf_builder_add_data(&builder, 32, 128);
    assert_refused(RESULT_CORRUPT, "long and next overlap");
    gguf_builder_init(&builder, 2, 0);
    gguf_builder_add_tensor(&builder, "a", 1, DIMENSIONS(8), GGML_F32, 32);
    gguf_builder_add_tensor(&builder, "b", 1, DIMENSIONS(8), GGML_F32, 32);
    gguf_builder_add_data(&builder, 32, 64);
    assert_refused(RESULT_CORRUPT, "overlap");
}

static void refuses_a_number_that_is_not_finite(void **state)
{
    (void)state;
    struct gguf_file *file;
    struct error_text error;
    float value = 1.0f;
    gguf_builder_init(&builder, 0, 2);
    gguf_builder_add_key_u32(&builder, "nan", 0x7fc00000u);
    builder.bytes[24 + 11] = GGUF_FLOAT32;
    gguf_builder_add_key(&builder, "wide", GGUF_FLOAT64);
    gguf_builder_add_u64(&builder, 0x7fefffffffffffffu); /* largest double */
    assert_int_equal(gguf_file_open(builder.bytes, builder.byte_count, &file, &error), RESULT_OK);
    assert_int_equal(gguf_file_f32(file, "nan", &value), RESULT_INVALID);
    assert_int_equal(gguf_file_f32(file, "wide", &value), RESULT_INVALID);
    assert_float_equal(value, 1.0f, 0);
    gguf_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_tensors_by_index_and_name),
        cmocka_unit_test(gives_back_scalars_where_they_fit),
        cmocka_unit_test(gives_back_arrays),
        cmocka_unit_test(knows_the_block_of_every_type),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_single_byte_change),
        cmocka_unit_test(refuses_a_wrong_head),
        cmocka_unit_test(refuses_absurd_counts),
        cmocka_unit_test(refuses_bad_names),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(takes_names_and_counts_at_their_bounds),
        cmocka_unit_test(every_numeric_type_has_its_size),
        cmocka_unit_test(scalars_at_the_ends_of_their_types),
        cmocka_unit_test(alignments_at_the_bounds),
        cmocka_unit_test(refuses_bad_alignment),
        cmocka_unit_test(refuses_bad_shapes),
        cmocka_unit_test(refuses_bad_places),
        cmocka_unit_test(data_starts_at_the_alignment),
        cmocka_unit_test(names_that_begin_alike_are_told_apart),
        cmocka_unit_test(refuses_overlap),
        cmocka_unit_test(refuses_a_number_that_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
