/*
 * A KV vault is adopted if its head is the one that this worker would write, with the same key and
 * pool; after any change of shape, identity, size or head it is emptied and begun anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/cache/kv_vault.h"
#include "worker/plan/content_hash.h"

static const struct kv_vault_shape shape = {.identity = 77,
                                            .limit_bytes = 1000000,
                                            .data_bytes = 8192,
                                            .counts = {5, 3, 0, 0, 2},
                                            .images = 3};

static void open_vault(int fd, const struct kv_vault_shape *wanted, struct kv_vault *vault)
{
    struct error_text error;
    assert_int_equal(kv_vault_open(fd, wanted, vault, &error), RESULT_OK);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, vault->data_offset + wanted->data_bytes);
}

static int begun(void)
{
    int fd = memfd_create("vault", MFD_CLOEXEC);
    struct kv_vault vault;
    assert_int_equal(kv_vault_limit(fd, shape.identity), 0);
    open_vault(fd, &shape, &vault);
    assert_false(vault.adopted);
    assert_string_equal(vault.reason.text, "");
    kv_vault_ledger(&vault).records[9].stamp = 5;
    kv_vault_close(&vault);
    return fd;
}

static void test_the_same_shape_is_adopted(void **state)
{
    (void)state;
    int fd = begun();
    struct kv_vault one, two;
    assert_int_equal(kv_vault_limit(fd, shape.identity), shape.limit_bytes);
    assert_int_equal(kv_vault_limit(fd, shape.identity + 1), 0);
    open_vault(fd, &shape, &one);
    assert_true(one.adopted);
    assert_int_not_equal(one.pool, 0);
    assert_int_equal(kv_vault_ledger(&one).records[9].stamp, 5);
    kv_vault_close(&one);
    open_vault(fd, &shape, &two);
    struct keyed_hash_key key = kv_vault_ledger(&two).key;
    uint64_t pool = two.pool;
    kv_vault_renew(&two, 99);
    assert_int_equal(kv_vault_ledger(&two).records[9].stamp, 0);
    assert_false(two.adopted);
    kv_vault_close(&two);
    open_vault(fd, &shape, &one);
    assert_true(one.adopted);
    assert_int_equal(one.pool, 99);
    assert_int_not_equal(pool, 99);
    assert_memory_equal(&key, &one.key, sizeof key);
    kv_vault_close(&one);
    kv_vault_close(&one);
    close(fd);
}

static void test_records_of_images_follow_those_of_blocks(void **state)
{
    (void)state;
    int fd = begun();
    struct kv_vault vault;
    open_vault(fd, &shape, &vault);
    struct kv_ledger_memory blocks = kv_vault_ledger(&vault);
    struct feature_ledger_memory images = kv_vault_feature_ledger(&vault);
    assert_int_equal(images.count, 3);
    assert_memory_equal(&images.key, &blocks.key, sizeof images.key);
    assert_ptr_equal(images.records, blocks.records + 10); /* the sum of the counts */
    assert_ptr_equal(images.records + 3, vault.bytes + vault.byte_count);
    for (uint32_t i = 0; i < 3; i++)
        images.records[i].stamp = 100 + i;
    kv_vault_close(&vault);
    open_vault(fd, &shape, &vault);
    assert_true(vault.adopted);
    assert_int_equal(kv_vault_ledger(&vault).records[9].stamp, 5);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(kv_vault_feature_ledger(&vault).records[i].stamp, 100 + i);
    kv_vault_renew(&vault, 1);
    assert_int_equal(kv_vault_feature_ledger(&vault).records[2].stamp, 0);
    kv_vault_close(&vault);
    close(fd);
}

static void expect_anew(int fd, const struct kv_vault_shape *wanted, const char *rule)
{
    struct kv_vault vault;
    open_vault(fd, wanted, &vault);
    assert_false(vault.adopted);
    assert_memory_equal(vault.reason.text, rule, strlen(rule));
    assert_int_equal(vault.reason.text[0] == '\0', rule[0] == '\0');
    assert_int_equal(kv_vault_ledger(&vault).records[9].stamp, 0);
    kv_vault_close(&vault);
    open_vault(fd, wanted, &vault);
    assert_true(vault.adopted);
    kv_vault_close(&vault);
    close(fd);
}

static void test_another_shape_begins_anew(void **state)
{
    (void)state;
    struct kv_vault_shape other = shape;
    other.identity++;
    expect_anew(begun(), &other, "H3");
    other = shape;
    other.counts[4] = 3;
    expect_anew(begun(), &other, "H4");
    other = shape;
    other.images++;
    expect_anew(begun(), &other, "H4");
    other = shape;
    other.data_bytes += 4096;
    expect_anew(begun(), &other, "H4");
    other = shape;
    other.limit_bytes++; /* of no meaning for the contents */
    struct kv_vault vault;
    int fd = begun();
    open_vault(fd, &other, &vault);
    assert_true(vault.adopted);
    kv_vault_close(&vault);
    close(fd);
}

/* A standby must not change the vault of the process that serves. */
static void test_one_in_use_is_adopted_or_left_alone(void **state)
{
    (void)state;
    struct kv_vault_shape shared = shape, other = shape;
    shared.in_use = other.in_use = true;
    other.counts[1]++;
    int fd = begun(), empty = memfd_create("vault", MFD_CLOEXEC);
    struct kv_vault vault;
    struct error_text error;
    open_vault(fd, &shape, &vault);
    kv_vault_ledger(&vault).records[9].stamp = 6;
    kv_vault_close(&vault);
    assert_int_equal(kv_vault_open(fd, &other, &vault, &error), RESULT_STALE);
    assert_non_null(strstr(error.text, "H4"));
    assert_null(vault.bytes);
    assert_int_equal(kv_vault_open(empty, &shared, &vault, &error), RESULT_STALE);
    struct stat status;
    assert_int_equal(fstat(empty, &status), 0);
    assert_int_equal(status.st_size, 0);
    open_vault(fd, &shared, &vault);
    assert_true(vault.adopted);
    assert_int_equal(kv_vault_ledger(&vault).records[9].stamp, 6);
    kv_vault_close(&vault);
    close(fd);
    close(empty);
}

static void test_a_damaged_head_begins_anew(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof(struct kv_vault_head); at++) {
        int fd = begun();
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        expect_anew(fd, &shape, "H1");
    }
    int fd = begun();
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    expect_anew(fd, &shape, "H5");
    fd = begun();
    assert_int_equal(ftruncate(fd, 0), 0);
    expect_anew(fd, &shape, "");
    fd = begun();
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(ftruncate(fd, 4096), 0); /* zeros: no head was written */
    expect_anew(fd, &shape, "");
}

/* The checksum is made to fit the head, so only the other rules can refuse it. */
static void expect_head(struct kv_vault_head head, const char *rule)
{
    int fd = begun();
    head.checksum = content_hash(&head, offsetof(struct kv_vault_head, checksum), 0);
    assert_int_equal(pwrite(fd, &head, sizeof head, 0), sizeof head);
    expect_anew(fd, &shape, rule);
}

static void test_a_head_of_another_version_begins_anew(void **state)
{
    (void)state;
    int fd = begun();
    struct kv_vault_head head;
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    close(fd);
    struct kv_vault_head other = head;
    other.magic[7]++;
    expect_head(other, "H2");
    other = head;
    other.version++;
    expect_head(other, "H2");
    other = head;
    other.record_bytes += 8;
    expect_head(other, "H2");
    other = head;
    other.pool = 0;
    expect_head(other, "H2");
}

/* The pools' memory begins at the first multiple of 2 MiB after the records. */
static void test_data_follows_the_records(void **state)
{
    (void)state;
    const uint64_t alignment = 2 << 20;
    const uint32_t fitting = (uint32_t)((alignment - 4096) / sizeof(struct kv_ledger_record));
    for (uint32_t extra = 0; extra < 2; extra++) {
        struct kv_vault_shape full;
        memset(&full, 0, sizeof full);
        full.identity = 77;
        full.data_bytes = 8192;
        memcpy(full.counts, (uint32_t[PREFIX_STORES]){fitting - 7, 3, 0, extra, 4},
               sizeof full.counts);
        int fd = memfd_create("vault", MFD_CLOEXEC);
        struct kv_vault vault;
        open_vault(fd, &full, &vault);
        assert_int_equal(vault.data_offset, (1 + extra) * alignment);
        kv_vault_close(&vault);
        close(fd);
    }
}

/* The largest file that off_t can address. */
static void test_the_largest_file_is_opened(void **state)
{
    (void)state;
    struct kv_vault_shape largest = shape;
    largest.data_bytes = INT64_MAX - (2 << 20);
    int fd = memfd_create("vault", MFD_CLOEXEC);
    struct kv_vault vault;
    open_vault(fd, &largest, &vault);
    kv_vault_close(&vault);
    close(fd);
}

static void test_what_is_no_memory_is_an_error(void **state)
{
    (void)state;
    int ends[2];
    struct kv_vault vault;
    struct error_text error;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(kv_vault_open(ends[0], &shape, &vault, &error), RESULT_IO);
    kv_vault_close(&vault);
    struct kv_vault_shape large = shape;
    large.data_bytes = INT64_MAX;
    int fd = begun();
    assert_int_equal(kv_vault_open(fd, &large, &vault, &error), RESULT_IO);
    kv_vault_close(&vault);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_shape_is_adopted),
        cmocka_unit_test(test_records_of_images_follow_those_of_blocks),
        cmocka_unit_test(test_another_shape_begins_anew),
        cmocka_unit_test(test_one_in_use_is_adopted_or_left_alone),
        cmocka_unit_test(test_a_damaged_head_begins_anew),
        cmocka_unit_test(test_a_head_of_another_version_begins_anew),
        cmocka_unit_test(test_data_follows_the_records),
        cmocka_unit_test(test_the_largest_file_is_opened),
        cmocka_unit_test(test_what_is_no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
