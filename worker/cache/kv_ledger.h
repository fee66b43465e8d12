/*
 * What the blocks of the KV pools contain, written down in memory that outlives the worker, so that
 * the next worker need not compute them again (worker/cache/README.md, "After a death").
 *
 * There is one record for each block and each checkpoint slot. The worker that owns the pools only
 * writes records; the next worker reads them before its first step. A record is committed if its
 * commit word fits the rest. The steps, in this order:
 *
 *   K1  kv_ledger_forget()    commit word = 0, then a release fence: the block may be overwritten
 *   K2  kv_ledger_note()      the record's fields; the commit word stays 0
 *   K3  kv_ledger_launched()  a step begins, which may write the block
 *   K4  kv_ledger_finished()  a step is done: release store of the commit words of all records noted
 *                             until it was launched
 *
 * So a committed record names a block whose rows are all computed, whenever the worker dies: before
 * K2 or K4 the block counts as free, after K1 too.
 */
#ifndef SHOAL_WORKER_CACHE_KV_LEDGER_H
#define SHOAL_WORKER_CACHE_KV_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/keyed_hash.h"
#include "proto/result.h"
#include "worker/cache/prefix_block.h"

/*
 * offset  size  field     rule
 *      0     8  commit    K1, K4: 0, or the keyed hash of all fields from `block` on, never 0
 *      8     8  stamp     eviction order (kv_block_pool_set_stamps()); not covered, any value is valid
 *     16    96  block     which tokens the block holds, and after which
 *    112     4  store     the record's own place
 *    116     4  number
 *    120     8  reserved  0
 */
struct kv_ledger_record {
    _Atomic uint64_t commit;
    uint64_t stamp;
    struct prefix_block block;
    uint32_t store;
    uint32_t number;
    uint64_t reserved;
};
_Static_assert(sizeof(struct kv_ledger_record) == 128, "byte map");
_Static_assert(offsetof(struct kv_ledger_record, block) == 16, "byte map");
_Static_assert(offsetof(struct kv_ledger_record, store) == 112, "byte map");

/* Where the records are: those of store 0, then those of store 1, and so on. Owned by the caller,
 * outlives the ledger. */
struct kv_ledger_memory {
    struct kv_ledger_record *records;
    uint32_t counts[PREFIX_STORES];
    struct keyed_hash_key key; /* of commit words and of the names of prefixes */
};

struct kv_ledger;

/* RESULT_OUT_OF_MEMORY if the books (24 bytes a record) cannot be allocated. */
enum result kv_ledger_create(const struct kv_ledger_memory *memory,
                             struct kv_ledger **ledger) RESULT_CHECKED;
/* The records stay as they are. NULL is fine. */
void kv_ledger_destroy(struct kv_ledger *ledger);

struct keyed_hash_key kv_ledger_key(const struct kv_ledger *ledger);
/* The number of records of a store. */
uint32_t kv_ledger_count(const struct kv_ledger *ledger, uint32_t store);
/* The records of a store. */
struct kv_ledger_record *kv_ledger_records(const struct kv_ledger *ledger, uint32_t store);

/* For records of an earlier worker. RESULT_EMPTY: not committed. RESULT_CORRUPT: its commit word does
 * not fit. */
struct kv_ledger_entry {
    struct prefix_block block;
    uint64_t stamp;
    uint32_t number;
};
enum result kv_ledger_read(const struct kv_ledger *ledger, uint32_t store, uint32_t number,
                           struct kv_ledger_entry *entry) RESULT_CHECKED;

/* Block `number` of `store` holds `block` once all steps launched so far are done. It was not noted
 * since it was forgotten. */
void kv_ledger_note(struct kv_ledger *ledger, uint32_t store, uint32_t number,
                    const struct prefix_block *block);
/* Of a noted block: whether its steps are done. */
bool kv_ledger_is_committed(const struct kv_ledger *ledger, uint32_t store, uint32_t number);
/* The block's contents are worth nothing from now on. */
void kv_ledger_forget(struct kv_ledger *ledger, uint32_t store, uint32_t number);

/* A step was launched; the oldest step under way is done. */
void kv_ledger_launched(struct kv_ledger *ledger);
void kv_ledger_finished(struct kv_ledger *ledger);

#endif
