/*
 * The quantization of the KV cache that follows from the options, and invalid combinations of them.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "proto/kv_quantization.h"

static void test_bits_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t half_bits; /* 0: refused */
    } cases[] = {{"1", 2}, {"3.5", 7}, {"4.0", 8},  {"8", 16}, {"0.5", 1}, {"8.5", 0}, {"0", 0},
                 {"9", 0}, {"3.", 0},  {"3.25", 0}, {"", 0},   {"-4", 0},  {"4 ", 0},  {"44", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t half_bits = 0;
        int result = kv_half_bits_parse(cases[i].text, &half_bits);
        assert_int_equal(result, cases[i].half_bits > 0 ? 0 : -1);
        assert_int_equal(half_bits, cases[i].half_bits);
    }
}

static void test_requests_are_resolved(void **state)
{
    (void)state;
    static const struct {
        struct kv_quantization_request request;
        struct kv_quantization made;
    } cases[] = {
        {{0}, {KV_QUANT_NONE, 0, 0, 0, 0}},
        {{.half_bits = 16}, {KV_QUANT_UNIFORM, 16, 16, 0, 0}},
        {{.half_bits = 14}, {KV_QUANT_UNIFORM, 14, 14, 0, 0}},
        {{.half_bits = 4}, {KV_QUANT_UNIFORM, 4, 4, 0, 0}},
        {{.half_bits = 8, .group_size = 32}, {KV_QUANT_UNIFORM, 8, 8, 32, 0}},
        {{.half_bits = 8, .group_size = 64}, {KV_QUANT_UNIFORM, 8, 8, 64, 0}},
        {{.half_bits = 8, .group_size = 128}, {KV_QUANT_UNIFORM, 8, 8, 128, 0}},
        {{.half_bits = 8, .start_tokens = 1}, {KV_QUANT_UNIFORM, 8, 8, 0, 1}},
        {{.scheme = KV_QUANT_UNIFORM, .key_half_bits = 16, .value_half_bits = 4},
         {KV_QUANT_UNIFORM, 16, 4, 0, 0}},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 3}, {KV_QUANT_TURBOQUANT, 2, 4, 0, 0}},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 8}, {KV_QUANT_TURBOQUANT, 8, 8, 0, 0}},
        {{.scheme = KV_QUANT_TURBOQUANT, .key_half_bits = 2, .value_half_bits = 3},
         {KV_QUANT_TURBOQUANT, 2, 3, 0, 0}},
        {{.half_bits = 8, .key_half_bits = 16}, {KV_QUANT_UNIFORM, 16, 8, 0, 0}},
        {{.half_bits = 8, .start_tokens = 5000}, {KV_QUANT_UNIFORM, 8, 8, 0, 5000}},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 7}, {KV_QUANT_TURBOQUANT, 6, 8, 0, 0}},
        {{.scheme = KV_QUANT_TURBOQUANT, .key_half_bits = 5, .value_half_bits = 7},
         {KV_QUANT_TURBOQUANT, 5, 7, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kv_quantization made;
        assert_int_equal(kv_quantization_resolve(&cases[i].request, &made, NULL), RESULT_OK);
        assert_memory_equal(&made, &cases[i].made, sizeof made);
    }
}

static void test_invalid_options_are_rejected(void **state)
{
    (void)state;
    static const struct {
        struct kv_quantization_request request;
        const char *words;
    } cases[] = {
        {{.start_tokens = 5000}, "--quantized-kv-start 5000 needs --kv-bits"},
        {{.start_tokens = 1}, "--quantized-kv-start 1 needs --kv-bits"},
        {{.scheme = KV_QUANT_UNIFORM}, "--kv-quant-scheme needs --kv-bits"},
        {{.group_size = 1}, "--kv-group-size needs --kv-bits"},
        {{.half_bits = 8, .group_size = 1}, "--kv-group-size 1:"},
        {{.half_bits = 8, .group_size = 129}, "--kv-group-size 129:"},
        {{.half_bits = 8, .key_half_bits = 1}, "0.5 bits a key: uniform has 2 to 8"},
        {{.half_bits = 8, .value_half_bits = 1}, "0.5 bits a value: uniform has 2 to 8"},
        {{.half_bits = 8, .value_half_bits = 17}, "8.5 bits a value: uniform has 2 to 8"},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 8, .key_half_bits = 9},
         "turboquant has 1 to 4"},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 8, .group_size = 1}, "uniform only"},
        {{.value_half_bits = 8}, "go together"},
        {{.value_half_bits = 1}, "go together"},
        {{.key_half_bits = 1}, "go together"},
        {{.group_size = 64}, "--kv-group-size needs --kv-bits"},
        {{.half_bits = 7}, "3.5 bits a key: uniform has whole bits"},
        {{.half_bits = 2}, "1.0 bits a key: uniform has 2 to 8"},
        {{.half_bits = 8, .group_size = 48}, "--kv-group-size 48"},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 8, .group_size = 64}, "uniform only"},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 16}, "turboquant has 1 to 4"},
        {{.scheme = KV_QUANT_TURBOQUANT, .half_bits = 1}, "0.0 bits a key"},
        {{.key_half_bits = 8}, "go together"},
        {{.half_bits = 8, .value_half_bits = 9}, "4.5 bits a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kv_quantization made;
        struct error_text error = {""};
        assert_int_equal(kv_quantization_resolve(&cases[i].request, &made, &error), RESULT_INVALID);
        assert_non_null(strstr(error.text, cases[i].words));
        assert_int_equal(made.scheme, KV_QUANT_NONE);
    }
}

static void test_schemes_are_read(void **state)
{
    (void)state;
    enum kv_quant_scheme scheme = KV_QUANT_NONE;
    assert_int_equal(kv_quant_scheme_parse("uniform", &scheme), 0);
    assert_int_equal(scheme, KV_QUANT_UNIFORM);
    assert_int_equal(kv_quant_scheme_parse("turboquant", &scheme), 0);
    assert_int_equal(scheme, KV_QUANT_TURBOQUANT);
    /* "none" is the absence of the option, not a value of it. */
    const char *const names[] = {"none", "", "unifor", "Uniform", "turbo"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(kv_quant_scheme_parse(names[i], &scheme), -1);
    assert_int_equal(scheme, KV_QUANT_TURBOQUANT);
}

static void test_log_texts(void **state)
{
    (void)state;
    char text[KV_QUANTIZATION_TEXT_BYTES];
    kv_quantization_write(&(struct kv_quantization){.scheme = KV_QUANT_NONE}, text);
    assert_string_equal(text, "none");
    const struct kv_quantization early = {KV_QUANT_UNIFORM, 8, 8, 0, 1};
    kv_quantization_write(&early, text);
    assert_string_equal(text, "uniform, keys of 4 and values of 4 bits beyond 1 tokens");
    const struct kv_quantization whole = {KV_QUANT_UNIFORM, 8, 8, 32, 0};
    kv_quantization_write(&whole, text);
    assert_string_equal(text, "uniform, keys of 4 and values of 4 bits");
    const struct kv_quantization late = {KV_QUANT_TURBOQUANT, 7, 8, 0, UINT32_MAX};
    kv_quantization_write(&late, text);
    assert_string_equal(text,
                        "turboquant, keys of 3.5 and values of 4 bits beyond 4294967295 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_read),
        cmocka_unit_test(test_requests_are_resolved),
        cmocka_unit_test(test_invalid_options_are_rejected),
        cmocka_unit_test(test_schemes_are_read),
        cmocka_unit_test(test_log_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
