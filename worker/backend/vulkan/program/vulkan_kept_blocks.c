/*
 * Each copy is one submission, which is waited for: some 0.1 ms a block, beside the milliseconds that a file takes for its bytes.
 */
#include "worker/backend/vulkan/program/vulkan_kept_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "worker/backend/vulkan/program/vulkan_program_memory.h"
#include "worker/plan/content_hash.h"

struct vulkan_kept_blocks {
    const struct vulkan_program *program;
    struct vulkan_buffer staging;
    struct vulkan_commands *commands;
};

/* Where the parts of a block are: told to `part` one after the other. */
struct walk {
    const struct vulkan_program *program;
    void (*part)(struct walk *walk, const struct vulkan_buffer *buffer, uint64_t offset,
                 uint64_t bytes);
    struct vulkan_kept_blocks *blocks; /* NULL: the parts are only measured */
    bool out;
    uint64_t done_bytes;
};

static void part_measure(struct walk *walk, const struct vulkan_buffer *buffer, uint64_t offset,
                         uint64_t bytes)
{
    (void)buffer;
    (void)offset;
    walk->done_bytes += bytes;
}

static void part_copy(struct walk *walk, const struct vulkan_buffer *buffer, uint64_t offset,
                      uint64_t bytes)
{
    struct vulkan_kept_blocks *blocks = walk->blocks;
    if (walk->out)
        vulkan_commands_copy(blocks->commands, buffer, offset, &blocks->staging, walk->done_bytes,
                             bytes);
    else
        vulkan_commands_copy(blocks->commands, &blocks->staging, walk->done_bytes, buffer, offset,
                             bytes);
    walk->done_bytes += bytes;
}

/* Block `number` of a region of the KV cache. */
static void walk_region(struct walk *walk, uint64_t address, uint32_t number, uint64_t block_bytes)
{
    const struct vulkan_arena *arena = walk->program->kv_memory;
    for (uint32_t i = 0; i < vulkan_arena_chunk_count(arena); i++) {
        const struct vulkan_buffer *chunk = vulkan_arena_chunk(arena, i);
        if (address < chunk->address || address - chunk->address >= chunk->bytes)
            continue;
        walk->part(walk, chunk, address - chunk->address + number * block_bytes, block_bytes);
        return;
    }
    must(false); /* every region lies in a chunk */
}

static void walk_group(struct walk *walk, uint32_t group, uint32_t number)
{
    const struct vulkan_program *program = walk->program;
    const struct kv_layout *layout = &program->plan->kv;
    const struct kv_group *kind = &layout->groups[group];
    uint32_t layers_of = kind->kind == KV_OPENING ? kind->opening_of : group;
    uint64_t key_bytes = vulkan_program_kv_bytes(layout, group, false, 1);
    uint64_t value_bytes = vulkan_program_kv_bytes(layout, group, true, 1);
    const uint64_t tokens_bytes = KV_BLOCK_TOKENS * sizeof(uint32_t);
    if (group == 0 && program->history.bytes > 0)
        walk->part(walk, program->history.buffer, program->history.offset + number * tokens_bytes,
                   tokens_bytes);
    uint32_t placed = 0;
    for (uint32_t l = 0; l < layout->layer_count; l++) {
        if (layout->layer_group[l] != layers_of || layout->layer_index[l] != placed)
            continue; /* another group's, or an earlier layer's keys */
        const struct vulkan_kv_layer *layer =
            layers_of == group ? &program->kv[l] : &program->openings[l];
        walk_region(walk, layer->keys, number, key_bytes);
        if (value_bytes > 0)
            walk_region(walk, layer->values, number, value_bytes);
        placed++;
    }
}

static void walk_slot(struct walk *walk, uint32_t slot)
{
    const struct state_layout *layout = &walk->program->plan->state;
    uint64_t bytes = state_layout_layer_floats(layout) * sizeof(float);
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        const struct vulkan_piece *states = &walk->program->states[layer];
        walk->part(walk, states->buffer, states->offset + slot * bytes, bytes);
    }
}

static void walk_row(struct walk *walk, uint32_t row)
{
    const struct vulkan_program *program = walk->program;
    uint64_t bytes = program->feature_columns * sizeof(float);
    if (bytes > 0)
        walk->part(walk, program->features.buffer, program->features.offset + row * bytes, bytes);
}

static void walk_block(struct walk *walk, uint32_t store, uint32_t number)
{
    if (store == KEPT_POOLS_STATE)
        walk_slot(walk, number);
    else if (store == KEPT_POOLS_FEATURES)
        walk_row(walk, number);
    else
        walk_group(walk, store, number);
}

static uint64_t measure(const struct vulkan_program *program, uint32_t store)
{
    struct walk walk = {.program = program, .part = part_measure};
    walk_block(&walk, store, 0);
    return walk.done_bytes;
}

struct kept_pools_blocks vulkan_kept_blocks_describe(const struct vulkan_program *program)
{
    const struct vulkan_facts *facts = &program->device->facts;
    struct kept_pools_blocks blocks = {0};
    blocks.identity = content_hash(facts->device_id, sizeof facts->device_id, 0);
    blocks.identity = content_hash(facts->driver_id, sizeof facts->driver_id, blocks.identity);
    for (uint32_t group = 0; group < program->plan->kv.group_count; group++)
        blocks.bytes[group] = measure(program, group);
    for (uint32_t store = KEPT_POOLS_STATE; store < KEPT_POOLS_STORES; store++)
        blocks.bytes[store] = measure(program, store);
    return blocks;
}

enum result vulkan_kept_blocks_create(const struct vulkan_program *program,
                                      struct vulkan_kept_blocks **blocks, struct error_text *error)
{
    const struct kept_pools_blocks described = vulkan_kept_blocks_describe(program);
    uint64_t most = VULKAN_ALIGNMENT;
    for (uint32_t store = 0; store < KEPT_POOLS_STORES; store++)
        most = described.bytes[store] > most ? described.bytes[store] : most;
    struct vulkan_kept_blocks *made = must_alloc(1, sizeof *made);
    made->program = program;
    enum result result = vulkan_buffer_create(program->device, VULKAN_READBACK, most, "saved block",
                                              &made->staging, error);
    if (result == RESULT_OK)
        result = vulkan_commands_create(program->device, VULKAN_QUEUE_COMPUTE, 0, &made->commands,
                                        error);
    if (result != RESULT_OK) {
        vulkan_kept_blocks_destroy(made);
        return result;
    }
    *blocks = made;
    return RESULT_OK;
}

void vulkan_kept_blocks_destroy(struct vulkan_kept_blocks *blocks)
{
    if (!blocks)
        return;
    vulkan_commands_destroy(blocks->commands);
    vulkan_buffer_destroy(blocks->program->device, &blocks->staging);
    free(blocks);
}

enum result vulkan_kept_blocks_copy(struct vulkan_kept_blocks *blocks,
                                    const struct kept_pools_copy *copy, struct error_text *error)
{
    struct walk walk = {
        .program = blocks->program, .part = part_copy, .blocks = blocks, .out = copy->out};
    enum result result = vulkan_commands_begin(blocks->commands, error);
    if (result != RESULT_OK)
        return result;
    if (!copy->out)
        memcpy(blocks->staging.mapped, copy->bytes, measure(blocks->program, copy->store));
    walk_block(&walk, copy->store, copy->number);
    vulkan_commands_barrier(blocks->commands);
    result = vulkan_commands_end(blocks->commands, error);
    if (result == RESULT_OK)
        result = vulkan_commands_run(blocks->commands, error);
    if (result == RESULT_OK && copy->out)
        memcpy(copy->bytes, blocks->staging.mapped, walk.done_bytes);
    return result;
}
