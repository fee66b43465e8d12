/*
 * The slots of all live requests. Both processes name a request by slot and generation.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_TABLE_H
#define SHOAL_FRONTEND_SERVE_ENGINE_REQUEST_TABLE_H

#include "frontend/serve/engine/live_request.h"

struct request_table;

/* `slot_count` <= LIMIT_LIVE_REQUESTS. */
struct request_table *request_table_create(uint32_t slot_count);
void request_table_destroy(struct request_table *table);

/* A FREE slot, which the caller admits at once, or NULL if none is left. O(1). */
struct live_request *request_table_take(struct request_table *table);
/* Returns a slot that has become FREE. */
void request_table_give(struct request_table *table, struct live_request *request);

/* NULL if the slot is out of range, free, or of another generation. */
struct live_request *request_table_find(struct request_table *table, struct request_id id);
/* Number of slots in use. */
uint32_t request_table_live(const struct request_table *table);
/* Slots in `state`. O(slots). */
uint32_t request_table_count(const struct request_table *table, enum live_request_state state);
/* Slot `index` below request_table_slots(), free or not. */
struct live_request *request_table_at(struct request_table *table, uint32_t index);
uint32_t request_table_slots(const struct request_table *table);

#endif
