/*
 * Reads the settings of vision towers that both formats have, into a checked vision_config.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_VISION_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_CHECKPOINT_VISION_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/vision_config.h"

/* Defaults of the configuration class, and the names of its keys. */
struct vision_terms {
    const char *hidden_key; /* the tower's */
    const char *layers_key;
    const char *heads_key;
    const char *activation_key; /* NULL: hidden_act */
    const char *activation;     /* the only supported one, and the default; NULL: not checked */
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads;
    uint32_t patch_side;
    float norm_epsilon;
};

/* Reads sizes; patches have three channels, heads have no rope. */
void checkpoint_vision_sizes(struct checkpoint_keys *keys, const struct vision_terms *terms,
                             struct vision_config *config);
/* Reads the name of an activation: gelu, gelu_pytorch_tanh, quick_gelu, silu. */
enum activation checkpoint_vision_activation(struct checkpoint_keys *keys, const char *key,
                                             enum activation absent);
/* Reads images of one square size with a learned table of positions: image_size and squares of
 * merge_side patches, which the caller has set. */
void checkpoint_vision_square(struct checkpoint_keys *keys, uint32_t image_pixels,
                              struct vision_config *config);
/* Reads the table of positions of images of any size, which is resized to each: as many positions as
 * squares of a patch fit into the pixels of key `name`. */
void checkpoint_vision_table(struct checkpoint_keys *keys, const char *name, uint32_t pixels,
                             struct vision_config *config);
/* Sets ropes[0]: the first half of a head's pairs rotates by the patch's line, the second by its
 * column, each with the frequencies of half a head. rope_parameters may state the base. */
void checkpoint_vision_rope(struct checkpoint_keys *keys, float absent_base,
                            struct vision_config *config);
/* The same, but the axes share the frequencies of a head: lines have those of even number, columns the
 * others. */
void checkpoint_vision_rope_shared(struct checkpoint_keys *keys, float absent_base,
                                   struct vision_config *config);
/* The same for adjacent pairs, each of which turns by a frequency of half a head: by the column and the
 * line in turn, or the first half of them by columns. */
void checkpoint_vision_rope_adjacent(struct checkpoint_keys *keys, float absent_base, bool in_turn,
                                     struct vision_config *config);
/* Sets ropes[0], by which the first half of a head rotates by the patch's column as if it were a
 * head, and ropes[1] for the second half and the line. */
void checkpoint_vision_rope_halves(struct checkpoint_keys *keys, float absent_base,
                                   struct vision_config *config);

#endif
