/*
 * The prefix cache and the features of images as a file: how they get from the last worker of a server to the first worker of the
 * next one (frontend/serve/worker/README.md, "Over a planned restart").
 *
 *   struct prefix_file_head
 *   entries, most recently used first: struct prefix_file_entry, then the bytes of its block,
 *                                      or struct prefix_file_image, then the rows of its features
 *   struct prefix_file_end
 *
 * The file is written and read in one pass. It belongs to one program file, checkpoint and set of
 * options, so numbers are in the byte order of the machine. The rules, of which any violation refuses
 * the whole file:
 *
 *   P1  magic, version and checksum of the head fit
 *   P2  the identity and the bytes of a block of each store, and of a row of features, are this worker's
 *   P3  an entry's store exists
 *   P4  the end follows the last entry; its count and its hash over all bytes before it fit
 *   P5  an image has one row of features at least, and all rows of the pool at most
 *
 * Beyond this the contents are trusted like those of a vault: a file with wrong keys and values and a
 * valid hash cannot be detected. No offset is taken from the file, and no size but that of P5.
 */
#ifndef SHOAL_WORKER_CACHE_PREFIX_FILE_H
#define SHOAL_WORKER_CACHE_PREFIX_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.h"
#include "worker/cache/feature_ledger.h"
#include "worker/cache/kv_ledger.h"

#define PREFIX_FILE_MAGIC   "SHOALPFX"
#define PREFIX_FILE_VERSION 4u
/* Stores of the file: those of the prefix cache, and the pool of features, of which a block is a row. */
#define PREFIX_FILE_FEATURES PREFIX_STORES
#define PREFIX_FILE_STORES   (PREFIX_STORES + 1u)
#define PREFIX_FILE_END      UINT32_MAX /* instead of a store */

/*
 * offset  size  field        rule
 *      0     8  magic        P1
 *      8     4  version      P1
 *     12     4  reserved     0
 *     16     8  identity     P2
 *     24    16  key          of the names of prefixes
 *     40    48  block_bytes  P2: 0 for a store that does not exist
 *     88     8  checksum     P1: content_hash() of all fields before
 */
struct prefix_file_head {
    char magic[8];
    uint32_t version;
    uint32_t reserved;
    uint64_t identity;
    struct keyed_hash_key key;
    uint64_t block_bytes[PREFIX_FILE_STORES];
    uint64_t checksum;
};
_Static_assert(sizeof(struct prefix_file_head) == 96, "byte map");

/*
 * offset  size  field     rule
 *      0     4  store     P3
 *      4     4  reserved  0
 *      8    96  block     which tokens the block holds, and after which
 */
struct prefix_file_entry {
    uint32_t store;
    uint32_t reserved;
    struct prefix_block block;
};
_Static_assert(sizeof(struct prefix_file_entry) == 104, "byte map");

/*
 * offset  size  field     rule
 *      0     4  store     PREFIX_FILE_FEATURES
 *      4     4  reserved  0
 *      8    56  key       which image; its rows: P5
 *     64    40  unused    0; so that it is read like an entry
 */
struct prefix_file_image {
    uint32_t store;
    uint32_t reserved;
    struct feature_key key;
    uint32_t unused[10];
};
_Static_assert(sizeof(struct prefix_file_image) == sizeof(struct prefix_file_entry), "byte map");

/*
 * offset  size  field     rule
 *      0     4  store     PREFIX_FILE_END
 *      4     4  reserved  0
 *      8     8  entries   P4
 *     16     8  hash      P4
 *     24    80  unused    0; so that it is read like an entry
 */
struct prefix_file_end {
    uint32_t store;
    uint32_t reserved;
    uint64_t entries;
    uint64_t hash;
    uint64_t unused[10];
};
_Static_assert(sizeof(struct prefix_file_end) == sizeof(struct prefix_file_entry), "byte map");

/* The pools of this worker. In host memory, block n of a store is at memory + offsets[store] + n * block_bytes[store]. */
struct prefix_file_pools {
    uint64_t identity;
    uint64_t block_bytes[PREFIX_FILE_STORES]; /* 0: no such store */
    uint64_t offsets[PREFIX_FILE_STORES];
    uint32_t feature_rows;           /* of the pool */
    uint32_t kept_images;            /* at most, that are loaded */
    struct feature_ledger *features; /* NULL: the model takes no images */
    uint8_t *memory; /* NULL: on a device; copies a block from there (`out`) or there: */
    enum result (*copy)(void *context, uint32_t store, uint32_t number, bool out, void *bytes,
                        struct error_text *error);
    void *context;
};

struct prefix_file_figures {
    uint32_t blocks; /* written or loaded, checkpoints included */
    uint32_t left;   /* not written because of a limit, or not loaded for lack of room */
    uint32_t images; /* likewise */
    uint32_t images_left;
    uint64_t bytes; /* of the file */
};

struct prefix_file_limits {
    uint64_t bytes;   /* of the file */
    uint32_t save_ms; /* after which no further entry is begun */
};

/* Writes the committed blocks and images of the ledgers, of each store the same share of the most
 * recently used.
 * No step is under way. On any error the file is not complete. */
enum result prefix_file_save(int fd, const struct prefix_file_pools *pools,
                             const struct kv_ledger *ledger,
                             const struct prefix_file_limits *limits,
                             struct prefix_file_figures *figures,
                             struct error_text *error) RESULT_CHECKED;

/* Reads the head. RESULT_CORRUPT (P1) or RESULT_STALE (P2), with the reason. */
enum result prefix_file_open(int fd, const struct prefix_file_pools *pools,
                             struct prefix_file_head *head,
                             struct error_text *error) RESULT_CHECKED;
/* After prefix_file_open(): reads blocks into the pools, which nothing has used yet, and notes them in
 * the ledgers, whose key is the file's, once the whole file is checked. On any error (RESULT_CORRUPT,
 * RESULT_OUT_OF_MEMORY, RESULT_IO: of a device) the ledgers are as before, and the memory of the pools undefined. */
enum result prefix_file_load(int fd, const struct prefix_file_pools *pools,
                             const struct prefix_file_head *head, struct kv_ledger *ledger,
                             struct prefix_file_figures *figures,
                             struct error_text *error) RESULT_CHECKED;

#endif
