/*
 * Any bytes as a saved prefix cache, and as the ledger of a vault. The first byte chooses what: a file as it is, a
 * file whose head and end are made right so that its entries are reached, or records with right commit
 * words; and whether the pools are a device's. What is taken becomes the prefix cache and the feature cache of a worker, which are
 * looked up, evicted and emptied.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/cache/feature_cache.h"
#include "worker/cache/kv_pools.h"
#include "worker/cache/prefix_file.h"
#include "worker/plan/content_hash.h"

enum { FULL = 9, SLIDING = 5, SLOTS = 3, BLOCK_BYTES = 40, SLOT_BYTES = 8 };
enum { RECORDS = FULL + SLIDING + SLOTS };
enum { KEPT_IMAGES = 3, FEATURE_ROWS = 6, ROW_BYTES = 4 };
enum { FEATURES_AT = (FULL + SLIDING) * BLOCK_BYTES + SLOTS * SLOT_BYTES };

static const struct keyed_hash_key key = {{1, 2}};

struct worker {
    struct kv_ledger_record records[RECORDS];
    struct feature_record *images; /* [feature_cache_capacity(KEPT_IMAGES)] */
    uint8_t memory[FEATURES_AT + FEATURE_ROWS * ROW_BYTES];
    struct kv_layout layout;
    struct prefix_file_pools file;
    struct kv_ledger *ledger;
    struct feature_ledger *features;
};

/* The same pools as a device's. */
static enum result device_copy(void *context, uint32_t store, uint32_t number, bool out,
                               void *bytes, struct error_text *error)
{
    struct worker *worker = context;
    static const uint32_t counts[PREFIX_FILE_STORES] = {
        FULL, SLIDING, [PREFIX_CHECKPOINT] = SLOTS, [PREFIX_FILE_FEATURES] = FEATURE_ROWS};
    (void)error;
    must(store < PREFIX_FILE_STORES && number < counts[store]);
    uint64_t count = worker->file.block_bytes[store];
    uint8_t *block = worker->memory + worker->file.offsets[store] + number * count;
    memcpy(out ? bytes : block, out ? block : bytes, count);
    return RESULT_OK;
}

static void move_to_device(struct worker *worker)
{
    worker->file.memory = NULL;
    worker->file.copy = device_copy;
    worker->file.context = worker;
}

static void worker_begin(struct worker *worker)
{
    memset(worker, 0, sizeof *worker);
    worker->layout.group_count = 2;
    worker->layout.groups[0].kind = KV_FULL;
    worker->layout.groups[1] = (struct kv_group){.kind = KV_SLIDING, .window = 32};
    worker->file = (struct prefix_file_pools){
        .identity = 3,
        .block_bytes =
            {BLOCK_BYTES,
             BLOCK_BYTES, [PREFIX_CHECKPOINT] = SLOT_BYTES, [PREFIX_FILE_FEATURES] = ROW_BYTES},
        .offsets = {0, FULL * BLOCK_BYTES, [PREFIX_CHECKPOINT] = (FULL + SLIDING) * BLOCK_BYTES,
                    [PREFIX_FILE_FEATURES] = FEATURES_AT},
        .feature_rows = FEATURE_ROWS,
        .kept_images = KEPT_IMAGES,
        .memory = worker->memory};
    const struct kv_ledger_memory memory = {.records = worker->records,
                                            .counts = {FULL, SLIDING, [PREFIX_CHECKPOINT] = SLOTS},
                                            .key = key};
    must(kv_ledger_create(&memory, &worker->ledger) == RESULT_OK);
    uint32_t images = feature_cache_capacity(KEPT_IMAGES);
    worker->images = must_alloc(images, sizeof *worker->images);
    const struct feature_ledger_memory features = {
        .records = worker->images, .count = images, .key = key};
    worker->features = worker->file.features = feature_ledger_create(&features);
}

/* Right sums in the head and in the end, where there is room for both. */
static void file_seal(struct worker *worker, uint8_t *bytes, size_t count)
{
    struct prefix_file_head head = {
        .version = PREFIX_FILE_VERSION, .identity = worker->file.identity, .key = key};
    if (count < sizeof head + sizeof(struct prefix_file_end))
        return;
    memcpy(head.magic, PREFIX_FILE_MAGIC, sizeof head.magic);
    memcpy(head.block_bytes, worker->file.block_bytes, sizeof head.block_bytes);
    head.checksum = content_hash(&head, offsetof(struct prefix_file_head, checksum), 0);
    memcpy(bytes, &head, sizeof head);
    uint64_t hash = content_hash(&head, sizeof head, 0), entries = 0;
    size_t at = sizeof head;
    for (;;) {
        struct prefix_file_entry entry;
        size_t left = count - at - sizeof(struct prefix_file_end);
        memcpy(&entry, bytes + at, sizeof entry);
        if (entry.store == PREFIX_FILE_FEATURES) {
            struct prefix_file_image image;
            memcpy(&image, &entry, sizeof image);
            if (image.key.rows > FEATURE_ROWS * 2 ||
                left < sizeof image + image.key.rows * (size_t)ROW_BYTES)
                break;
            hash = content_hash(&image, sizeof image, hash);
            at += sizeof image;
            for (uint32_t row = 0; row < image.key.rows; row++, at += ROW_BYTES)
                hash = content_hash(bytes + at, ROW_BYTES, hash);
            entries++;
            continue;
        }
        if (entry.store >= PREFIX_STORES || worker->file.block_bytes[entry.store] == 0 ||
            left < sizeof entry + worker->file.block_bytes[entry.store])
            break;
        hash = content_hash(&entry, sizeof entry, hash);
        hash = content_hash(bytes + at + sizeof entry, worker->file.block_bytes[entry.store], hash);
        at += sizeof entry + worker->file.block_bytes[entry.store];
        entries++;
    }
    const struct prefix_file_end end = {PREFIX_FILE_END, 0, entries, hash, {0}};
    memcpy(bytes + at, &end, sizeof end);
}

static void file_load(struct worker *worker, const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, bytes, count) == (ssize_t)count && lseek(fd, 0, SEEK_SET) == 0);
    struct prefix_file_head head;
    struct prefix_file_figures figures;
    struct error_text error = {""};
    enum result result = prefix_file_open(fd, &worker->file, &head, &error);
    if (result == RESULT_OK)
        result = prefix_file_load(fd, &worker->file, &head, worker->ledger, &figures, &error);
    must(result == RESULT_OK || error.text[0] != '\0');
    close(fd);
}

static void features_use(struct worker *worker)
{
    struct feature_cache *cache = feature_cache_create(FEATURE_ROWS, KEPT_IMAGES);
    const struct feature_restored restored = feature_cache_keep(cache, worker->features);
    const struct feature_key key_of_all = {.content_hash = {1}, .salt = {7}, .rows = FEATURE_ROWS};
    uint32_t image;
    must(restored.images <= FEATURE_ROWS);
    must(feature_cache_figures(cache).used_rows <= FEATURE_ROWS);
    image = feature_cache_share(cache, &key_of_all);
    if (image == FEATURE_IMAGE_NONE)
        must(feature_cache_take(cache, &key_of_all, &image) == RESULT_OK);
    feature_cache_give(cache, image);
    feature_cache_reset(cache);
    feature_cache_destroy(cache);
    feature_ledger_destroy(worker->features);
    free(worker->images);
}

/* Records as a worker left them: any fields, every other commit word right. */
static void records_load(struct worker *worker, const uint8_t *bytes, size_t count)
{
    size_t most = sizeof worker->records;
    memcpy(worker->records, bytes, count < most ? count : most);
    for (uint32_t i = 0; i < RECORDS; i += 2) {
        struct kv_ledger_record *record = &worker->records[i];
        size_t from = offsetof(struct kv_ledger_record, block);
        record->commit = keyed_hash(&key, (const uint8_t *)record + from, sizeof *record - from);
    }
}

static void cache_use(struct worker *worker)
{
    struct kv_pools pools;
    const struct kv_pools_options options = {.layout = &worker->layout,
                                             .blocks = {FULL, SLIDING},
                                             .state_slots = 1,
                                             .checkpoint_slots = SLOTS,
                                             .keeps_prefixes = true,
                                             .ledger = worker->ledger};
    must(kv_pools_init(&pools, &options) == RESULT_OK);
    const struct prefix_restored restored = prefix_cache_restore(pools.prefixes);
    must(restored.blocks <= RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
        const struct prefix_block *block = &worker->records[i].block;
        struct kv_block_ref ref;
        uint32_t at =
            prefix_cache_find(pools.prefixes, prefix_cache_name(pools.prefixes, block), block);
        for (uint32_t store = 0; at != PREFIX_PLACE_NONE && store < PREFIX_STORES; store++)
            if (pools.prefixes && worker->file.block_bytes[store] > 0)
                (void)prefix_cache_has(pools.prefixes, at, store, &ref);
    }
    while (prefix_cache_evict(pools.prefixes, 0))
        continue;
    prefix_cache_reset(pools.prefixes);
    must(kv_pools_cached(&pools) == 0 && kv_pools_used(&pools) == 0);
    kv_pools_fini(&pools);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct worker worker;
    if (count == 0)
        return 0;
    uint8_t *copy = malloc(count); /* without room after it */
    must(copy != NULL);
    memcpy(copy, bytes + 1, count - 1);
    worker_begin(&worker);
    if (bytes[0] / 3 % 2 == 1)
        move_to_device(&worker);
    if (bytes[0] % 3 == 1)
        file_seal(&worker, copy, count - 1);
    if (bytes[0] % 3 == 2)
        records_load(&worker, copy, count - 1);
    else
        file_load(&worker, copy, count - 1);
    cache_use(&worker);
    features_use(&worker);
    kv_ledger_destroy(worker.ledger);
    free(copy);
    return 0;
}
