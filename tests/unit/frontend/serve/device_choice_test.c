/*
 * --device auto picks the first usable GPU of the worker's list, and never a CPU driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "frontend/serve/device_choice.h"

#define CPU       "{\"usable\":true,\"device\":\"cpu\",\"type\":\"cpu\",\"name\":\"2 cores\"}"
#define LLVMPIPE  "{\"usable\":true,\"device\":\"vulkan:0\",\"type\":\"cpu\",\"name\":\"llvmpipe\"}"
#define LIST(...) "{\"devices\":[" __VA_ARGS__ "]}"

static void the_first_gpu_is_picked(void **state)
{
    (void)state;
    static const struct {
        const char *listing;
        uint32_t index; /* UINT32_MAX: none */
    } cases[] = {
        {LIST(CPU), UINT32_MAX},
        {LIST(CPU "," LLVMPIPE), UINT32_MAX},
        {LIST(CPU "," LLVMPIPE ",{\"device\":\"vulkan:1\",\"type\":\"integrated\",\"name\":\"one\"}"
                  ",{\"device\":\"vulkan:2\",\"type\":\"discrete\",\"name\":\"two\"}"),
         1},
        {LIST("{\"device\":null,\"type\":\"discrete\",\"name\":\"old\"},"
              "{\"device\":\"vulkan:0\",\"type\":\"virtual\",\"name\":\"one\"}"),
         0},
        {LIST("{\"device\":\"vulkan:0\",\"type\":\"other\",\"name\":\"one\"}"), UINT32_MAX},
        {LIST("{\"device\":\"cpu\",\"type\":\"discrete\",\"name\":\"one\"}"), UINT32_MAX},
        {LIST("{\"device\":\"vulkan:99\",\"type\":\"discrete\",\"name\":\"one\"}"), UINT32_MAX},
        {LIST("{\"device\":\"vulkan:0\",\"name\":\"one\"}"), UINT32_MAX},
        {"{\"devices\":[{\"device\":\"vulkan:0\",\"type\":\"discrete\"", UINT32_MAX},
        {"{\"devices\":3}", UINT32_MAX},
        {"", UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device_name device = {DEVICE_CPU, 0};
        char name[DEVICE_CHOICE_NAME_BYTES] = "";
        bool found = device_choice_pick(cases[i].listing, strlen(cases[i].listing), &device, name);
        assert_int_equal(found, cases[i].index != UINT32_MAX);
        assert_int_equal(device.kind, found ? DEVICE_VULKAN : DEVICE_CPU);
        if (found) {
            assert_int_equal(device.index, cases[i].index);
            assert_string_equal(name, "one");
        }
    }
}

static void a_named_device_is_kept(void **state)
{
    (void)state;
    struct options options = {.devices = {{1, {{DEVICE_VULKAN, 3}}}}, .device_count = 1};
    device_choice_resolve(&options);
    assert_int_equal(options.devices[0].devices[0].kind, DEVICE_VULKAN);
    assert_int_equal(options.devices[0].devices[0].index, 3);
}

static void activations_of_16_bits_choose_the_cpu(void **state)
{
    (void)state;
    struct options options = {.device_auto = true, .device_count = 1, .activation_bits = 16};
    device_choice_resolve(&options);
    assert_int_equal(options.devices[0].devices[0].kind, DEVICE_CPU);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_gpu_is_picked),
        cmocka_unit_test(a_named_device_is_kept),
        cmocka_unit_test(activations_of_16_bits_choose_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
