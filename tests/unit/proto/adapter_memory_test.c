/*
 * Rules A1-A6 of adapter entries, each broken alone; the limits themselves pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/adapter_memory.h"

#define MEMORY_BYTES (4ull * ADAPTER_ALIGN_BYTES)

static struct adapter_entry valid_entry(void)
{
    struct adapter_entry entry;
    memset(&entry, 0, sizeof entry);
    entry.config_offset = ADAPTER_ALIGN_BYTES;
    entry.config_bytes = 100;
    entry.tensor_offset = 2 * ADAPTER_ALIGN_BYTES;
    entry.tensor_bytes = 2 * ADAPTER_ALIGN_BYTES;
    strcpy(entry.name, "name");
    return entry;
}

static void assert_breaks(const struct adapter_entry *entry, const char *rule)
{
    struct error_text error;
    assert_int_equal(adapter_entry_check(entry, MEMORY_BYTES, &error), RESULT_CORRUPT);
    assert_memory_equal(error.text, rule, strlen(rule));
}

static void valid(void **state)
{
    (void)state;
    struct adapter_entry entry = valid_entry();
    assert_int_equal(adapter_entry_check(&entry, MEMORY_BYTES, NULL), RESULT_OK);
    entry.config_offset = entry.config_bytes = 0;
    assert_int_equal(adapter_entry_check(&entry, MEMORY_BYTES, NULL), RESULT_OK);
}

/* The first bytes after the table, the last of the memory, and the largest sizes. */
static void limits_are_valid(void **state)
{
    (void)state;
    const uint64_t table_bytes =
        (ADAPTER_TABLE_BYTES + ADAPTER_ALIGN_BYTES - 1) / ADAPTER_ALIGN_BYTES * ADAPTER_ALIGN_BYTES;
    struct adapter_entry entry = valid_entry();
    entry.config_offset = table_bytes;
    entry.config_bytes = 1;
    entry.tensor_offset = table_bytes + ADAPTER_ALIGN_BYTES;
    entry.tensor_bytes = 1;
    strcpy(entry.name, "n");
    assert_int_equal(adapter_entry_check(&entry, entry.tensor_offset + 1, NULL), RESULT_OK);
    entry.config_bytes = LIMIT_CONFIG_BYTES;
    entry.tensor_offset =
        table_bytes + (LIMIT_CONFIG_BYTES / ADAPTER_ALIGN_BYTES + 1) * ADAPTER_ALIGN_BYTES;
    entry.tensor_bytes = LIMIT_ADAPTER_BYTES;
    memset(entry.name, 'n', sizeof entry.name - 1);
    uint64_t memory_bytes = entry.tensor_offset + LIMIT_ADAPTER_BYTES;
    assert_int_equal(adapter_entry_check(&entry, memory_bytes, NULL), RESULT_OK);
    struct error_text error;
    assert_int_equal(adapter_entry_check(&entry, memory_bytes - 1, &error), RESULT_CORRUPT);
}

static void a1_offsets(void **state)
{
    (void)state;
    struct adapter_entry entry = valid_entry();
    entry.tensor_bytes++;
    assert_breaks(&entry, "A1");
    entry = valid_entry();
    entry.tensor_offset += 8;
    assert_breaks(&entry, "A1");
    entry = valid_entry();
    entry.tensor_offset = 0; /* the table */
    assert_breaks(&entry, "A1");
    entry = valid_entry();
    entry.tensor_offset = UINT64_MAX / ADAPTER_ALIGN_BYTES * ADAPTER_ALIGN_BYTES;
    assert_breaks(&entry, "A1");
    entry = valid_entry();
    entry.config_bytes = 0;
    assert_breaks(&entry, "A1");
}

static void a2_a3_sizes(void **state)
{
    (void)state;
    struct adapter_entry entry = valid_entry();
    entry.config_bytes = LIMIT_CONFIG_BYTES + 1;
    assert_breaks(&entry, "A2");
    entry = valid_entry();
    entry.tensor_bytes = LIMIT_ADAPTER_BYTES + 1;
    assert_breaks(&entry, "A3");
    entry.tensor_bytes = 0;
    assert_breaks(&entry, "A3");
}

static void a6_in_use(void **state)
{
    (void)state;
    struct adapter_entry entry = valid_entry();
    struct error_text error;
    entry.version = UINT32_MAX;
    for (entry.in_use = 0; entry.in_use <= 1; entry.in_use++)
        assert_int_equal(adapter_entry_check(&entry, MEMORY_BYTES, &error), RESULT_OK);
    assert_breaks(&entry, "A6");
}

static void a4_a5_rest(void **state)
{
    (void)state;
    struct adapter_entry entry = valid_entry();
    memset(entry.name, 'x', sizeof entry.name);
    assert_breaks(&entry, "A4");
    memset(entry.name, 0, sizeof entry.name);
    assert_breaks(&entry, "A4");
    for (size_t i = 0; i < sizeof entry.reserved / sizeof entry.reserved[0]; i++) {
        entry = valid_entry();
        entry.reserved[i] = 1;
        assert_breaks(&entry, "A5");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid),      cmocka_unit_test(limits_are_valid),
        cmocka_unit_test(a1_offsets), cmocka_unit_test(a2_a3_sizes),
        cmocka_unit_test(a4_a5_rest), cmocka_unit_test(a6_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
