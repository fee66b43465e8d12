/*
 * Which layers keep recurrent state, and how much. Some layers keep a fixed number of floats per
 * sequence instead of keys and values: the last columns that a short convolution read, the matrices
 * of a gated delta net or of a state space mixer. A running sequence has a *slot* with the states of all such layers, as its
 * last computed position left them.
 *
 * A slot is never cleared: at position 0 zeros are used instead of its contents.
 */
#ifndef SHOAL_WORKER_PLAN_STATE_LAYOUT_H
#define SHOAL_WORKER_PLAN_STATE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/result.h"

#define STATE_SLOT_NONE  UINT32_MAX
#define STATE_LAYER_NONE UINT16_MAX

struct state_layout {
    uint32_t layers;      /* that keep state; 0: the model has none */
    uint32_t conv_floats; /* of a layer: [taps - 1, channels] */
    /* Of a layer: [value heads, value dim, key dim] of a delta net, or [heads, head dim, state] of a
     * state space mixer. */
    uint32_t delta_floats;
    /* With which a row advances a layer: its convolution's input [channels], and what its delta net
     * reads, queries | keys | values of all heads | beta | alpha, or its state space mixer, x | B | C |
     * steps. */
    uint32_t conv_row_floats;
    uint32_t delta_row_floats;
    uint16_t layer_index[LIMIT_LAYERS]; /* of a model layer among those that keep state, or NONE */
};

struct model_config;

/* RESULT_TOO_LARGE when a layer's state does not fit LIMIT_STATE_FLOATS. */
enum result state_layout_init(struct state_layout *layout, const struct model_config *config,
                              struct error_text *error) RESULT_CHECKED;

/* Of one layer: the convolution's columns, then the delta net's matrices. */
uint64_t state_layout_layer_floats(const struct state_layout *layout);
/* Bytes of one sequence's slot; 0 without recurrent layers. */
uint64_t state_layout_slot_bytes(const struct state_layout *layout);
/* Bytes of a kept row (struct step_sequence), of all layers. */
uint64_t state_layout_row_bytes(const struct state_layout *layout);

#endif
