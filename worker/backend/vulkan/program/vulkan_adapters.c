/*
 * The table is in mapped memory and as large as the plan needs from the start, so that commands
 * which name its address stay valid.
 */
#include "worker/backend/vulkan/program/vulkan_adapters.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"

#define USUAL_RANK 64u

static uint64_t table_bytes(const struct plan *plan)
{
    return (plan->weight_count + 1ull) * LIMIT_ADAPTERS * sizeof(struct vulkan_adapter_pair);
}

static uint64_t low_bytes(uint32_t max_rows, uint32_t rank)
{
    return (uint64_t)max_rows * OP_WEIGHTS_MAX * rank * sizeof(float);
}

uint64_t vulkan_adapters_bytes(const struct plan *plan, uint32_t max_rows)
{
    return table_bytes(plan) + low_bytes(max_rows, USUAL_RANK);
}

enum result vulkan_adapters_create(const struct vulkan_device *device, const struct plan *plan,
                                   uint32_t max_rows, struct vulkan_adapters **created,
                                   struct error_text *error)
{
    struct vulkan_adapters *adapters = must_alloc(1, sizeof *adapters);
    *adapters = (struct vulkan_adapters){
        .device = device,
        .plan = plan,
        .max_rows = max_rows,
        .users = must_alloc(plan->weight_count + 1, sizeof *adapters->users)};
    uint64_t bytes = table_bytes(plan);
    enum result result = vulkan_buffer_create(device, VULKAN_UPLOAD, bytes, "the table of adapters",
                                              &adapters->table, error);
    if (result != RESULT_OK) {
        vulkan_adapters_destroy(adapters);
        return result;
    }
    memset(adapters->table.mapped, 0, bytes);
    *created = adapters;
    return RESULT_OK;
}

void vulkan_adapters_destroy(struct vulkan_adapters *adapters)
{
    if (!adapters)
        return;
    for (uint32_t slot = 0; slot < LIMIT_ADAPTERS; slot++)
        vulkan_adapter_destroy(adapters->slots[slot]);
    vulkan_buffer_destroy(adapters->device, &adapters->table);
    vulkan_buffer_destroy(adapters->device, &adapters->low);
    free(adapters->users);
    free(adapters);
}

static enum result reserve_rank(struct vulkan_adapters *adapters, uint32_t rank,
                                struct error_text *error)
{
    if (rank <= adapters->rank)
        return RESULT_OK;
    struct vulkan_buffer low;
    enum result result =
        vulkan_buffer_create(adapters->device, VULKAN_DEVICE, low_bytes(adapters->max_rows, rank),
                             "products with adapters", &low, error);
    if (result != RESULT_OK)
        return result;
    vulkan_buffer_destroy(adapters->device, &adapters->low);
    adapters->low = low;
    adapters->rank = rank;
    return RESULT_OK;
}

static struct vulkan_adapter_pair *entry(const struct vulkan_adapters *adapters,
                                         plan_weight_id weight, uint32_t slot)
{
    struct vulkan_adapter_pair *table = adapters->table.mapped;
    return &table[(size_t)weight * LIMIT_ADAPTERS + slot];
}

enum result vulkan_adapters_load(struct vulkan_adapters *adapters, uint32_t slot,
                                 const struct lora_adapter *source, struct error_text *error)
{
    must(slot < LIMIT_ADAPTERS && !adapters->slots[slot]);
    must(source->rank >= 1 && source->rank <= LIMIT_ADAPTER_RANK);
    struct vulkan_adapter *adapter;
    enum result result = vulkan_adapter_create(adapters->device, source, &adapter, error);
    if (result != RESULT_OK)
        return result;
    result = reserve_rank(adapters, source->rank, error);
    if (result != RESULT_OK) {
        vulkan_adapter_destroy(adapter);
        return result;
    }
    adapters->slots[slot] = adapter;
    for (uint32_t i = 0; i < adapter->pair_count; i++) {
        *entry(adapters, adapter->weights[i], slot) = adapter->pairs[i];
        adapters->users[adapter->weights[i]]++;
    }
    return RESULT_OK;
}

void vulkan_adapters_drop(struct vulkan_adapters *adapters, uint32_t slot)
{
    must(slot < LIMIT_ADAPTERS);
    struct vulkan_adapter *adapter = adapters->slots[slot];
    for (uint32_t i = 0; adapter && i < adapter->pair_count; i++) {
        memset(entry(adapters, adapter->weights[i], slot), 0, sizeof *adapter->pairs);
        adapters->users[adapter->weights[i]]--;
    }
    vulkan_adapter_destroy(adapter);
    adapters->slots[slot] = NULL;
}

bool vulkan_adapters_change(const struct vulkan_adapters *adapters, const struct plan_op *op)
{
    for (uint32_t i = 0; i < OP_WEIGHTS_MAX; i++)
        if (op->weights[i] != PLAN_NONE && adapters->users[op->weights[i]] > 0)
            return true;
    return false;
}

uint64_t vulkan_adapters_pairs(const struct vulkan_adapters *adapters, plan_weight_id weight)
{
    return adapters->table.address +
           (uint64_t)weight * LIMIT_ADAPTERS * sizeof(struct vulkan_adapter_pair);
}
