/*
 * Records noted while steps are under way wait in a list, in the order of the steps that they wait
 * for, linked through an array so that forgetting one takes constant time. Nothing is allocated
 * after create.
 *
 * Memory orders: the reader is another process and starts after the writer has died, when all of
 * the writer's executed stores are visible. Only the order of the stores matters, for a death
 * between two of them: the fence of K1 comes before every later store to the block, and the store of
 * K4 is a release store after those to the record.
 *
 * The commit word is a keyed hash, so it also finds damage. It is computed from private memory, and
 * the owner of the pools reads nothing back. A commit word cannot show that a worker wrote wrong
 * keys and values: contents are trusted like weights in a vault.
 */
#include "worker/cache/kv_ledger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define NONE UINT32_MAX

struct pending {
    uint32_t before; /* neighbours in the list */
    uint32_t after;
    uint64_t step;   /* number of launched steps when it was noted; 0: it is not pending */
    uint64_t commit; /* its commit word, computed before the record was in shared memory */
};

struct kv_ledger {
    struct kv_ledger_memory memory;
    uint32_t first_record[PREFIX_STORES];
    uint32_t record_count;
    struct pending *pending; /* [record_count] */
    uint32_t oldest;         /* of the list, or NONE */
    uint32_t newest;
    uint64_t launched; /* steps */
    uint64_t finished;
};

enum result kv_ledger_create(const struct kv_ledger_memory *memory, struct kv_ledger **created)
{
    struct kv_ledger *ledger = must_alloc(1, sizeof *ledger);
    ledger->memory = *memory;
    uint64_t count = 0;
    for (uint32_t store = 0; store < PREFIX_STORES; store++) {
        ledger->first_record[store] = (uint32_t)count;
        count += memory->counts[store];
    }
    must(count > 0 && count < NONE);
    ledger->record_count = (uint32_t)count;
    ledger->oldest = ledger->newest = NONE;
    ledger->pending = calloc(ledger->record_count, sizeof *ledger->pending);
    if (!ledger->pending) {
        free(ledger);
        return RESULT_OUT_OF_MEMORY;
    }
    *created = ledger;
    return RESULT_OK;
}

void kv_ledger_destroy(struct kv_ledger *ledger)
{
    if (!ledger)
        return;
    free(ledger->pending);
    free(ledger);
}

struct keyed_hash_key kv_ledger_key(const struct kv_ledger *ledger)
{
    return ledger->memory.key;
}

uint32_t kv_ledger_count(const struct kv_ledger *ledger, uint32_t store)
{
    must(store < PREFIX_STORES);
    return ledger->memory.counts[store];
}

struct kv_ledger_record *kv_ledger_records(const struct kv_ledger *ledger, uint32_t store)
{
    must(store < PREFIX_STORES);
    return ledger->memory.records + ledger->first_record[store];
}

/* Index of a record among all. */
static uint32_t index_of(const struct kv_ledger *ledger, uint32_t store, uint32_t number)
{
    must(store < PREFIX_STORES && number < ledger->memory.counts[store]);
    return ledger->first_record[store] + number;
}

static uint64_t commit_word(const struct kv_ledger *ledger, const struct kv_ledger_record *record)
{
    size_t from = offsetof(struct kv_ledger_record, block);
    uint64_t hash =
        keyed_hash(&ledger->memory.key, (const uint8_t *)record + from, sizeof *record - from);
    return hash ? hash : 1;
}

enum result kv_ledger_read(const struct kv_ledger *ledger, uint32_t store, uint32_t number,
                           struct kv_ledger_entry *entry)
{
    const struct kv_ledger_record *shared =
        &ledger->memory.records[index_of(ledger, store, number)];
    uint64_t commit = atomic_load_explicit(&shared->commit, memory_order_acquire); /* K4 */
    if (commit == 0)
        return RESULT_EMPTY;
    struct kv_ledger_record record;
    memcpy(&record, shared, sizeof record);
    if (commit != commit_word(ledger, &record) || record.store != store ||
        record.number != number || record.reserved != 0)
        return RESULT_CORRUPT;
    *entry =
        (struct kv_ledger_entry){.block = record.block, .stamp = record.stamp, .number = number};
    return RESULT_OK;
}

/* --- the list --------------------------------------------------------------------------------- */

static void append(struct kv_ledger *ledger, uint32_t index, uint64_t commit)
{
    struct pending *pending = &ledger->pending[index];
    *pending = (struct pending){
        .before = ledger->newest, .after = NONE, .step = ledger->launched, .commit = commit};
    if (ledger->newest != NONE)
        ledger->pending[ledger->newest].after = index;
    else
        ledger->oldest = index;
    ledger->newest = index;
}

static void take_out(struct kv_ledger *ledger, uint32_t index)
{
    struct pending *pending = &ledger->pending[index];
    if (pending->before != NONE)
        ledger->pending[pending->before].after = pending->after;
    else
        ledger->oldest = pending->after;
    if (pending->after != NONE)
        ledger->pending[pending->after].before = pending->before;
    else
        ledger->newest = pending->before;
    pending->step = 0;
}

/* --- the steps K1 to K4 ------------------------------------------------------------------------ */

static void commit_store(const struct kv_ledger *ledger, uint32_t index, uint64_t commit)
{
    atomic_store_explicit(&ledger->memory.records[index].commit, commit, memory_order_release);
}

/* The thread sanitizer does not model fences; the reader of this memory is a later process. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
/* K1 */
static void commit_clear(const struct kv_ledger *ledger, uint32_t index)
{
    atomic_store_explicit(&ledger->memory.records[index].commit, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

void kv_ledger_note(struct kv_ledger *ledger, uint32_t store, uint32_t number,
                    const struct prefix_block *block)
{
    uint32_t index = index_of(ledger, store, number);
    must(ledger->pending[index].step == 0);
    const struct kv_ledger_record record = {.block = *block, .store = store, .number = number};
    uint64_t commit = commit_word(ledger, &record);
    struct kv_ledger_record *shared = &ledger->memory.records[index];
    commit_clear(ledger, index);
    shared->block = record.block;
    shared->store = record.store;
    shared->number = record.number;
    shared->reserved = 0;
    if (ledger->finished == ledger->launched)
        commit_store(ledger, index, commit);
    else
        append(ledger, index, commit);
}

bool kv_ledger_is_committed(const struct kv_ledger *ledger, uint32_t store, uint32_t number)
{
    return ledger->pending[index_of(ledger, store, number)].step == 0;
}

void kv_ledger_forget(struct kv_ledger *ledger, uint32_t store, uint32_t number)
{
    uint32_t index = index_of(ledger, store, number);
    if (ledger->pending[index].step > 0)
        take_out(ledger, index);
    commit_clear(ledger, index);
}

void kv_ledger_launched(struct kv_ledger *ledger)
{
    ledger->launched++;
}

void kv_ledger_finished(struct kv_ledger *ledger)
{
    must(ledger->finished < ledger->launched);
    ledger->finished++;
    while (ledger->oldest != NONE && ledger->pending[ledger->oldest].step <= ledger->finished) {
        uint32_t index = ledger->oldest;
        take_out(ledger, index);
        commit_store(ledger, index, ledger->pending[index].commit);
    }
}
