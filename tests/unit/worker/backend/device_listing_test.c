/*
 * The list of devices as a table and as JSON, with hostile names.
 */
// tags: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "worker/backend/device_listing.h"

static const struct device_row rows[] = {
    {.device = "cpu",
     .type = "cpu",
     .name = "2 processor cores",
     .tier = "avx2",
     .memory_bytes = 8000000000u},
    {.device = "vulkan:0",
     .type = "discrete",
     .name = "Quick \"GPU\" \\ 9000",
     .driver = "driver\n1.2\x1b[31m \xc3\xa9",
     .version = "1.4.303",
     .tier = "NV matrix 2",
     .memory_bytes = 150754820096u},
    {.type = "integrated",
     .name = "Old GPU",
     .version = "1.2.0",
     .memory_bytes = 2147483648u,
     .unusable = "Old GPU has Vulkan 1.2, not 1.3"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static char *written(bool json)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    device_listing_write(rows, ROWS, json, out);
    fclose(out);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static void the_table_has_a_line_for_each(void **state)
{
    (void)state;
    char *text = written(false);
    assert_string_equal(text,
                        "device      name                   memory  tier         Vulkan    driver\n"
                        "cpu         2 processor cores      8.0 GB  avx2         -         -\n"
                        "vulkan:0    Quick \"GPU\" \\ 9000   150.8 GB  NV matrix 2  1.4.303   "
                        "driver?1.2?[31m ??\n"
                        "-           Old GPU                2.1 GB  -            1.2.0     "
                        "not usable: Old GPU has Vulkan 1.2, not 1.3\n");
    free(text);
}

static void the_json_is_one_line_without_surprises(void **state)
{
    (void)state;
    char *text = written(true);
    assert_string_equal(
        text,
        "{\"devices\":["
        "{\"usable\":true,\"device\":\"cpu\",\"type\":\"cpu\",\"name\":\"2 processor "
        "cores\",\"driver\":null,"
        "\"vulkan_version\":null,\"tier\":\"avx2\",\"unusable\":null,\"memory_bytes\":8000000000},"
        "{\"usable\":true,\"device\":\"vulkan:0\",\"type\":\"discrete\",\"name\":\"Quick "
        "\\\"GPU\\\" \\\\ 9000\","
        "\"driver\":\"driver?1.2?[31m ??\",\"vulkan_version\":\"1.4.303\","
        "\"tier\":\"NV matrix 2\",\"unusable\":null,\"memory_bytes\":150754820096},"
        "{\"usable\":false,\"device\":null,\"type\":\"integrated\",\"name\":\"Old "
        "GPU\",\"driver\":null,"
        "\"vulkan_version\":\"1.2.0\",\"tier\":null,"
        "\"unusable\":\"Old GPU has Vulkan 1.2, not 1.3\",\"memory_bytes\":2147483648}]}\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_a_line_for_each),
        cmocka_unit_test(the_json_is_one_line_without_surprises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
