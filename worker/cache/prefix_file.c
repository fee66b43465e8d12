/*
 * Saving: the entries of each store are sorted by their stamps, and of each store the same share of
 * the newest is written, the newest first, so that a limit on time or bytes keeps what will most
 * likely be used. In the order of eviction the end of a prefix comes before its beginning, so no
 * block is kept whose beginning is not.
 *
 * Loading: blocks are read straight into the pools, but the ledger is written after the last check.
 * Until then neither this worker nor one that follows after its death finds any of them.
 *
 * A worker does this in its sandbox: read(), write() and memory only. Blocks of a device pass through a buffer, one at a time.
 */
#include "worker/cache/prefix_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/must.h"
#include "worker/plan/content_hash.h"

/* --- bytes ------------------------------------------------------------------------------------- */

/* A file that is written or read from its beginning; the hash covers all bytes so far. */
struct stream {
    int fd;
    uint64_t bytes;
    uint64_t hash;
    uint8_t *buffer; /* for a block on its way from or to a device; NULL: pools are in memory */
    struct error_text *error;
};

static enum result stream_begin(struct stream *stream, const struct prefix_file_pools *pools)
{
    uint64_t most = 1;
    if (pools->memory)
        return RESULT_OK;
    for (uint32_t store = 0; store < PREFIX_FILE_STORES; store++)
        most = pools->block_bytes[store] > most ? pools->block_bytes[store] : most;
    stream->buffer = malloc(most);
    return stream->buffer ? RESULT_OK
                          : error_set(stream->error, RESULT_OUT_OF_MEMORY, "no memory for a block");
}

static enum result stream_write(struct stream *stream, const void *data, uint64_t count)
{
    const uint8_t *at = data;
    stream->hash = content_hash(data, count, stream->hash);
    stream->bytes += count;
    while (count > 0) {
        ssize_t written = write(stream->fd, at, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return error_set(stream->error, RESULT_IO, "%s", strerror(errno));
        at += written;
        count -= (uint64_t)written;
    }
    return RESULT_OK;
}

/* As read(), but not interrupted by signals. */
static ssize_t read_some(int fd, void *data, uint64_t count)
{
    ssize_t got;
    do
        got = read(fd, data, count);
    while (got < 0 && errno == EINTR);
    return got;
}

/* RESULT_CORRUPT: the file ends before. */
static enum result stream_read(struct stream *stream, void *data, uint64_t count)
{
    uint8_t *at = data;
    for (uint64_t done = 0; done < count;) {
        ssize_t got = read_some(stream->fd, at + done, count - done);
        if (got <= 0)
            return RESULT_CORRUPT;
        done += (uint64_t)got;
    }
    stream->hash = content_hash(data, count, stream->hash);
    stream->bytes += count;
    return RESULT_OK;
}

static uint64_t head_checksum(const struct prefix_file_head *head)
{
    return content_hash(head, offsetof(struct prefix_file_head, checksum), 0);
}

static uint8_t *block_of(const struct prefix_file_pools *pools, uint32_t store, uint32_t number)
{
    return pools->memory + pools->offsets[store] + number * pools->block_bytes[store];
}

/* Of a model that takes no images there is no such store. */
static bool has_features(const struct prefix_file_pools *pools)
{
    return pools->features && pools->block_bytes[PREFIX_FILE_FEATURES] > 0;
}

static uint64_t image_bytes(const struct prefix_file_pools *pools, uint32_t rows)
{
    return sizeof(struct prefix_file_image) + rows * pools->block_bytes[PREFIX_FILE_FEATURES];
}

/* --- saving ------------------------------------------------------------------------------------ */

static int newest_first(const void *first, const void *second)
{
    const struct kv_ledger_entry *a = first;
    const struct kv_ledger_entry *b = second;
    if (a->stamp != b->stamp)
        return a->stamp > b->stamp ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static int newest_image_first(const void *first, const void *second)
{
    const struct feature_entry *a = first;
    const struct feature_entry *b = second;
    if (a->stamp != b->stamp)
        return a->stamp > b->stamp ? -1 : 1;
    return a->first_row < b->first_row ? -1 : 1;
}

/* The committed entries of every store, each list sorted. The lists are the caller's. */
struct committed {
    struct kv_ledger_entry *entries[PREFIX_STORES];
    uint32_t counts[PREFIX_STORES];
    struct feature_entry *images;
    uint32_t image_count;
};

static void committed_fini(struct committed *found)
{
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        free(found->entries[store]);
    free(found->images);
}

static enum result images_find(const struct prefix_file_pools *pools, struct committed *found)
{
    uint32_t total = has_features(pools) ? feature_ledger_count(pools->features) : 0;
    if (total == 0)
        return RESULT_OK;
    found->images = malloc(total * sizeof *found->images);
    if (!found->images)
        return RESULT_OUT_OF_MEMORY;
    uint32_t count = 0;
    for (uint32_t number = 0; number < total; number++)
        count += feature_ledger_read(pools->features, number, &found->images[count]) == RESULT_OK;
    qsort(found->images, count, sizeof *found->images, newest_image_first);
    found->image_count = count;
    return RESULT_OK;
}

static enum result committed_find(const struct prefix_file_pools *pools,
                                  const struct kv_ledger *ledger, struct committed *found)
{
    *found = (struct committed){.image_count = 0};
    for (uint32_t store = 0; store < PREFIX_STORES; store++) {
        uint32_t total = pools->block_bytes[store] > 0 ? kv_ledger_count(ledger, store) : 0;
        if (total == 0)
            continue;
        struct kv_ledger_entry *entries = malloc(total * sizeof *entries);
        if (!entries)
            return RESULT_OUT_OF_MEMORY;
        uint32_t count = 0;
        for (uint32_t number = 0; number < total; number++)
            count += kv_ledger_read(ledger, store, number, &entries[count]) == RESULT_OK;
        qsort(entries, count, sizeof *entries, newest_first);
        found->entries[store] = entries;
        found->counts[store] = count;
    }
    return images_find(pools, found);
}

/* Keeps the newest images whose bytes are at most `room`. */
static void images_limit(const struct prefix_file_pools *pools, double room,
                         struct committed *found)
{
    double bytes = 0;
    uint32_t count = 0;
    while (count < found->image_count) {
        bytes += (double)image_bytes(pools, found->images[count].key.rows);
        if (bytes > room)
            break;
        count++;
    }
    found->image_count = count;
}

/* Of each store the share that fits the limit. */
static void committed_limit(const struct prefix_file_pools *pools, uint64_t limit_bytes,
                            struct committed *found)
{
    const uint64_t fixed = sizeof(struct prefix_file_head) + sizeof(struct prefix_file_end);
    uint64_t room = limit_bytes > fixed ? limit_bytes - fixed : 0;
    double images = 0;
    for (uint32_t i = 0; i < found->image_count; i++)
        images += (double)image_bytes(pools, found->images[i].key.rows);
    double all = images;
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        all += (double)found->counts[store] *
               (double)(sizeof(struct prefix_file_entry) + pools->block_bytes[store]);
    if (all <= (double)room)
        return;
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        found->counts[store] = (uint32_t)((double)found->counts[store] * ((double)room / all));
    images_limit(pools, images * ((double)room / all), found);
}

static int64_t now_ms(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static enum result block_write(struct stream *stream, const struct prefix_file_pools *pools,
                               uint32_t store, uint32_t number)
{
    enum result result = RESULT_OK;
    const uint8_t *block = stream->buffer;
    if (pools->memory)
        block = block_of(pools, store, number);
    else
        result = pools->copy(pools->context, store, number, true, stream->buffer, stream->error);
    return result == RESULT_OK ? stream_write(stream, block, pools->block_bytes[store]) : result;
}

static enum result entry_write(struct stream *stream, const struct prefix_file_pools *pools,
                               uint32_t store, const struct kv_ledger_entry *entry)
{
    const struct prefix_file_entry head = {.store = store, .block = entry->block};
    enum result result = stream_write(stream, &head, sizeof head);
    return result == RESULT_OK ? block_write(stream, pools, store, entry->number) : result;
}

static enum result image_write(struct stream *stream, const struct prefix_file_pools *pools,
                               const struct feature_entry *entry)
{
    const struct prefix_file_image head = {.store = PREFIX_FILE_FEATURES, .key = entry->key};
    must(entry->first_row <= pools->feature_rows &&
         entry->key.rows <= pools->feature_rows - entry->first_row);
    enum result result = stream_write(stream, &head, sizeof head);
    for (uint32_t row = 0; result == RESULT_OK && row < entry->key.rows; row++)
        result = block_write(stream, pools, PREFIX_FILE_FEATURES, entry->first_row + row);
    return result;
}

/* Round by round one entry of each store, so that a store with few entries is complete early. */
static enum result entries_write(struct stream *stream, const struct prefix_file_pools *pools,
                                 const struct committed *found, int64_t until_ms,
                                 struct prefix_file_figures *figures)
{
    bool more = true;
    for (uint32_t round = 0; more; round++) {
        more = false;
        for (uint32_t store = 0; store < PREFIX_STORES; store++) {
            if (round >= found->counts[store])
                continue;
            if (now_ms() >= until_ms)
                return RESULT_OK;
            more = true;
            enum result result = entry_write(stream, pools, store, &found->entries[store][round]);
            if (result != RESULT_OK)
                return result;
            figures->blocks++;
        }
        if (round >= found->image_count || now_ms() >= until_ms)
            continue;
        more = true;
        enum result result = image_write(stream, pools, &found->images[round]);
        if (result != RESULT_OK)
            return result;
        figures->images++;
    }
    return RESULT_OK;
}

static enum result head_write(struct stream *stream, const struct prefix_file_pools *pools,
                              const struct kv_ledger *ledger)
{
    struct prefix_file_head head = {
        .version = PREFIX_FILE_VERSION, .identity = pools->identity, .key = kv_ledger_key(ledger)};
    memcpy(head.magic, PREFIX_FILE_MAGIC, sizeof head.magic);
    memcpy(head.block_bytes, pools->block_bytes, sizeof head.block_bytes);
    head.checksum = head_checksum(&head);
    return stream_write(stream, &head, sizeof head);
}

enum result prefix_file_save(int fd, const struct prefix_file_pools *pools,
                             const struct kv_ledger *ledger,
                             const struct prefix_file_limits *limits,
                             struct prefix_file_figures *figures, struct error_text *error)
{
    *figures = (struct prefix_file_figures){0};
    struct stream stream = {.fd = fd, .error = error};
    struct committed found;
    int64_t until_ms = now_ms() + limits->save_ms;
    enum result result = committed_find(pools, ledger, &found);
    if (result != RESULT_OK)
        (void)error_set(error, result, "no memory for its index");
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        figures->left += found.counts[store];
    figures->images_left = found.image_count;
    committed_limit(pools, limits->bytes, &found);
    if (result == RESULT_OK)
        result = stream_begin(&stream, pools);
    if (result == RESULT_OK)
        result = head_write(&stream, pools, ledger);
    if (result == RESULT_OK)
        result = entries_write(&stream, pools, &found, until_ms, figures);
    if (result == RESULT_OK) {
        struct prefix_file_end end = {.store = PREFIX_FILE_END,
                                      .entries = (uint64_t)figures->blocks + figures->images,
                                      .hash = stream.hash};
        result = stream_write(&stream, &end, sizeof end);
    }
    free(stream.buffer);
    committed_fini(&found);
    figures->left -= figures->blocks;
    figures->images_left -= figures->images;
    figures->bytes = stream.bytes;
    return result;
}

/* --- loading ----------------------------------------------------------------------------------- */

enum result prefix_file_open(int fd, const struct prefix_file_pools *pools,
                             struct prefix_file_head *head, struct error_text *error)
{
    struct stream stream = {.fd = fd};
    if (stream_read(&stream, head, sizeof *head) != RESULT_OK ||
        memcmp(head->magic, PREFIX_FILE_MAGIC, sizeof head->magic) != 0 ||
        head->checksum != head_checksum(head))
        return error_set(error, RESULT_CORRUPT, "P1: its head is damaged");
    if (head->version != PREFIX_FILE_VERSION)
        return error_set(error, RESULT_STALE, "P1: it is of another version");
    if (head->identity != pools->identity ||
        memcmp(head->block_bytes, pools->block_bytes, sizeof head->block_bytes) != 0)
        return error_set(error, RESULT_STALE,
                         "P2: it is of another checkpoint, program or set of options");
    return RESULT_OK;
}

/* Entries whose blocks are in the pools and not yet in the ledgers. */
struct loaded {
    struct prefix_file_entry *entries;
    uint32_t *numbers;
    uint32_t count;
    uint32_t used[PREFIX_FILE_STORES]; /* blocks of each store, from number 0 on */
    struct feature_entry *images;
    uint32_t image_count;
    uint32_t image_room;
    uint32_t left; /* entries without room */
    uint32_t images_left;
};

static enum result loaded_begin(struct loaded *loaded, const struct prefix_file_pools *pools,
                                const struct kv_ledger *ledger)
{
    uint64_t room = 0;
    for (uint32_t store = 0; store < PREFIX_STORES; store++)
        room += pools->block_bytes[store] > 0 ? kv_ledger_count(ledger, store) : 0;
    loaded->image_room = has_features(pools) ? feature_ledger_count(pools->features) : 0;
    if (loaded->image_room > pools->kept_images)
        loaded->image_room = pools->kept_images;
    loaded->entries = malloc(room * sizeof *loaded->entries);
    loaded->numbers = malloc(room * sizeof *loaded->numbers);
    loaded->images = malloc((loaded->image_room + 1u) * sizeof *loaded->images);
    return loaded->entries && loaded->numbers && loaded->images ? RESULT_OK : RESULT_OUT_OF_MEMORY;
}

static void loaded_fini(struct loaded *loaded)
{
    free(loaded->entries);
    free(loaded->numbers);
    free(loaded->images);
}

/* Reads as one piece what was written as one, for the hash. */
static enum result block_skip(struct stream *stream, uint64_t count)
{
    uint8_t *unused = malloc(count);
    if (!unused)
        return RESULT_OUT_OF_MEMORY;
    enum result result = stream_read(stream, unused, count);
    free(unused);
    return result;
}

/* Into block `number` of the pools. */
static enum result block_read(struct stream *stream, const struct prefix_file_pools *pools,
                              uint32_t store, uint32_t number)
{
    if (pools->memory)
        return stream_read(stream, block_of(pools, store, number), pools->block_bytes[store]);
    enum result result = stream_read(stream, stream->buffer, pools->block_bytes[store]);
    if (result != RESULT_OK)
        return result;
    result = pools->copy(pools->context, store, number, false, stream->buffer, stream->error);
    return result == RESULT_OK ? result : RESULT_IO; /* the text says more */
}

static enum result entry_read(struct stream *stream, const struct prefix_file_pools *pools,
                              const struct kv_ledger *ledger, const struct prefix_file_entry *entry,
                              struct loaded *loaded)
{
    uint32_t store = entry->store;
    uint32_t number = loaded->used[store];
    if (number >= kv_ledger_count(ledger, store)) {
        loaded->left++;
        return block_skip(stream, pools->block_bytes[store]);
    }
    loaded->used[store]++;
    loaded->entries[loaded->count] = *entry;
    loaded->numbers[loaded->count++] = number;
    return block_read(stream, pools, store, number);
}

/* Images get rows one after the other. Those that do not fit are left out, smaller ones after them may fit. */
static enum result image_read(struct stream *stream, const struct prefix_file_pools *pools,
                              const struct prefix_file_entry *entry, struct loaded *loaded)
{
    struct prefix_file_image head;
    memcpy(&head, entry, sizeof head);
    uint32_t rows = head.key.rows;
    uint32_t first = loaded->used[PREFIX_FILE_FEATURES];
    enum result result = RESULT_OK;
    if (rows == 0 || rows > pools->feature_rows)
        return error_set(stream->error, RESULT_STALE, "P5: it has an image of an impossible size");
    bool fits = loaded->image_count < loaded->image_room && rows <= pools->feature_rows - first;
    for (uint32_t row = 0; result == RESULT_OK && row < rows; row++)
        result = fits ? block_read(stream, pools, PREFIX_FILE_FEATURES, first + row)
                      : block_skip(stream, pools->block_bytes[PREFIX_FILE_FEATURES]);
    loaded->images_left += !fits;
    if (!fits)
        return result;
    loaded->images[loaded->image_count++] =
        (struct feature_entry){.key = head.key, .first_row = first};
    loaded->used[PREFIX_FILE_FEATURES] += rows;
    return result;
}

static bool store_exists(const struct prefix_file_pools *pools, uint32_t store)
{
    if (store == PREFIX_FILE_FEATURES)
        return has_features(pools);
    return store < PREFIX_STORES && pools->block_bytes[store] > 0;
}

/* From the first entry to the end of the file, which it checks. */
static enum result entries_read(struct stream *stream, const struct prefix_file_pools *pools,
                                const struct kv_ledger *ledger, struct loaded *loaded,
                                uint64_t *entries, struct error_text *error)
{
    struct prefix_file_entry entry;
    for (*entries = 0;; ++*entries) {
        uint64_t hash = stream->hash;
        enum result result = stream_read(stream, &entry, sizeof entry);
        if (result == RESULT_OK && entry.store == PREFIX_FILE_END) {
            const struct prefix_file_end end = {
                .store = PREFIX_FILE_END, .entries = *entries, .hash = hash};
            uint8_t more;
            if (memcmp(&entry, &end, sizeof end) != 0 || read_some(stream->fd, &more, 1) != 0)
                return error_set(error, RESULT_CORRUPT, "P4: it is damaged");
            return RESULT_OK;
        }
        if (result == RESULT_OK && !store_exists(pools, entry.store))
            return error_set(error, RESULT_CORRUPT, "P3: it has a block of an unknown store");
        if (result == RESULT_OK && entry.store == PREFIX_FILE_FEATURES)
            result = image_read(stream, pools, &entry, loaded);
        else if (result == RESULT_OK)
            result = entry_read(stream, pools, ledger, &entry, loaded);
        if (result == RESULT_OUT_OF_MEMORY)
            return error_set(error, result, "no memory for a block of it");
        if (result == RESULT_IO || result == RESULT_STALE)
            return result;
        if (result != RESULT_OK)
            return error_set(error, result, "P4: it ends early");
    }
}

/* The newest entry gets the last place in the order of eviction. */
static void entries_note(const struct prefix_file_pools *pools, struct kv_ledger *ledger,
                         const struct loaded *loaded)
{
    for (uint32_t i = 0; i < loaded->image_count; i++) {
        loaded->images[i].stamp = loaded->image_count - i;
        feature_ledger_restore(pools->features, i, &loaded->images[i]);
    }
    for (uint32_t i = 0; i < loaded->count; i++) {
        const struct prefix_file_entry *entry = &loaded->entries[i];
        kv_ledger_note(ledger, entry->store, loaded->numbers[i], &entry->block);
        kv_ledger_records(ledger, entry->store)[loaded->numbers[i]].stamp = loaded->count - i;
    }
}

enum result prefix_file_load(int fd, const struct prefix_file_pools *pools,
                             const struct prefix_file_head *head, struct kv_ledger *ledger,
                             struct prefix_file_figures *figures, struct error_text *error)
{
    *figures = (struct prefix_file_figures){0};
    struct stream stream = {.fd = fd,
                            .bytes = sizeof *head,
                            .hash = content_hash(head, sizeof *head, 0),
                            .error = error};
    struct loaded loaded = {0};
    uint64_t entries;
    enum result result = loaded_begin(&loaded, pools, ledger);
    if (result == RESULT_OK)
        result = stream_begin(&stream, pools);
    else
        (void)error_set(error, result, "no memory for its index");
    if (result == RESULT_OK)
        result = entries_read(&stream, pools, ledger, &loaded, &entries, error);
    if (result == RESULT_OK) {
        entries_note(pools, ledger, &loaded);
        *figures = (struct prefix_file_figures){.blocks = loaded.count,
                                                .left = loaded.left,
                                                .images = loaded.image_count,
                                                .images_left = loaded.images_left,
                                                .bytes = stream.bytes};
    }
    free(stream.buffer);
    loaded_fini(&loaded);
    return result;
}
