/*
 * The slots of a set of adapters: who finds one in each state, what its entry says, and that a slot is used
 * again when its last request has ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/assets/adapter_set.h"

#define FILE_BYTES 200000u

static char path[64];

static int setup(void **state)
{
    struct error_text error;
    struct adapter_set *set;
    snprintf(path, sizeof path, "/tmp/adapter_set_test.%d", (int)getpid());
    FILE *file = fopen(path, "wb");
    for (uint32_t i = 0; i < FILE_BYTES; i++)
        fputc((int)(i % 251), file);
    fclose(file);
    assert_int_equal(adapter_set_create(&set, &error), RESULT_OK);
    *state = set;
    return 0;
}

static int teardown(void **state)
{
    adapter_set_destroy(*state);
    unlink(path);
    return 0;
}

static uint32_t begin(struct adapter_set *set, const char *name, bool replaces)
{
    struct error_text error;
    uint32_t slot;
    assert_int_equal(adapter_set_begin(set, name, path, replaces, &slot, &error), RESULT_OK);
    return slot;
}

static uint32_t add(struct adapter_set *set, const char *name, bool replaces)
{
    struct error_text error;
    uint32_t slot = begin(set, name, replaces);
    assert_int_equal(adapter_set_fill(set, slot, NULL, &error), RESULT_OK);
    adapter_set_settle(set, slot);
    return slot;
}

static struct adapter_entry entry_of(const struct adapter_set *set, uint32_t slot)
{
    struct adapter_entry entry;
    assert_int_equal(
        pread(adapter_set_memory(set), &entry, sizeof entry, (off_t)(slot * sizeof entry)),
        sizeof entry);
    return entry;
}

static uint64_t blocks(const struct adapter_set *set)
{
    struct stat facts;
    assert_int_equal(fstat(adapter_set_memory(set), &facts), 0);
    return (uint64_t)facts.st_blocks * 512;
}

static void an_adapter_is_found_only_in_use(void **state)
{
    struct adapter_set *set = *state;
    struct error_text error;
    uint32_t slot = begin(set, "a", false);
    assert_int_equal(slot, 0);
    assert_null(adapter_set_take(set, "a"));
    assert_int_equal(adapter_set_count(set), 0);
    assert_int_equal(adapter_set_fill(set, slot, NULL, &error), RESULT_OK);
    struct adapter_entry entry = entry_of(set, slot);
    assert_int_equal(entry.in_use, 0);
    assert_int_equal(entry.tensor_bytes, FILE_BYTES);
    assert_string_equal(entry.name, "a");
    assert_int_equal(adapter_entry_check(&entry, UINT32_MAX, &error), RESULT_OK);
    assert_false(adapter_set_has(set, "a"));
    adapter_set_settle(set, slot);
    assert_int_equal(entry_of(set, slot).in_use, 1);
    assert_int_equal(entry_of(set, slot).version, adapter_set_id(set, slot).version);
    const struct adapter *taken = adapter_set_take(set, "a");
    assert_int_equal(taken->number, slot + 1);
    assert_string_equal(adapter_set_at(set, 0)->path, path);
    assert_int_equal(adapter_set_hide(set, "a"), RESULT_OK);
    assert_int_equal(adapter_set_hide(set, "a"), RESULT_NOT_FOUND);
    assert_null(adapter_set_take(set, "a"));
    assert_int_equal(adapter_set_count(set), 0);
    assert_int_equal(entry_of(set, slot).in_use, 1); /* a worker that starts needs it */
    adapter_release(taken);
}

static void a_slot_is_free_after_its_last_request(void **state)
{
    struct adapter_set *set = *state;
    uint32_t slot = add(set, "a", false);
    uint64_t full = blocks(set);
    const struct adapter *first = adapter_set_take(set, "a"), *second = adapter_share(first);
    assert_false(adapter_set_is_leaving(set));
    assert_int_equal(adapter_set_unused(set), LIMIT_ADAPTERS);
    assert_int_equal(adapter_set_hide(set, "a"), RESULT_OK);
    assert_true(adapter_set_is_leaving(set));
    assert_int_equal(adapter_set_unused(set), LIMIT_ADAPTERS);
    adapter_release(first);
    assert_int_equal(adapter_set_unused(set), LIMIT_ADAPTERS);
    adapter_release(second);
    assert_int_equal(adapter_set_unused(set), slot);
    uint32_t version = adapter_set_id(set, slot).version;
    adapter_set_clear(set, slot);
    assert_false(adapter_set_is_leaving(set));
    assert_int_equal(entry_of(set, slot).tensor_bytes, 0);
    assert_true(blocks(set) + FILE_BYTES / 2 < full);
    assert_int_equal(add(set, "b", false), slot);
    assert_int_not_equal(adapter_set_id(set, slot).version, version);
}

static void names_exclude_each_other(void **state)
{
    struct adapter_set *set = *state;
    struct error_text error;
    uint32_t slot, filling = begin(set, "a", false);
    assert_int_equal(adapter_set_begin(set, "a", path, false, &slot, &error), RESULT_STALE);
    assert_int_equal(adapter_set_begin(set, "a", path, true, &slot, &error), RESULT_STALE);
    adapter_set_clear(set, filling);
    uint32_t old = add(set, "a", false);
    assert_int_equal(adapter_set_begin(set, "a", path, false, &slot, &error), RESULT_STALE);
    const struct adapter *taken = adapter_set_take(set, "a");
    uint32_t replacement = add(set, "a", true);
    assert_int_not_equal(replacement, old);
    assert_int_equal(adapter_set_count(set), 1);
    assert_int_equal(adapter_set_find(set, "a")->number, replacement + 1);
    assert_false(adapter_set_is_in_use(set, old));
    assert_int_equal(taken->number, old + 1);
    adapter_release(taken);
    assert_int_equal(adapter_set_unused(set), old);
}

static void bad_names_and_too_many_are_refused(void **state)
{
    struct adapter_set *set = *state;
    struct error_text error;
    uint32_t slot;
    char name[LIMIT_ADAPTER_NAME_BYTES + 1], long_path[ADAPTER_PATH_BYTES + 1];
    const char *const bad[] = {"", "a b", "a\"", "a\\", "\x7f", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(adapter_set_begin(set, bad[i], path, false, &slot, &error),
                         RESULT_INVALID);
    memset(name, 'n', sizeof name);
    name[LIMIT_ADAPTER_NAME_BYTES] = '\0';
    assert_int_equal(adapter_set_begin(set, name, path, false, &slot, &error), RESULT_INVALID);
    name[LIMIT_ADAPTER_NAME_BYTES - 1] = '\0';
    adapter_set_clear(set, begin(set, name, false));
    memset(long_path, 'p', sizeof long_path);
    long_path[ADAPTER_PATH_BYTES] = '\0';
    assert_int_equal(adapter_set_begin(set, "a", long_path, false, &slot, &error), RESULT_INVALID);
    assert_int_equal(adapter_set_begin(set, "a", "", false, &slot, &error), RESULT_INVALID);
    for (uint32_t i = 0; i < LIMIT_ADAPTERS; i++) {
        snprintf(name, sizeof name, "n%u", i);
        assert_int_equal(begin(set, name, false), i);
    }
    assert_int_equal(adapter_set_begin(set, "last", path, false, &slot, &error), RESULT_FULL);
    adapter_set_clear(set, 7);
    assert_int_equal(begin(set, "last", false), 7);
}

static void equal_files_have_equal_hashes(void **state)
{
    struct adapter_set *set = *state;
    uint32_t first = add(set, "a", false), second = add(set, "b", false);
    assert_memory_equal(adapter_set_at(set, 0)->content, adapter_set_at(set, 1)->content, 16);
    FILE *file = fopen(path, "r+b");
    fputc(7, file);
    fclose(file);
    (void)add(set, "c", false);
    assert_memory_not_equal(adapter_set_at(set, 0)->content, adapter_set_at(set, 2)->content, 16);
    assert_int_not_equal(first, second);
}

static void filling_can_be_cancelled_and_fail(void **state)
{
    struct adapter_set *set = *state;
    struct error_text error;
    const atomic_bool cancelled = true;
    uint32_t slot = begin(set, "a", false);
    assert_int_equal(adapter_set_fill(set, slot, &cancelled, &error), RESULT_STALE);
    adapter_set_clear(set, slot);
    unlink(path);
    slot = begin(set, "a", false);
    assert_int_equal(adapter_set_fill(set, slot, NULL, &error), RESULT_NOT_FOUND);
    assert_non_null(strstr(error.text, "No such file"));
    adapter_set_clear(set, slot);
    assert_int_equal(adapter_set_count(set), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_adapter_is_found_only_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slot_is_free_after_its_last_request, setup, teardown),
        cmocka_unit_test_setup_teardown(names_exclude_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_names_and_too_many_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_files_have_equal_hashes, setup, teardown),
        cmocka_unit_test_setup_teardown(filling_can_be_cancelled_and_fail, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
