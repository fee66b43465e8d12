/*
 * The conformer of Gemma's towers of sounds (Universal Speech Model): two convolutions over the log-mel map, each of steps
 * of two along time and mels, then layers of two halves of a feed-forward part, attention over near rows, and a convolution
 * over time:
 *
 *   y = relu(norm(K0 * mels)), y = relu(norm(K1 * y)), x = W . y, all mels and channels of a row; norms are of the channels of a
 *   point, or of everything up to its line of time
 *   each layer:  x += weight * norm(W2 . silu(W1 . norm(x)))
 *                x += norm(Wo . attention(Wq . n, Wk . n, Wv . n)), n = norm(x)
 *                x += We . silu(norm(taps * (a * sigmoid(b)))), a | b = Ws . norm(x)
 *                x += weight * norm(W4 . silu(W3 . norm(x)))
 *                x = norm(x)
 *
 * Attention: op near_attention, with queries times q_scale * softplus(scales of a head's columns), keys times k_scale, and a key
 * for the distance d of two rows, Wp . (sines of d over each timescale | cosines), timescales being a geometric sequence.
 *
 * Values before and after norms are clipped to +-clipping, and if the tower clips, inputs and outputs of matrices too.
 *
 * Source: transformers, modeling_gemma4.py (Gemma4AudioModel) and modeling_gemma3n.py (Gemma3nAudioEncoder).
 */
#ifndef SHOAL_WORKER_MODEL_BUILD_CONFORMER_BLOCKS_H
#define SHOAL_WORKER_MODEL_BUILD_CONFORMER_BLOCKS_H

#include "worker/model/build/plan_ops.h"
#include "worker/plan/vision_config.h"

#define CONFORMER_STEP 4u /* mel rows of a row */

/* Lists all stages up to the last layer's; returns the residual [patches, hidden]. */
plan_tensor_id conformer_blocks_list(struct plan_builder *b, const struct vision_config *c);

#endif
