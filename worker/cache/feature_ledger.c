/*
 * Steps F1 to F4 (feature_ledger.h). Memory orders and trust are those of kv_ledger.c: the reader is
 * a later process, and the commit word is a keyed hash computed from private memory.
 *
 * Few images are ready and not yet committed, and they wait for one step, so finishing a step walks
 * all entries only if one of them waits.
 */
#include "worker/cache/feature_ledger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

struct feature_pending {
    uint64_t step; /* number of the first step launched after the encoding; 0: it is not pending */
    uint64_t commit; /* its commit word */
};

struct feature_ledger {
    struct feature_ledger_memory memory;
    struct feature_pending *pending; /* [memory.count] */
    uint32_t waiting;                /* of these, pending ones */
    uint64_t launched;               /* steps */
    uint64_t finished;
};

struct feature_ledger *feature_ledger_create(const struct feature_ledger_memory *memory)
{
    must(memory->count > 0);
    struct feature_ledger *ledger = must_alloc(1, sizeof *ledger);
    ledger->memory = *memory;
    ledger->pending = must_alloc(memory->count, sizeof *ledger->pending);
    return ledger;
}

void feature_ledger_destroy(struct feature_ledger *ledger)
{
    if (!ledger)
        return;
    free(ledger->pending);
    free(ledger);
}

uint32_t feature_ledger_count(const struct feature_ledger *ledger)
{
    return ledger->memory.count;
}

static struct feature_record *record_at(const struct feature_ledger *ledger, uint32_t number)
{
    must(number < ledger->memory.count);
    return &ledger->memory.records[number];
}

static uint64_t commit_word(const struct feature_ledger *ledger,
                            const struct feature_record *record)
{
    size_t from = offsetof(struct feature_record, key);
    uint64_t hash =
        keyed_hash(&ledger->memory.key, (const uint8_t *)record + from, sizeof *record - from);
    return hash ? hash : 1;
}

enum result feature_ledger_read(const struct feature_ledger *ledger, uint32_t number,
                                struct feature_entry *entry)
{
    const struct feature_record *shared = record_at(ledger, number);
    uint64_t commit = atomic_load_explicit(&shared->commit, memory_order_acquire); /* F2, F4 */
    if (commit == 0)
        return RESULT_EMPTY;
    struct feature_record record;
    memcpy(&record, shared, sizeof record);
    if (commit != commit_word(ledger, &record) || record.number != number)
        return RESULT_CORRUPT;
    *entry = (struct feature_entry){
        .key = record.key, .first_row = record.first_row, .stamp = record.stamp};
    return RESULT_OK;
}

static void commit_store(const struct feature_ledger *ledger, uint32_t number, uint64_t commit)
{
    atomic_store_explicit(&record_at(ledger, number)->commit, commit, memory_order_release);
}

/* The thread sanitizer does not model fences; the reader of this memory is a later process. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
/* F1 */
static void commit_clear(const struct feature_ledger *ledger, uint32_t number)
{
    atomic_store_explicit(&record_at(ledger, number)->commit, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

/* The commit word of the record that it writes, which is not committed. */
static uint64_t record_write(struct feature_ledger *ledger, uint32_t number,
                             const struct feature_key *key, uint32_t first_row)
{
    must(ledger->pending[number].step == 0);
    const struct feature_record record = {.key = *key, .first_row = first_row, .number = number};
    uint64_t commit = commit_word(ledger, &record);
    struct feature_record *shared = record_at(ledger, number);
    commit_clear(ledger, number);
    shared->key = record.key;
    shared->first_row = record.first_row;
    shared->number = record.number;
    return commit;
}

void feature_ledger_note(struct feature_ledger *ledger, uint32_t number,
                         const struct feature_key *key, uint32_t first_row)
{
    uint64_t commit = record_write(ledger, number, key, first_row);
    if (ledger->memory.encodes_at_once) {
        commit_store(ledger, number, commit);
        return;
    }
    ledger->pending[number] =
        (struct feature_pending){.step = ledger->launched + 1, .commit = commit};
    ledger->waiting++;
}

void feature_ledger_restore(struct feature_ledger *ledger, uint32_t number,
                            const struct feature_entry *entry)
{
    uint64_t commit = record_write(ledger, number, &entry->key, entry->first_row);
    record_at(ledger, number)->stamp = entry->stamp;
    commit_store(ledger, number, commit);
}

void feature_ledger_forget(struct feature_ledger *ledger, uint32_t number)
{
    commit_clear(ledger, number);
    ledger->waiting -= ledger->pending[number].step > 0;
    ledger->pending[number].step = 0;
}

void feature_ledger_set_stamp(struct feature_ledger *ledger, uint32_t number, uint64_t stamp)
{
    record_at(ledger, number)->stamp = stamp;
}

void feature_ledger_launched(struct feature_ledger *ledger)
{
    ledger->launched++;
}

void feature_ledger_finished(struct feature_ledger *ledger)
{
    must(ledger->finished < ledger->launched);
    ledger->finished++;
    for (uint32_t i = 0; i < ledger->memory.count && ledger->waiting > 0; i++) {
        struct feature_pending *pending = &ledger->pending[i];
        if (pending->step == 0 || pending->step > ledger->finished)
            continue;
        commit_store(ledger, i, pending->commit);
        pending->step = 0;
        ledger->waiting--;
    }
}
