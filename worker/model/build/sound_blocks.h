/*
 * Whisper's encoder over the log-mel rows of a sound: two convolutions over three mel rows, of which the
 * second goes on by two; positions; layers of attention over the whole sound, whose keys have no
 * bias (op_list.h, sound_rows and sound_taps):
 *
 *   y = gelu(K1 * mels + bias), x = gelu(K2 * y + bias) + positions
 *   each layer as in tower_blocks.h
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_SOUND_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_SOUND_BLOCKS_H

#include "worker/model/build/plan_ops.h"
#include "worker/plan/vision_config.h"

/* Lists the stages of the mel rows and of the layers; returns the residual [patches, hidden], before the
 * last norm v.post_ln. `table`: [table_side, hidden], positions of the rows. */
plan_tensor_id sound_blocks_list(struct plan_builder *b, const struct vision_config *c,
                                 plan_weight_id table);

#endif
