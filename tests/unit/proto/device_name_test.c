/*
 * Device names: a valid name becomes a device and is written back as the same name; a name that
 * does not name exactly one device is rejected and changes nothing.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/device_name.h"

static void names_round_trip(void **state)
{
    (void)state;
    static const struct {
        const char *typed;
        struct device_name device;
        const char *written;
    } cases[] = {
        {"cpu", {DEVICE_CPU, 0}, "cpu"},
        {"vulkan", {DEVICE_VULKAN, 0}, "vulkan:0"},
        {"vulkan:0", {DEVICE_VULKAN, 0}, "vulkan:0"},
        {"vulkan:7", {DEVICE_VULKAN, 7}, "vulkan:7"},
        {"vulkan:9", {DEVICE_VULKAN, 9}, "vulkan:9"},
        {"vulkan:15", {DEVICE_VULKAN, 15}, "vulkan:15"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device_name device = {DEVICE_CPU, 99};
        char text[DEVICE_NAME_BYTES];
        assert_int_equal(device_name_parse(cases[i].typed, &device), 0);
        assert_true(device_name_equal(device, cases[i].device));
        device_name_write(device, text);
        assert_string_equal(text, cases[i].written);
    }
}

static void other_names_are_rejected(void **state)
{
    (void)state;
    static const char *const words[] = {"",
                                        "CPU",
                                        "cpu:0",
                                        "cpu ",
                                        "vulkan:",
                                        "vulkan:16",
                                        "vulkan:99",
                                        "vulkan:-1",
                                        "vulkan:+1",
                                        "vulkan: 1",
                                        "vulkan:01",
                                        "vulkan:0x1",
                                        "vulkan:1,2",
                                        "vulkan0",
                                        "vulkan:1 ",
                                        "vulkan::",
                                        "auto",
                                        "vulkanised",
                                        "vulkan:4294967296"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct device_name device = {DEVICE_VULKAN, 3};
        if (device_name_parse(words[i], &device) == 0)
            fail_msg("'%s' is taken for a device", words[i]);
        assert_true(device_name_equal(device, (struct device_name){DEVICE_VULKAN, 3}));
    }
}

static void devices_differ_by_kind_and_number(void **state)
{
    (void)state;
    const struct device_name cpu = {DEVICE_CPU, 0};
    const struct device_name first = {DEVICE_VULKAN, 0};
    const struct device_name second = {DEVICE_VULKAN, 1};
    assert_true(device_name_equal(first, first));
    assert_false(device_name_equal(cpu, first));
    assert_false(device_name_equal(first, second));
}

static void sets_are_devices_with_plus_between(void **state)
{
    (void)state;
    static const char *const refused[] = {"",
                                          "+",
                                          "cpu+",
                                          "+cpu",
                                          "cpu++cpu",
                                          "cpu, cpu",
                                          "cpu+auto",
                                          "cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu+cpu",
                                          "vulkan:0+vulkan:00000000000000000001"};
    struct device_set set, longest;
    char text[DEVICE_SET_BYTES];
    assert_int_equal(device_set_parse("vulkan+cpu+vulkan:3", &set), 0);
    device_set_write(&set, text);
    assert_string_equal(text, "vulkan:0+cpu+vulkan:3");
    assert_int_equal(device_set_kind(&set), DEVICE_VULKAN);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (device_set_parse(refused[i], &set) == 0)
            fail_msg("'%s' is taken for devices", refused[i]);
    assert_int_equal(set.count, 3);
    assert_int_equal(device_set_parse("vulkan:15+vulkan:15+vulkan:15+vulkan:15+vulkan:15+vulkan:15+"
                                      "vulkan:15+vulkan:15",
                                      &longest),
                     0);
    device_set_write(&longest, text);
    assert_int_equal(strlen(text), 8 * 10 - 1);
    assert_false(device_set_overlap(&set, &longest));
    assert_true(device_set_overlap(&set, &set) && device_set_equal(&set, &set));
    assert_false(device_set_equal(&set, &longest));
    assert_int_equal(device_set_parse("cpu+cpu", &set), 0);
    assert_int_equal(device_set_kind(&set), DEVICE_CPU);
}

static void names_in_sets_are_bounded(void **state)
{
    (void)state;
    char text[2 * DEVICE_NAME_BYTES];
    struct device_set set = {0};
    for (size_t bytes = DEVICE_NAME_BYTES - 1; bytes <= DEVICE_NAME_BYTES + 1; bytes++) {
        memset(text, 'v', bytes);
        text[bytes] = '\0';
        assert_int_not_equal(device_set_parse(text, &set), 0);
    }
    assert_int_equal(set.count, 0);
}

/* Only the devices counted belong to a set, and at most LIMIT_SPLIT_DEVICES are written. */
static void devices_beyond_the_count_do_not_matter(void **state)
{
    (void)state;
    struct device_set one = {.count = 1, .devices = {{DEVICE_CPU, 0}, {DEVICE_VULKAN, 3}}};
    struct device_set other = {.count = 1, .devices = {{DEVICE_CPU, 0}, {DEVICE_VULKAN, 4}}};
    char text[DEVICE_SET_BYTES], expected[DEVICE_SET_BYTES] = "cpu";
    assert_true(device_set_equal(&one, &other));
    one.count = other.count = 2;
    assert_false(device_set_equal(&one, &other));
    memset(&one, 0, sizeof one); /* of the kind DEVICE_CPU */
    one.count = LIMIT_SPLIT_DEVICES + 1;
    for (int i = 1; i < (int)LIMIT_SPLIT_DEVICES; i++)
        strcat(expected, "+cpu");
    device_set_write(&one, text);
    assert_string_equal(text, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_are_devices_with_plus_between),
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(other_names_are_rejected),
        cmocka_unit_test(devices_differ_by_kind_and_number),
        cmocka_unit_test(names_in_sets_are_bounded),
        cmocka_unit_test(devices_beyond_the_count_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
