/*
 * Reads the sizes of a state space mixer (Mamba 2) from GGUF metadata: <arch>.ssm.*.
 */
#ifndef SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_SSM_H
#define SHOAL_WORKER_MODEL_GGUF_CHECKPOINT_GGUF_SSM_H

#include "worker/model/checkpoint/checkpoint_keys.h"
#include "worker/plan/model_config.h"

/* Fills config->ssm and the sizes of the convolution. Steps are not bounded; factors are 1, because
 * converters multiply weights by them. Which biases there are, and whether there is a norm, is read from
 * the tensors of layer `first`, the first one with a mixer. */
void checkpoint_gguf_read_ssm(struct checkpoint_keys *keys, uint32_t first,
                              struct model_config *config);

#endif
