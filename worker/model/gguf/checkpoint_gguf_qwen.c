/*
 * GGUF metadata of the architectures qwen2 and qwen3, beyond the sizes that all families have: one
 * rotary embedding over the halves of a head; rows are not permuted. Windows are not supported:
 * converters write none, so it is unknown which layers would have one.
 */
#include "worker/model/gguf/checkpoint_gguf.h"
#include "worker/model/gguf/checkpoint_gguf_rope.h"

#define QWEN_ROPE_BASE 10000.0f

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_keys_expect_neutral(keys, "attention.sliding_window", 0);
    config->rope_count = 1;
    config->ropes[0].pairing = ROPE_PAIRS_HALVES;
    checkpoint_gguf_read_rope(keys, config, QWEN_ROPE_BASE, &config->ropes[0]);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        config->layer[layer] = (struct layer_config){.window = 0};
}

/* qwen2vl is Qwen2-VL and Qwen2.5-VL, qwen3vl and qwen3vlmoe are Qwen3-VL: their pairs rotate by
 * time, line or column. Features of Qwen3-VL have further parts (n_deepstack_layers). */
static void read_qwen2_vl(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, config);
    checkpoint_gguf_read_sections(keys, false, &config->ropes[0]);
}

void checkpoint_gguf_read_qwen3_vl(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_gguf_read_sections(keys, true, &config->ropes[0]);
    config->deepstack_layers = checkpoint_keys_u32_or(keys, "n_deepstack_layers",
                                                      (struct u32_range){0, config->layers - 1}, 0);
}

static void read_qwen3_vl(struct checkpoint_keys *keys, struct model_config *config)
{
    read_config(keys, config);
    checkpoint_gguf_read_qwen3_vl(keys, config);
}

const struct gguf_form checkpoint_gguf_qwen2_vl = {
    .read_config = read_qwen2_vl,
};

const struct gguf_form checkpoint_gguf_qwen3_vl = {
    .read_config = read_qwen3_vl,
};

const struct gguf_form checkpoint_gguf_qwen2 = {
    .read_config = read_config,
};

const struct gguf_form checkpoint_gguf_qwen3 = {
    .read_config = read_config,
};
