/*
 * Which images have their features in the pool, written down in memory that outlives the worker, so
 * that the next worker need not encode them again (worker/cache/README.md, "After a death").
 *
 * There is one record for each entry of the feature cache. As in kv_ledger.h, a record is committed
 * if its commit word fits the rest, and the steps are, in this order:
 *
 *   F1  feature_ledger_forget()   commit word = 0, then a release fence: the rows may be overwritten
 *   F2  feature_ledger_note()     the record's fields; the encoding is launched completely
 *   F3  feature_ledger_launched() a step begins, after all encodings launched so far
 *   F4  feature_ledger_finished() a step is done: release store of the commit words of all records
 *                                 noted before it was launched, because encodings and steps take
 *                                 effect in launch order
 *
 * A backend that encodes within the call has the features at F2, so F2 commits at once.
 */
#ifndef SHOAL_WORKER_CACHE_FEATURE_LEDGER_H
#define SHOAL_WORKER_CACHE_FEATURE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/image_record.h"
#include "proto/keyed_hash.h"
#include "proto/result.h"
#include "worker/plan/model_vision.h"

struct feature_key {
    uint8_t content_hash[IMAGE_HASH_BYTES];
    uint32_t salt[4]; /* run_params.h: cache_salt */
    struct image_shape shape;
    uint32_t rows; /* pool rows: the image's placeholders */
};

/*
 * offset  size  field      rule
 *      0     8  commit     F1, F4: 0, or the keyed hash of all fields from `key` on, never 0
 *      8     8  stamp      eviction order; not covered, any value is valid
 *     16    56  key        which image
 *     72     4  first_row  of its features
 *     76     4  number     the record's own place
 */
struct feature_record {
    _Atomic uint64_t commit;
    uint64_t stamp;
    struct feature_key key;
    uint32_t first_row;
    uint32_t number;
};
_Static_assert(sizeof(struct feature_record) == 80, "byte map");
_Static_assert(offsetof(struct feature_record, key) == 16, "byte map");
_Static_assert(offsetof(struct feature_record, first_row) == 72, "byte map");

struct feature_ledger_memory {
    struct feature_record *records; /* owned by the caller, outlive the ledger */
    uint32_t count;
    struct keyed_hash_key key; /* of commit words */
    bool encodes_at_once;      /* the backend encodes within the call */
};

struct feature_ledger;

struct feature_ledger *feature_ledger_create(const struct feature_ledger_memory *memory);
/* The records stay as they are. NULL is fine. */
void feature_ledger_destroy(struct feature_ledger *ledger);
uint32_t feature_ledger_count(const struct feature_ledger *ledger);

/* For records of an earlier worker. RESULT_EMPTY: not committed. RESULT_CORRUPT: its commit word does
 * not fit. */
struct feature_entry {
    struct feature_key key;
    uint32_t first_row;
    uint64_t stamp;
};
enum result feature_ledger_read(const struct feature_ledger *ledger, uint32_t number,
                                struct feature_entry *entry) RESULT_CHECKED;

/* The encoding of an image is launched completely. It was not noted since it was forgotten. */
void feature_ledger_note(struct feature_ledger *ledger, uint32_t number,
                         const struct feature_key *key, uint32_t first_row);
/* The same for rows that are in the pool already, read from a file: committed at once. */
void feature_ledger_restore(struct feature_ledger *ledger, uint32_t number,
                            const struct feature_entry *entry);
/* The rows are free to be overwritten from now on. */
void feature_ledger_forget(struct feature_ledger *ledger, uint32_t number);
/* Larger stamps are evicted later. */
void feature_ledger_set_stamp(struct feature_ledger *ledger, uint32_t number, uint64_t stamp);

/* A step was launched; the oldest step under way is done. */
void feature_ledger_launched(struct feature_ledger *ledger);
void feature_ledger_finished(struct feature_ledger *ledger);

#endif
