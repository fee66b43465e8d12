/*
 * Without memory a prefix cache is neither saved nor loaded: RESULT_OUT_OF_MEMORY with a reason. The
 * limit of the address space leaves room for small things only.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/no_memory.h"
#include "tests/support/sanitized.h"
#include "worker/cache/prefix_file.h"

enum { MANY = 1 << 20, LARGE_BYTES = 1 << 20, BLOCK_BYTES = 64 };

static const struct keyed_hash_key key = {{11, 12}};
static const struct prefix_file_limits limits = {1 << 20, 60000};

static enum result copy_nothing(void *context, uint32_t store, uint32_t number, bool out,
                                void *bytes, struct error_text *error)
{
    (void)context, (void)store, (void)number, (void)out, (void)bytes, (void)error;
    return RESULT_OK;
}

static void *map_zeros(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static void expect_no_memory(const struct prefix_file_pools *pools, struct kv_ledger *ledger,
                             const char *reason)
{
    const struct prefix_file_head head = {.key = key};
    struct prefix_file_figures figures;
    struct error_text save_error = {""}, load_error = {""};
    int fd = memfd_create("file", MFD_CLOEXEC);
    no_memory_begin(LARGE_BYTES);
    enum result saved = prefix_file_save(fd, pools, ledger, &limits, &figures, &save_error);
    off_t written = lseek(fd, 0, SEEK_CUR);
    enum result loaded = prefix_file_load(fd, pools, &head, ledger, &figures, &load_error);
    no_memory_end();
    assert_int_equal(saved, RESULT_OUT_OF_MEMORY);
    assert_int_equal(loaded, RESULT_OUT_OF_MEMORY);
    assert_int_equal(written, 0);
    assert_string_equal(save_error.text, reason);
    assert_string_equal(load_error.text, reason);
    close(fd);
}

static struct kv_ledger *open_ledger(struct kv_ledger_record *records, uint32_t count)
{
    const struct kv_ledger_memory memory = {.records = records, .counts = {count}, .key = key};
    struct kv_ledger *ledger;
    assert_int_equal(kv_ledger_create(&memory, &ledger), RESULT_OK);
    return ledger;
}

static void a_large_ledger_needs_an_index(void **state)
{
    (void)state;
    struct kv_ledger_record *records = map_zeros(MANY * sizeof *records);
    struct kv_ledger *ledger = open_ledger(records, MANY);
    uint8_t block[BLOCK_BYTES];
    const struct prefix_file_pools pools = {.block_bytes = {BLOCK_BYTES}, .memory = block};
    expect_no_memory(&pools, ledger, "no memory for its index");
    kv_ledger_destroy(ledger);
    munmap(records, MANY * sizeof *records);
}

static void many_images_need_an_index(void **state)
{
    (void)state;
    struct kv_ledger_record record = {0};
    struct feature_record *images = map_zeros(MANY * sizeof *images);
    const struct feature_ledger_memory memory = {.records = images, .count = MANY, .key = key};
    struct kv_ledger *ledger = open_ledger(&record, 1);
    uint8_t blocks[2 * BLOCK_BYTES];
    const struct prefix_file_pools pools = {
        .block_bytes = {BLOCK_BYTES, [PREFIX_FILE_FEATURES] = BLOCK_BYTES},
        .offsets = {[PREFIX_FILE_FEATURES] = BLOCK_BYTES},
        .feature_rows = 1,
        .kept_images = MANY,
        .features = feature_ledger_create(&memory),
        .memory = blocks};
    expect_no_memory(&pools, ledger, "no memory for its index");
    feature_ledger_destroy(pools.features);
    kv_ledger_destroy(ledger);
    munmap(images, MANY * sizeof *images);
}

static void a_block_of_a_device_needs_a_buffer(void **state)
{
    (void)state;
    struct kv_ledger_record record = {0};
    struct kv_ledger *ledger = open_ledger(&record, 1);
    struct prefix_file_pools pools = {.copy = copy_nothing};
    for (uint32_t store = 0; store < PREFIX_FILE_STORES; store++) { /* the largest counts */
        memset(pools.block_bytes, 0, sizeof pools.block_bytes);
        pools.block_bytes[store] = 2 * (uint64_t)LARGE_BYTES;
        expect_no_memory(&pools, ledger, "no memory for a block");
    }
    kv_ledger_destroy(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_ledger_needs_an_index),
        cmocka_unit_test(many_images_need_an_index),
        cmocka_unit_test(a_block_of_a_device_needs_a_buffer),
    };
    if (SANITIZED)
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
