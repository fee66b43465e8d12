/*
 * The table of families. A new architecture is a row here, a file for each
 * format that reads what is its own in the checkpoint, and a file that lists its ops;
 * worker/model/README.md walks through it.
 *
 * Refuses to do: aliases. An architecture that is "almost llama" gets its own row, so that what
 * differs is written down.
 */
#include "worker/model/model_family.h"

/* Of GGUF, for families with experts. */
static const char *const expert_keys[] = {"expert_count", NULL};

static const struct model_family families[] = {
    {.architecture = "llama",
     .read_config = checkpoint_llama_read,
     .hf = &checkpoint_hf_llama,
     .list_ops = family_llama_list_ops},
    /* In GGUF it is called llama. */
    {.architecture = "mistral", .hf = &checkpoint_hf_mistral, .list_ops = family_llama_list_ops},
    {.architecture = "mistral3",
     .read_config = checkpoint_mistral3_read,
     .hf = &checkpoint_hf_ministral3,
     .list_ops = family_llama_list_ops},
    {.architecture = "qwen2",
     .read_config = checkpoint_qwen_read,
     .hf = &checkpoint_hf_qwen2,
     .list_ops = family_qwen2_list_ops},
    /* In GGUF the tower of these is a file of its own, which is not read. */
    {.architecture = "qwen2_vl",
     .hf = &checkpoint_hf_qwen2_vl,
     .list_ops = family_qwen2_list_ops,
     .list_vision_ops = tower_qwen2_vl_list_ops},
    {.architecture = "qwen2_5_vl",
     .hf = &checkpoint_hf_qwen2_5_vl,
     .list_ops = family_qwen2_list_ops,
     .list_vision_ops = tower_qwen2_5_vl_list_ops},
    {.architecture = "qwen3",
     .read_config = checkpoint_qwen_read,
     .hf = &checkpoint_hf_qwen3,
     .list_ops = family_qwen3_list_ops},
    {.architecture = "qwen3_vl",
     .hf = &checkpoint_hf_qwen3_vl,
     .list_ops = family_qwen3_list_ops,
     .list_vision_ops = tower_qwen3_vl_list_ops},
    {.architecture = "qwen3_vl_moe",
     .hf = &checkpoint_hf_qwen3_vl_moe,
     .list_ops = family_qwen3_moe_list_ops,
     .list_vision_ops = tower_qwen3_vl_list_ops},
    {.architecture = "idefics3",
     .hf = &checkpoint_hf_idefics3,
     .list_ops = family_llama_list_ops,
     .list_vision_ops = tower_idefics3_list_ops},
    {.architecture = "qwen3moe",
     .own_keys = expert_keys,
     .read_config = checkpoint_qwen3_moe_read,
     .hf = &checkpoint_hf_qwen3_moe,
     .list_ops = family_qwen3_moe_list_ops},
    {.architecture = "gpt-oss",
     .own_keys = expert_keys,
     .read_config = checkpoint_gpt_oss_read,
     .hf = &checkpoint_hf_gpt_oss,
     .list_ops = family_gpt_oss_list_ops},
    {.architecture = "phi3",
     .read_config = checkpoint_phi3_read,
     .hf = &checkpoint_hf_phi3,
     .list_ops = family_phi3_list_ops},
    {.architecture = "cohere2",
     .epsilon_key = "attention.layer_norm_epsilon",
     .own_keys = checkpoint_cohere2_own_keys,
     .read_config = checkpoint_cohere2_read,
     .hf = &checkpoint_hf_cohere2,
     .list_ops = family_cohere2_list_ops},
    {.architecture = "glm4",
     .read_config = checkpoint_glm4_read,
     .hf = &checkpoint_hf_glm4,
     .list_ops = family_glm4_list_ops},
    {.architecture = "gemma2",
     .own_keys = checkpoint_gemma2_own_keys,
     .read_config = checkpoint_gemma2_read,
     .hf = &checkpoint_hf_gemma2,
     .list_ops = family_gemma2_list_ops},
    {.architecture = "gemma3",
     .read_config = checkpoint_gemma3_read,
     .hf = &checkpoint_hf_gemma3,
     .list_ops = family_gemma3_list_ops,
     .list_vision_ops = tower_gemma3_list_ops},
    {.architecture = "qwen35",
     .own_keys = checkpoint_qwen3_5_own_keys,
     .read_config = checkpoint_qwen3_5_read,
     .hf = &checkpoint_hf_qwen3_5,
     .list_ops = family_qwen3_5_list_ops,
     .list_vision_ops = tower_qwen3_vl_list_ops},
    {.architecture = "qwen35moe",
     .own_keys = checkpoint_qwen3_5_moe_own_keys,
     .read_config = checkpoint_qwen3_5_moe_read,
     .hf = &checkpoint_hf_qwen3_5_moe,
     .list_ops = family_qwen3_5_list_ops,
     .list_vision_ops = tower_qwen3_vl_list_ops},
    {.architecture = "lfm2",
     .own_keys = checkpoint_lfm2_own_keys,
     .read_config = checkpoint_lfm2_read,
     .hf = &checkpoint_hf_lfm2,
     .list_ops = family_lfm2_list_ops},
    {.architecture = "gemma3n",
     .own_keys = checkpoint_gemma3n_own_keys,
     .read_config = checkpoint_gemma3n_read,
     .hf = &checkpoint_hf_gemma3n,
     .list_ops = family_gemma3n_list_ops},
    {.architecture = "gemma4",
     .own_keys = checkpoint_gemma4_own_keys,
     .read_config = checkpoint_gemma4_read,
     .hf = &checkpoint_hf_gemma4,
     .list_ops = family_gemma4_list_ops,
     .list_vision_ops = tower_gemma4_list_ops},
};
#define FAMILY_COUNT (sizeof(families) / sizeof(families[0]))

const struct model_family *model_family_find(struct gguf_string architecture)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (families[i].read_config && checkpoint_keys_is(architecture, families[i].architecture))
            return &families[i];
    return NULL;
}

const struct model_family *model_family_find_hf(struct gguf_string model_type)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        for (const char *const *type = families[i].hf->model_types; *type; type++)
            if (checkpoint_keys_is(model_type, *type))
                return &families[i];
    return NULL;
}
