/*
 * A fixed array of slots and a stack of the free ones.
 *
 * References from workers' events are checked: a number out of range, a free slot or an older
 * generation finds nothing. Slots are reused last-in first-out, which keeps the touched memory
 * small; the generation tells two users of a slot apart.
 */
#include "frontend/serve/engine/request_table.h"

#include <stdlib.h>

#include "proto/must.h"

struct request_table {
    uint32_t slot_count;
    uint32_t free_count;
    uint32_t *free_slots;
    struct live_request slots[];
};

struct request_table *request_table_create(uint32_t slot_count)
{
    must(slot_count > 0 && slot_count <= LIMIT_LIVE_REQUESTS);
    struct request_table *table =
        must_alloc(1, sizeof *table + slot_count * sizeof table->slots[0]);
    table->slot_count = slot_count;
    table->free_slots = must_alloc(slot_count, sizeof table->free_slots[0]);
    for (uint32_t i = 0; i < slot_count; i++) {
        table->slots[i].id = (struct request_id){.slot = i, .generation = 1};
        table->free_slots[table->free_count++] = slot_count - 1 - i;
    }
    return table;
}

void request_table_destroy(struct request_table *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i < table->slot_count; i++) {
        prepared_generation_fini(&table->slots[i].prepared);
        token_list_fini(&table->slots[i].generated);
    }
    free(table->free_slots);
    free(table);
}

struct live_request *request_table_take(struct request_table *table)
{
    if (table->free_count == 0)
        return NULL;
    return &table->slots[table->free_slots[--table->free_count]];
}

void request_table_give(struct request_table *table, struct live_request *request)
{
    must(request->state == LIVE_REQUEST_FREE && table->free_count < table->slot_count);
    must(request == &table->slots[request->id.slot]);
    table->free_slots[table->free_count++] = request->id.slot;
}

struct live_request *request_table_find(struct request_table *table, struct request_id id)
{
    if (id.slot >= table->slot_count)
        return NULL;
    struct live_request *request = &table->slots[id.slot];
    if (request->state == LIVE_REQUEST_FREE || request->id.generation != id.generation)
        return NULL;
    return request;
}

uint32_t request_table_live(const struct request_table *table)
{
    return table->slot_count - table->free_count;
}

uint32_t request_table_count(const struct request_table *table, enum live_request_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->slot_count; i++)
        count += table->slots[i].state == state;
    return count;
}

struct live_request *request_table_at(struct request_table *table, uint32_t index)
{
    must(index < table->slot_count);
    return &table->slots[index];
}

uint32_t request_table_slots(const struct request_table *table)
{
    return table->slot_count;
}
