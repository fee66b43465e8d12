/*
 * The rows of a step that have an adapter, sorted by it, for products that compute the rows of one
 * adapter together.
 */
#ifndef SHOAL_WORKER_BACKEND_HOST_ADAPTER_ROWS_H
#define SHOAL_WORKER_BACKEND_HOST_ADAPTER_ROWS_H

#include "worker/backend/host/step_batch.h"

/* A run of rows that share an adapter: order[first], order[first + 1], ... (shaders/adapter.glsl) */
struct adapter_tile {
    uint32_t adapter; /* its slot */
    uint32_t first;
    uint32_t count;  /* 1..tile_rows */
    uint32_t unused; /* 0 */
};
_Static_assert(sizeof(struct adapter_tile) == 16, "byte map");

struct adapter_rows {
    uint32_t *order; /* [max_rows] their numbers, by adapter; ascending for one adapter */
    struct adapter_tile *tiles; /* [max_rows] */
    uint32_t tile_count;
    uint32_t tile_rows; /* of a tile at most */
};

/* Of steps of at most `max_rows` rows. A zeroed struct has no rows and may be given to fini(). */
void adapter_rows_init(struct adapter_rows *rows, uint32_t max_rows, uint32_t tile_rows);
void adapter_rows_fini(struct adapter_rows *rows);

/* `logits`: sorts the indices of the batch's logit rows instead of its rows. */
void adapter_rows_sort(struct adapter_rows *rows, const struct step_batch *batch, bool logits);
/* Tiles that so many rows can have at most. */
uint32_t adapter_rows_tiles_most(uint32_t rows, uint32_t tile_rows);

#endif
