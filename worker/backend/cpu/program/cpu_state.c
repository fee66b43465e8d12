/*
 * Addresses of sequences' recurrent state. A slot is not cleared when its owner changes: the op
 * that reads it uses zeros for a sequence that begins.
 */
#include "worker/backend/cpu/program/cpu_state.h"

#include <string.h>

#include "proto/must.h"

static float *layer_state(const struct cpu_program *program, uint32_t layer, uint32_t slot)
{
    const struct state_layout *layout = &program->plan->state;
    must(slot < program->state_slots && layout->layer_index[layer] != STATE_LAYER_NONE);
    uint64_t floats = state_layout_layer_floats(layout);
    float *slots = program->state_memory.bytes;
    return slots + ((uint64_t)slot * layout->layers + layout->layer_index[layer]) * floats;
}

float *cpu_state_conv(const struct cpu_program *program, uint32_t layer, uint32_t slot)
{
    return layer_state(program, layer, slot);
}

float *cpu_state_delta(const struct cpu_program *program, uint32_t layer, uint32_t slot)
{
    return layer_state(program, layer, slot) + program->plan->state.conv_floats;
}

float *cpu_state_conv_row(const struct cpu_program *program, uint32_t layer, uint32_t place)
{
    const struct state_layout *layout = &program->plan->state;
    must(place < program->deferred_places && layout->layer_index[layer] != STATE_LAYER_NONE);
    uint64_t floats = (uint64_t)layout->conv_row_floats + layout->delta_row_floats;
    float *rows = program->deferred_memory.bytes;
    return rows + ((uint64_t)place * layout->layers + layout->layer_index[layer]) * floats;
}

float *cpu_state_delta_row(const struct cpu_program *program, uint32_t layer, uint32_t place)
{
    return cpu_state_conv_row(program, layer, place) + program->plan->state.conv_row_floats;
}

uint32_t cpu_state_copied_after(const struct step_sequence *sequence)
{
    if (sequence->state_copy == STATE_SLOT_NONE)
        return 0;
    uint32_t advancing = sequence->late_rows + sequence->row_count - sequence->deferred_rows;
    must(sequence->rows_after_copy < advancing);
    return advancing - sequence->rows_after_copy;
}

void cpu_state_copy(const struct cpu_program *program, uint32_t from, uint32_t to)
{
    uint64_t slot_bytes = state_layout_slot_bytes(&program->plan->state);
    must(from < program->state_slots && to < program->state_slots && from != to);
    char *slots = program->state_memory.bytes;
    memcpy(slots + to * slot_bytes, slots + from * slot_bytes, slot_bytes);
}
