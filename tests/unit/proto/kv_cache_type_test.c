/*
 * The types of the KV cache: names, sizes, and values that are no type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/kv_cache_type.h"

static void each_type_has_its_name_and_size(void **state)
{
    (void)state;
    enum kv_cache_type type = KV_CACHE_F32;
    assert_int_equal(kv_cache_type_parse("f16", &type), 0);
    assert_int_equal(type, KV_CACHE_F16);
    assert_string_equal(kv_cache_type_name(type), "f16");
    assert_int_equal(kv_cache_type_bytes(type), 2);
    assert_int_equal(kv_cache_type_parse("f32", &type), 0);
    assert_int_equal(type, KV_CACHE_F32);
    assert_string_equal(kv_cache_type_name(type), "f32");
    assert_int_equal(kv_cache_type_bytes(type), 4);
}

static void other_names_are_refused(void **state)
{
    (void)state;
    const char *const names[] = {"", "f1", "f8", "F16", "f16 ", "f64", "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum kv_cache_type type = KV_CACHE_F32;
        assert_int_equal(kv_cache_type_parse(names[i], &type), -1);
        assert_int_equal(type, KV_CACHE_F32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_name_and_size),
        cmocka_unit_test(other_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
