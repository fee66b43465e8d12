/*
 * Each recurrent layer has a region of its own, f32 [slots][floats of a layer], so that no
 * allocation needs to hold all layers. Regions are not cleared: a sequence that begins reads zeros
 * instead of its slot.
 */
#include "worker/backend/vulkan/program/vulkan_recurrent_states.h"

#include "proto/must.h"

enum result vulkan_recurrent_states_place(struct vulkan_program *program,
                                          const struct vulkan_kept_pools *kept, uint32_t slots,
                                          uint64_t more_bytes, struct error_text *error)
{
    const struct state_layout *layout = &program->plan->state;
    uint64_t bytes = slots * state_layout_layer_floats(layout) * sizeof(float);
    uint64_t padded = (bytes + VULKAN_ALIGNMENT - 1) / VULKAN_ALIGNMENT * VULKAN_ALIGNMENT;
    program->states = must_alloc(layout->layers + 1u, sizeof *program->states);
    program->state_memory = vulkan_kept_pools_state(kept, layout->layers * padded + more_bytes);
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        enum result result = vulkan_arena_take(program->state_memory, bytes, "recurrent state",
                                               &program->states[layer], error);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

void vulkan_recurrent_states_copy(const struct vulkan_program *program,
                                  struct vulkan_commands *commands, uint32_t from, uint32_t to)
{
    const struct state_layout *layout = &program->plan->state;
    uint64_t bytes = state_layout_layer_floats(layout) * sizeof(float);
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        const struct vulkan_piece *states = &program->states[layer];
        must((from + 1) * bytes <= states->bytes && (to + 1) * bytes <= states->bytes);
        vulkan_commands_copy(commands, states->buffer, states->offset + from * bytes,
                             states->buffer, states->offset + to * bytes, bytes);
    }
}
