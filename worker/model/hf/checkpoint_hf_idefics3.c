/*
 * Hugging Face checkpoints of Idefics 3 and SmolVLM: llama for the text, SigLIP for pictures
 * (checkpoint_hf_siglip.c).
 *
 * Source: transformers, configuration_idefics3.py, configuration_smolvlm.py; mlx-vlm for names.
 */
#include "worker/model/hf/checkpoint_hf.h"
#include "worker/model/hf/checkpoint_hf_vision.h"

static const char *const model_types[] = {"idefics3", "smolvlm", NULL};
static const char *const prefixes[] = {"model.text_model.", "language_model.model.",
                                       "language_model.", NULL};
static const char *const other_parts[] = {"model.vision_model.", "vision_model.",
                                          "model.connector.", "connector.", NULL};

static void read_config(struct checkpoint_keys *keys, struct model_config *config)
{
    checkpoint_hf_llama.read_config(keys, config);
}

const struct hf_form checkpoint_hf_idefics3 = {
    .model_types = model_types,
    .defaults = {.layers = 32,
                 .hidden = 4096,
                 .feed_forward = 11008,
                 .heads = 32,
                 .vocab_tokens = 32000,
                 .norm_epsilon = 1e-5f},
    .activation_key = "hidden_act",
    .activation = "silu",
    .naming = {checkpoint_hf_usual_names, NULL, prefixes, other_parts},
    .read_config = read_config,
    .vision = &checkpoint_hf_idefics3_tower,
};
