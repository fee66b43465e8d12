/*
 * The prompt prefixes that a worker has seen lately: a bounded table of hashes, one for each
 * leading block of 16 tokens; each hash covers all tokens up to its block's end.
 */
#ifndef SHOAL_FRONTEND_SERVE_WORKER_PREFIX_TABLE_H
#define SHOAL_FRONTEND_SERVE_WORKER_PREFIX_TABLE_H

#include "proto/keyed_hash.h"

#define PREFIX_BLOCK_TOKENS 16u
#define PREFIX_BLOCKS_MAX   1024u /* of one prompt; later blocks do not change the routing */

/* Hashes the complete blocks of ids[0..count), at most PREFIX_BLOCKS_MAX. Returns their number. */
uint32_t prefix_blocks_hash(const struct keyed_hash_key *key, const uint32_t *ids, size_t count,
                            uint64_t hashes[PREFIX_BLOCKS_MAX]);

struct prefix_table;

struct prefix_table *prefix_table_create(void);
void prefix_table_destroy(struct prefix_table *table);
/* Removes all hashes, after the worker's death. */
void prefix_table_clear(struct prefix_table *table);

/* Number of leading blocks that are in the table. */
uint32_t prefix_table_shared(const struct prefix_table *table, const uint64_t *hashes,
                             uint32_t count);
void prefix_table_add(struct prefix_table *table, const uint64_t *hashes, uint32_t count);

#endif
