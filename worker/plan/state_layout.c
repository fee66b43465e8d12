/*
 * The arithmetic of recurrent state.
 *
 * All recurrent layers of a checkpoint have the same shape (struct model_config), so a layer's
 * offset in a slot is its index times a constant. Where slots lie is decided by the backend: in one
 * region, or in one region per layer.
 */
#include "worker/plan/state_layout.h"

#include <string.h>

#include "worker/plan/model_config.h"

enum result state_layout_init(struct state_layout *layout, const struct model_config *config,
                              struct error_text *error)
{
    memset(layout, 0, sizeof *layout);
    uint64_t conv_floats = 0, delta_floats = 0;
    bool scans = false;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        enum layer_kind kind = config->layer[layer].kind;
        layout->layer_index[layer] = STATE_LAYER_NONE;
        if (!layer_kind_keeps_state(kind))
            continue;
        layout->layer_index[layer] = (uint16_t)layout->layers++;
        conv_floats = (uint64_t)(config->conv_taps - 1) * config->conv_channels;
        if (kind == LAYER_GATED_DELTA)
            delta_floats = (uint64_t)config->delta.value_heads * config->delta.value_dim *
                           config->delta.key_dim;
        if (layer_kind_scans(kind))
            delta_floats = (uint64_t)config->ssm.heads * config->ssm.head_dim * config->ssm.state;
        scans |= layer_kind_scans(kind);
    }
    if (conv_floats + delta_floats > LIMIT_STATE_FLOATS)
        return error_set(error, RESULT_TOO_LARGE,
                         "a layer's recurrent state of %llu floats is more than %u",
                         (unsigned long long)(conv_floats + delta_floats), LIMIT_STATE_FLOATS);
    layout->conv_floats = (uint32_t)conv_floats;
    layout->delta_floats = (uint32_t)delta_floats;
    layout->conv_row_floats = layout->layers > 0 ? config->conv_channels : 0;
    if (scans)
        layout->delta_row_floats = config->conv_channels + config->ssm.heads;
    else if (delta_floats > 0)
        layout->delta_row_floats = 2 * config->delta.key_heads * config->delta.key_dim +
                                   config->delta.value_heads * (config->delta.value_dim + 2);
    return RESULT_OK;
}

uint64_t state_layout_layer_floats(const struct state_layout *layout)
{
    return (uint64_t)layout->conv_floats + layout->delta_floats;
}

uint64_t state_layout_row_bytes(const struct state_layout *layout)
{
    return (uint64_t)layout->layers * (layout->conv_row_floats + layout->delta_row_floats) *
           sizeof(float);
}

uint64_t state_layout_slot_bytes(const struct state_layout *layout)
{
    return layout->layers * state_layout_layer_floats(layout) * sizeof(float);
}
