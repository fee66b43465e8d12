/*
 * The part of the KV vault that is host memory: a memfd that the frontend opens for each worker and
 * holds beyond its life. Contents:
 *
 *   0                   struct kv_vault_head
 *   4096                struct kv_ledger_record, one for each block and checkpoint slot; then struct
 *                       feature_record, one for each image of the feature cache
 *   next multiple of    memory of the pools, if that is host memory (data_bytes; on a device it is
 *   2 MiB               in allocations that the driver exports)
 *
 * Every field of the head but key and pool number follows from checkpoint, program and options: a
 * worker makes the head that it would write itself, and adopts the vault if the one it finds is
 * equal in these. Otherwise it empties the vault and begins a new pool. The rules:
 *
 *   H1  the checksum fits
 *   H2  magic, version and record size are this build's
 *   H3  identity: program file, checkpoint, layouts, options that change keys and values
 *   H4  the numbers of blocks in each store and of images, and the size of the pools
 *   H5  the file has the size that follows
 */
#ifndef SHOAL_WORKER_CACHE_KV_VAULT_H
#define SHOAL_WORKER_CACHE_KV_VAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/feature_ledger.h"
#include "worker/cache/kv_ledger.h"

#define KV_VAULT_MAGIC   "SHOALKVC"
#define KV_VAULT_VERSION 4u

/*
 * offset  size  field         rule
 *      0     8  magic         H2
 *      8     4  version       H2
 *     12     4  record_bytes  H2
 *     16     8  identity      H3
 *     24     8  limit_bytes   memory that the budget was made for; not compared
 *     32     8  data_bytes    H4
 *     40    20  counts        H4
 *     60     4  images        H4: records of the feature ledger
 *     64    16  key           random: of names and commit words
 *     80     8  pool          random, never 0: which memory of a device belongs to the records
 *     88     8  checksum      H1: content_hash() of all fields before
 */
struct kv_vault_head {
    char magic[8];
    uint32_t version;
    uint32_t record_bytes;
    uint64_t identity;
    uint64_t limit_bytes;
    uint64_t data_bytes;
    uint32_t counts[PREFIX_STORES];
    uint32_t images;
    struct keyed_hash_key key;
    uint64_t pool;
    uint64_t checksum;
};
_Static_assert(sizeof(struct kv_vault_head) == 96, "byte map");

struct kv_vault_shape {
    uint64_t identity;
    uint64_t limit_bytes;
    uint64_t data_bytes;
    uint32_t counts[PREFIX_STORES];
    uint32_t images; /* 0: the model takes none */
    bool in_use;     /* by a running worker: adopted or not opened */
};

struct kv_vault {
    uint8_t *bytes; /* mapping of head and records; NULL: closed */
    uint64_t byte_count;
    uint64_t data_offset; /* of the pools' memory */
    struct kv_vault_shape shape;
    struct keyed_hash_key key;
    uint64_t pool;
    bool adopted;             /* the records are an earlier worker's */
    struct error_text reason; /* why not, if there was a vault of another kind; else "" */
};

/* limit_bytes of an intact vault of that identity; 0: there is none. A device's free memory does not
 * include pools that the vault keeps, so the next worker uses the same limit. */
uint64_t kv_vault_limit(int fd, uint64_t identity);
/* Adopts the vault or begins a new pool in it. RESULT_IO: the memory cannot be sized or mapped.
 * RESULT_STALE: it is in use and not of this shape. */
enum result kv_vault_open(int fd, const struct kv_vault_shape *shape, struct kv_vault *vault,
                          struct error_text *error) RESULT_CHECKED;
/* Discards all records: the pool's memory is another one, with this number. */
void kv_vault_renew(struct kv_vault *vault, uint64_t pool);
/* The same, and the key of names is another one. */
void kv_vault_renew_with_key(struct kv_vault *vault, const struct keyed_hash_key *key);
/* For kv_ledger_create(); valid until the vault is closed. */
struct kv_ledger_memory kv_vault_ledger(const struct kv_vault *vault);
/* Records of images and the key, for feature_ledger_create(); likewise. */
struct feature_ledger_memory kv_vault_feature_ledger(const struct kv_vault *vault);
/* Ends the mapping; the contents stay. A zeroed struct is allowed. */
void kv_vault_close(struct kv_vault *vault);
/* A random number, not 0. */
uint64_t kv_vault_draw_pool(void);

#endif
