/*
 * A saved prefix cache is loaded whole or not at all: blocks, bytes and eviction order come back, the
 * newest survive a limit, and any changed or missing byte refuses the file. The same for features of images.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"
#include "worker/cache/prefix_file.h"

enum { BLOCKS = 6, SLOTS = 2, BLOCK_BYTES = 48, SLOT_BYTES = 16, RECORDS = BLOCKS + SLOTS };
enum { IMAGES = 4, ROWS = 9, ROW_BYTES = 8 };
enum { SAVED_BLOCKS = 4, SAVED_IMAGES = 2, SAVED_ROWS = 5 };
enum { FEATURES_AT = BLOCKS * BLOCK_BYTES + SLOTS * SLOT_BYTES };

/* One worker's pools and ledger. */
struct side {
    struct kv_ledger_record records[RECORDS];
    struct feature_record images[IMAGES];
    uint8_t memory[FEATURES_AT + ROWS * ROW_BYTES];
    struct prefix_file_pools pools;
    struct kv_ledger *ledger;
    struct feature_ledger *features;
};

static void side_open(struct side *side, struct keyed_hash_key key)
{
    memset(side, 0, sizeof *side);
    const struct kv_ledger_memory memory = {
        .records = side->records, .counts = {BLOCKS, [PREFIX_CHECKPOINT] = SLOTS}, .key = key};
    side->pools = (struct prefix_file_pools){
        .identity = 7,
        .block_bytes =
            {BLOCK_BYTES, [PREFIX_CHECKPOINT] = SLOT_BYTES, [PREFIX_FILE_FEATURES] = ROW_BYTES},
        .offsets =
            {0, [PREFIX_CHECKPOINT] = BLOCKS * BLOCK_BYTES, [PREFIX_FILE_FEATURES] = FEATURES_AT},
        .feature_rows = ROWS,
        .kept_images = IMAGES,
        .memory = side->memory};
    assert_int_equal(kv_ledger_create(&memory, &side->ledger), RESULT_OK);
    const struct feature_ledger_memory images = {
        .records = side->images, .count = IMAGES, .key = key};
    side->features = side->pools.features = feature_ledger_create(&images);
}

static void side_close(struct side *side)
{
    kv_ledger_destroy(side->ledger);
    feature_ledger_destroy(side->features);
}

static struct prefix_block block_named(uint32_t store, uint32_t name)
{
    return (struct prefix_block){.tokens = {store + 1, name}};
}

static uint8_t *bytes_of(struct side *side, uint32_t store, uint32_t number)
{
    return side->memory + side->pools.offsets[store] + number * side->pools.block_bytes[store];
}

/* The same pools as those of a device: blocks are copied one at a time, `copies` of them before one fails. */
static int copies = INT_MAX;

static enum result device_copy(void *context, uint32_t store, uint32_t number, bool out,
                               void *bytes, struct error_text *error)
{
    struct side *side = context;
    uint64_t count = side->pools.block_bytes[store];
    if (copies-- <= 0)
        return error_set(error, RESULT_TIMED_OUT, "the device is lost");
    memcpy(out ? bytes : bytes_of(side, store, number), out ? bytes_of(side, store, number) : bytes,
           count);
    return RESULT_OK;
}

static void move_to_device(struct side *side)
{
    side->pools.memory = NULL;
    side->pools.copy = device_copy;
    side->pools.context = side;
}

/* A block with bytes that follow from its name; higher stamps are newer. */
static void put(struct side *side, uint32_t store, uint32_t number, uint32_t name, uint64_t stamp)
{
    const struct prefix_block block = block_named(store, name);
    kv_ledger_note(side->ledger, store, number, &block);
    kv_ledger_records(side->ledger, store)[number].stamp = stamp;
    memset(bytes_of(side, store, number), (int)(16 * store + name), side->pools.block_bytes[store]);
}

static struct feature_key image_named(uint32_t name, uint32_t rows)
{
    return (struct feature_key){.content_hash = {(uint8_t)name}, .salt = {name}, .rows = rows};
}

static void put_image(struct side *side, uint32_t number, uint32_t name, uint32_t first_row,
                      uint32_t rows, uint64_t stamp)
{
    const struct feature_entry entry = {
        .key = image_named(name, rows), .first_row = first_row, .stamp = stamp};
    feature_ledger_restore(side->features, number, &entry);
    memset(bytes_of(side, PREFIX_FILE_FEATURES, first_row), (int)(200 + name), rows * ROW_BYTES);
}

/* Its stamp, and 0 if it is not there. */
static uint64_t stamp_of_image(struct side *side, uint32_t name, uint32_t rows)
{
    const struct feature_key wanted = image_named(name, rows);
    for (uint32_t number = 0; number < IMAGES; number++) {
        struct feature_entry entry;
        if (feature_ledger_read(side->features, number, &entry) != RESULT_OK ||
            memcmp(&entry.key, &wanted, sizeof wanted) != 0)
            continue;
        assert_true(entry.first_row + rows <= ROWS);
        const uint8_t *bytes = bytes_of(side, PREFIX_FILE_FEATURES, entry.first_row);
        for (uint32_t i = 0; i < rows * ROW_BYTES; i++)
            assert_int_equal(bytes[i], 200 + name);
        return entry.stamp;
    }
    return 0;
}

static void expect_nothing(const struct side *side)
{
    for (uint32_t i = 0; i < RECORDS; i++)
        assert_int_equal(side->records[i].commit, 0);
    for (uint32_t i = 0; i < IMAGES; i++)
        assert_int_equal(side->images[i].commit, 0);
}

/* Blocks 1, 2, 3 from old to new, and a checkpoint; image 2 is older than image 1. */
static int saved(uint64_t limit_bytes, uint32_t save_ms, struct prefix_file_figures *figures)
{
    struct side side;
    struct error_text error;
    int fd = memfd_create("file", MFD_CLOEXEC);
    const struct prefix_file_limits limits = {limit_bytes, save_ms};
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    put(&side, 0, 5, 1, 100);
    put(&side, 0, 0, 2, 101);
    put(&side, 0, 3, 3, 102);
    put(&side, PREFIX_CHECKPOINT, 1, 4, 50);
    put_image(&side, 3, 1, 0, 3, 9);
    put_image(&side, 1, 2, 6, 2, 8);
    assert_int_equal(prefix_file_save(fd, &side.pools, side.ledger, &limits, figures, &error),
                     RESULT_OK);
    side_close(&side);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static enum result load(int fd, struct side *side, struct prefix_file_figures *figures,
                        struct error_text *error)
{
    struct prefix_file_head head;
    side_open(side, (struct keyed_hash_key){{11, 12}});
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    enum result result = prefix_file_open(fd, &side->pools, &head, error);
    if (result == RESULT_OK) {
        assert_int_equal(head.key.words[1], 12);
        result = prefix_file_load(fd, &side->pools, &head, side->ledger, figures, error);
    }
    return result;
}

static uint64_t stamp_of(struct side *side, uint32_t store, uint32_t name)
{
    const struct prefix_block wanted = block_named(store, name);
    uint64_t stamp = 0;
    for (uint32_t number = 0; number < kv_ledger_count(side->ledger, store); number++) {
        struct kv_ledger_entry entry;
        if (kv_ledger_read(side->ledger, store, number, &entry) != RESULT_OK ||
            memcmp(&entry.block, &wanted, sizeof wanted) != 0)
            continue;
        const uint8_t *bytes = bytes_of(side, store, number);
        for (uint64_t i = 0; i < side->pools.block_bytes[store]; i++)
            assert_int_equal(bytes[i], 16 * store + name);
        stamp = entry.stamp;
    }
    return stamp;
}

static void test_all_of_it_comes_back(void **state)
{
    (void)state;
    struct prefix_file_figures out, in;
    struct side side;
    struct error_text error;
    int fd = saved(1 << 20, 60000, &out);
    struct stat facts;
    assert_int_equal(fstat(fd, &facts), 0);
    assert_int_equal(out.bytes, facts.st_size);
    assert_int_equal(out.blocks, 4);
    assert_int_equal(out.left, 0);
    assert_int_equal(load(fd, &side, &in, &error), RESULT_OK);
    assert_int_equal(in.blocks, 4);
    assert_int_equal(in.bytes, out.bytes);
    uint64_t one = stamp_of(&side, 0, 1), two = stamp_of(&side, 0, 2),
             three = stamp_of(&side, 0, 3);
    assert_true(0 < one && one < two && two < three);
    assert_int_not_equal(stamp_of(&side, PREFIX_CHECKPOINT, 4), 0);
    assert_int_equal(out.images, SAVED_IMAGES);
    assert_int_equal(in.images, SAVED_IMAGES);
    assert_int_equal(out.images_left + in.images_left, 0);
    assert_int_equal(stamp_of_image(&side, 1, 3), 2);
    assert_int_equal(stamp_of_image(&side, 2, 2), 1);
    side_close(&side);
    close(fd);
}

/* Every block passes in both directions; a failed copy is an error, and of a load nothing stays. */
static void test_blocks_of_a_device(void **state)
{
    (void)state;
    struct prefix_file_figures figures;
    struct prefix_file_head head;
    struct error_text error;
    const struct prefix_file_limits limits = {1 << 20, 60000};
    struct side side;
    int fd = saved(1 << 20, 60000, &figures);
    const int all = SAVED_BLOCKS + SAVED_ROWS;
    for (int good = 0; good <= all; good++) {
        side_open(&side, (struct keyed_hash_key){{11, 12}});
        move_to_device(&side);
        copies = good;
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_OK);
        enum result result =
            prefix_file_load(fd, &side.pools, &head, side.ledger, &figures, &error);
        assert_int_equal(result, good == all ? RESULT_OK : RESULT_IO);
        if (good < all) {
            assert_string_equal(error.text, "the device is lost");
            expect_nothing(&side);
            side_close(&side);
        }
    }
    close(fd);
    for (int good = all - 1; good <= all; good++) {
        fd = memfd_create("file", MFD_CLOEXEC);
        copies = good;
        assert_int_equal(prefix_file_save(fd, &side.pools, side.ledger, &limits, &figures, &error),
                         good == all ? RESULT_OK : RESULT_TIMED_OUT);
        if (good < all)
            close(fd);
    }
    side_close(&side);
    assert_int_equal(load(fd, &side, &figures, &error), RESULT_OK);
    assert_int_equal(figures.blocks, 4);
    assert_int_equal(stamp_of_image(&side, 1, 3), 2);
    for (uint32_t name = 1; name <= 3; name++)
        assert_int_not_equal(stamp_of(&side, 0, name), 0);
    assert_int_not_equal(stamp_of(&side, PREFIX_CHECKPOINT, 4), 0);
    side_close(&side);
    close(fd);
}

static void test_limits_keep_the_newest(void **state)
{
    (void)state;
    struct prefix_file_figures out, in;
    struct side side;
    struct error_text error;
    const uint64_t fixed = sizeof(struct prefix_file_head) + sizeof(struct prefix_file_end);
    const uint64_t all = fixed + (SAVED_BLOCKS + SAVED_IMAGES) * sizeof(struct prefix_file_entry) +
                         3 * BLOCK_BYTES + SLOT_BYTES + SAVED_ROWS * ROW_BYTES;
    int fd = saved(all - 1, 60000, &out);
    assert_true(out.bytes <= all - 1);
    assert_int_equal(out.blocks + out.left, 4);
    assert_int_equal(load(fd, &side, &in, &error), RESULT_OK);
    assert_int_equal(stamp_of(&side, 0, 1), 0);
    assert_int_not_equal(stamp_of(&side, 0, 3), 0);
    assert_int_equal(out.images_left, 1);
    assert_int_not_equal(stamp_of_image(&side, 1, 3), 0);
    assert_int_equal(stamp_of_image(&side, 2, 2), 0);
    side_close(&side);
    close(fd);
    fd = saved(all, 0, &out); /* no time */
    assert_int_equal(out.blocks, 0);
    assert_int_equal(out.left, 4);
    assert_int_equal(load(fd, &side, &in, &error), RESULT_OK);
    assert_int_equal(in.blocks + in.images, 0);
    assert_int_equal(out.images_left, SAVED_IMAGES);
    side_close(&side);
    close(fd);
}

/* Of the last image of a limit every byte counts. */
static void test_a_limit_of_exactly_one_image_keeps_it(void **state)
{
    (void)state;
    const uint64_t fixed = sizeof(struct prefix_file_head) + sizeof(struct prefix_file_end);
    const uint64_t image = sizeof(struct prefix_file_image) + 3 * ROW_BYTES;
    for (uint64_t missing = 0; missing < 2; missing++) {
        struct side side;
        struct error_text error;
        struct prefix_file_figures figures;
        const struct prefix_file_limits limits = {fixed + image - missing, 60000};
        int fd = memfd_create("file", MFD_CLOEXEC);
        side_open(&side, (struct keyed_hash_key){{11, 12}});
        put_image(&side, 0, 1, 0, 3, 9);
        put_image(&side, 1, 2, 3, 3, 8);
        assert_int_equal(prefix_file_save(fd, &side.pools, side.ledger, &limits, &figures, &error),
                         RESULT_OK);
        assert_int_equal(figures.images, 1 - missing);
        assert_int_equal(figures.images_left, 1 + missing);
        assert_int_equal(figures.bytes, fixed + image * (1 - missing));
        side_close(&side);
        close(fd);
    }
}

static enum result slow_copy(void *context, uint32_t store, uint32_t number, bool out, void *bytes,
                             struct error_text *error)
{
    const struct timespec pause = {.tv_nsec = 40000000};
    (void)nanosleep(&pause, NULL);
    return device_copy(context, store, number, out, bytes, error);
}

/* A slow device: what was begun in time is written, the rest is not. */
static void test_no_entry_is_begun_after_the_time(void **state)
{
    (void)state;
    struct side side;
    struct error_text error;
    struct prefix_file_figures figures;
    const struct prefix_file_limits limits = {1 << 20, 60};
    int fd = memfd_create("file", MFD_CLOEXEC);
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    for (uint32_t number = 0; number < BLOCKS; number++)
        put(&side, 0, number, 1 + number, 100 - number);
    move_to_device(&side);
    side.pools.copy = slow_copy;
    copies = INT_MAX;
    assert_int_equal(prefix_file_save(fd, &side.pools, side.ledger, &limits, &figures, &error),
                     RESULT_OK);
    assert_true(figures.blocks <= 2); /* the second at 40 ms; a third would begin after 80 ms */
    assert_int_equal(figures.blocks + figures.left, BLOCKS);
    side_close(&side);
    assert_int_equal(load(fd, &side, &figures, &error), RESULT_OK);
    assert_true(figures.blocks <= 2);
    side_close(&side);
    close(fd);
}

static void test_a_smaller_pool_takes_the_newest(void **state)
{
    (void)state;
    struct prefix_file_figures out, in;
    struct error_text error;
    struct prefix_file_head head;
    struct side side;
    int fd = saved(1 << 20, 60000, &out);
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    kv_ledger_destroy(side.ledger);
    const struct kv_ledger_memory two = {
        .records = side.records, .counts = {2, [PREFIX_CHECKPOINT] = SLOTS}, .key = {{11, 12}}};
    assert_int_equal(kv_ledger_create(&two, &side.ledger), RESULT_OK);
    assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_OK);
    assert_int_equal(prefix_file_load(fd, &side.pools, &head, side.ledger, &in, &error), RESULT_OK);
    assert_int_equal(in.blocks, 3);
    assert_int_equal(in.left, 1);
    assert_int_equal(stamp_of(&side, 0, 1), 0);
    assert_int_not_equal(stamp_of(&side, 0, 2), 0);
    assert_int_not_equal(stamp_of(&side, PREFIX_CHECKPOINT, 4), 0);
    side_close(&side);
    close(fd);
}

static void expect_refused(int fd, const char *rule)
{
    struct prefix_file_figures figures;
    struct error_text error = {""};
    struct side side;
    assert_int_not_equal(load(fd, &side, &figures, &error), RESULT_OK);
    assert_memory_equal(error.text, rule, strlen(rule));
    expect_nothing(&side);
    side_close(&side);
}

static void test_any_changed_bit_refuses_the_file(void **state)
{
    (void)state;
    struct prefix_file_figures out;
    int fd = saved(1 << 20, 60000, &out);
    for (uint64_t at = 0; at < out.bytes; at++) {
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        const uint8_t changed = byte ^ (uint8_t)(1u << at % 8);
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
        expect_refused(fd, at < sizeof(struct prefix_file_head) ? "P1" : "P");
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    assert_int_equal(pwrite(fd, "", 1, (off_t)out.bytes), 1);
    expect_refused(fd, "P4");
    for (off_t size = (off_t)out.bytes - 1; size >= 0; size -= 7) {
        assert_int_equal(ftruncate(fd, size), 0);
        expect_refused(fd, size < (off_t)sizeof(struct prefix_file_head) ? "P1" : "P4");
    }
    close(fd);
}

static void test_other_settings_refuse_the_file(void **state)
{
    (void)state;
    struct prefix_file_figures out;
    struct prefix_file_head head;
    struct error_text error;
    struct side side;
    int fd = saved(1 << 20, 60000, &out);
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    side.pools.identity++;
    assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_STALE);
    side.pools.identity--;
    side.pools.block_bytes[0]++;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_STALE);
    assert_memory_equal(error.text, "P2", 2);
    side_close(&side);
    close(fd);
}

/* Images that have no room are left out, those after them that have room are not. */
static void test_a_smaller_pool_of_features(void **state)
{
    (void)state;
    struct prefix_file_figures out, in;
    struct prefix_file_head head;
    struct error_text error;
    struct side side;
    int fd = saved(1 << 20, 60000, &out);
    for (uint32_t rows = 2; rows <= SAVED_ROWS; rows++) {
        side_open(&side, (struct keyed_hash_key){{11, 12}});
        side.pools.feature_rows = rows;
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_OK);
        enum result result = prefix_file_load(fd, &side.pools, &head, side.ledger, &in, &error);
        if (rows == 2) { /* no worker of these settings saved the larger one */
            assert_int_equal(result, RESULT_STALE);
            assert_memory_equal(error.text, "P5", 2);
            expect_nothing(&side);
        } else {
            assert_int_equal(result, RESULT_OK);
            assert_int_equal(in.blocks, SAVED_BLOCKS);
            assert_int_equal(in.images, rows < SAVED_ROWS ? 1 : 2);
            assert_int_equal(in.images + in.images_left, SAVED_IMAGES);
            assert_int_not_equal(stamp_of_image(&side, 1, 3), 0);
        }
        side_close(&side);
    }
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    side.pools.kept_images = 1;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_OK);
    assert_int_equal(prefix_file_load(fd, &side.pools, &head, side.ledger, &in, &error), RESULT_OK);
    assert_int_equal(in.images, 1);
    assert_int_not_equal(stamp_of_image(&side, 1, 3), 0);
    side_close(&side);
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    side.pools.features = NULL;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(prefix_file_open(fd, &side.pools, &head, &error), RESULT_OK);
    assert_int_equal(prefix_file_load(fd, &side.pools, &head, side.ledger, &in, &error),
                     RESULT_CORRUPT);
    assert_memory_equal(error.text, "P3", 2);
    side_close(&side);
    close(fd);
}

static void test_a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct side side;
    struct error_text error;
    struct prefix_file_figures figures;
    const struct prefix_file_limits limits = {1 << 20, 60000};
    side_open(&side, (struct keyed_hash_key){{11, 12}});
    put(&side, 0, 0, 1, 1);
    int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_int_equal(prefix_file_save(fd, &side.pools, side.ledger, &limits, &figures, &error),
                     RESULT_IO);
    side_close(&side);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it_comes_back),
        cmocka_unit_test(test_blocks_of_a_device),
        cmocka_unit_test(test_limits_keep_the_newest),
        cmocka_unit_test(test_a_limit_of_exactly_one_image_keeps_it),
        cmocka_unit_test(test_no_entry_is_begun_after_the_time),
        cmocka_unit_test(test_a_smaller_pool_takes_the_newest),
        cmocka_unit_test(test_any_changed_bit_refuses_the_file),
        cmocka_unit_test(test_other_settings_refuse_the_file),
        cmocka_unit_test(test_a_smaller_pool_of_features),
        cmocka_unit_test(test_a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
