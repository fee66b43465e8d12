/*
 * What a GGUF of the gemma3n architecture (text) states beyond the shared sizes.
 *
 * A list tells sliding layers from global ones; the last layers share keys; the first ones cut
 * their gates, and how far is written in deviations (the converter writes minus infinity for "not
 * at all"). The rank of the low-rank residual is only told by its matrices.
 *
 * Source: llama.cpp's converter; Hugging Face transformers, modeling_gemma3n.py.
 */
#include <math.h>
#include <stdio.h>

#include "worker/model/checkpoint/checkpoint_shared.h"
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define GLOBAL_ROPE_BASE 1000000.0f
#define LOCAL_ROPE_BASE  10000.0f
#define MOST_DEVIATIONS  100.0

enum { GLOBAL_ROPE, LOCAL_ROPE };

static const char *const own_keys[] = {"final_logit_softcapping", NULL};

static void read_ropes(struct checkpoint_keys *keys, struct model_config *config)
{
    struct rope_config *global = &config->ropes[GLOBAL_ROPE], *local = &config->ropes[LOCAL_ROPE];
    config->rope_count = 2;
    global->pairing = local->pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, GLOBAL_ROPE_BASE, global);
    float base = checkpoint_keys_f32_or(keys, "rope.freq_base_swa", (struct f32_range){1.0f, 1e12f},
                                        LOCAL_ROPE_BASE);
    local->dims = global->dims;
    if (keys->result == RESULT_OK)
        checkpoint_plain_rope(local, base, 1.0f);
}

static void read_layers(struct checkpoint_keys *keys, struct model_config *config)
{
    uint32_t sliding[LIMIT_LAYERS];
    uint32_t window = checkpoint_gguf_window(keys, config, true);
    uint32_t shared = checkpoint_keys_u32_or(keys, "attention.shared_kv_layers",
                                             (struct u32_range){0, LIMIT_LAYERS}, 0);
    if (!checkpoint_keys_u32_each(keys, "attention.sliding_window_pattern",
                                  (struct u32_range){0, 1}, config->layers, sliding)) {
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma3n.attention.sliding_window_pattern is missing");
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        config->layer[layer].rope = sliding[layer] ? LOCAL_ROPE : GLOBAL_ROPE;
        config->layer[layer].window = sliding[layer] ? window : 0;
    }
    checkpoint_share_caches(keys, config, shared);
}

static void read_cuts(struct checkpoint_keys *keys, struct model_config *config)
{
    static const char name[] = "gemma3n.activation_sparsity_scale";
    struct gguf_array scales;
    if (keys->result != RESULT_OK || gguf_file_array(keys->file, name, &scales) != RESULT_OK)
        return;
    if (scales.type != GGUF_FLOAT32 || scales.count != config->layers) {
        checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s has not one float a layer", name);
        return;
    }
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        double deviations = gguf_array_f64(&scales, layer);
        if (isinf(deviations) && deviations < 0.0)
            continue;
        if (!(fabs(deviations) <= MOST_DEVIATIONS))
            checkpoint_keys_refuse(keys, RESULT_INVALID, "key %s: element %u is %g", name, layer,
                                   deviations);
        config->layer[layer].cuts = true;
        config->layer[layer].cut_deviations = (float)deviations;
    }
}

static void read_laurel(struct checkpoint_keys *keys, struct model_config *config)
{
    const struct gguf_tensor *left = gguf_file_find_tensor(keys->file, "blk.0.laurel_l.weight");
    uint64_t rank = left ? left->dimensions[1] : 0;
    if (rank == 0 || rank > LIMIT_HIDDEN)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "tensor blk.0.laurel_l.weight: rank %llu, not within 1 to %u",
                               (unsigned long long)rank, LIMIT_HIDDEN);
    config->laurel_rank = (uint32_t)rank;
}

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    config->embedding_scale = sqrtf((float)config->hidden);
    config->attention_scale = 1.0f;
    config->logit_soft_cap = checkpoint_keys_f32_or(keys, "final_logit_softcapping",
                                                    (struct f32_range){0.0f, 1e6f}, 0.0f);
    config->streams = checkpoint_keys_u32(keys, "altup.num_inputs", (struct u32_range){2, 4});
    checkpoint_keys_expect_neutral(keys, "altup.active_idx", 0);
    config->scale_corrected = true;
    checkpoint_gguf_read_per_layer(keys, config);
    if (keys->result == RESULT_OK && config->per_layer_columns == 0)
        checkpoint_keys_refuse(keys, RESULT_INVALID,
                               "key gemma3n.embedding_length_per_layer_input is missing or 0");
    read_laurel(keys, config);
    read_ropes(keys, config);
    if (keys->result == RESULT_OK)
        read_layers(keys, config);
    read_cuts(keys, config);
}

const struct gguf_form checkpoint_gguf_gemma3n = {
    .own_keys = own_keys,
    .read_config = read_config,
};
