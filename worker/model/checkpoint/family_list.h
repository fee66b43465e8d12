/*
 * The list of model families. FAMILY(x) declares the five objects that a family can have:
 *
 *   family_x             its row (family/family_<name>.c)
 *   checkpoint_gguf_x    how GGUF states it, if another file uses it too (gguf/)
 *   checkpoint_hf_x      how config.json states it, if another file uses it too (hf/)
 *   tower_x_list_ops()   its vision tower (family/tower_<name>.c), if it has one of its own
 *   tower_x_sound_list_ops()   its tower of sounds, likewise
 *
 * Only the row must exist; it points to the others. Variants with the same ops share a file:
 * family_llama.c has the rows of llama, mistral, ministral3 and idefics3.
 */
#ifndef SHOAL_WORKER_MODEL_CHECKPOINT_FAMILY_LIST_H
#define SHOAL_WORKER_MODEL_CHECKPOINT_FAMILY_LIST_H

#include "worker/model/checkpoint/family_form.h"

/* clang-format off */
#define FAMILY_LIST(FAMILY) \
    FAMILY(llama)           \
    FAMILY(mistral)         \
    FAMILY(ministral3)      \
    FAMILY(idefics3)        \
    FAMILY(granite)         \
    FAMILY(granite_moe)     \
    FAMILY(minicpm)         \
    FAMILY(stablelm)        \
    FAMILY(phi)             \
    FAMILY(smollm3)         \
    FAMILY(seed_oss)        \
    FAMILY(arcee)           \
    FAMILY(apertus)         \
    FAMILY(starcoder2)      \
    FAMILY(exaone4)         \
    FAMILY(olmo2)           \
    FAMILY(olmo3)           \
    FAMILY(qwen2)           \
    FAMILY(qwen2_vl)        \
    FAMILY(qwen2_5_vl)      \
    FAMILY(qwen2_5_omni)    \
    FAMILY(qwen3)           \
    FAMILY(qwen3_vl)        \
    FAMILY(qwen3_moe)       \
    FAMILY(qwen3_vl_moe)    \
    FAMILY(qwen3_5)         \
    FAMILY(qwen3_5_moe)     \
    FAMILY(gpt_oss)         \
    FAMILY(phi3)            \
    FAMILY(cohere2)         \
    FAMILY(glm4)            \
    FAMILY(glm4v)           \
    FAMILY(glm_ocr)         \
    FAMILY(ernie4_5)        \
    FAMILY(paddleocr_vl)    \
    FAMILY(gemma)           \
    FAMILY(gemma2)          \
    FAMILY(gemma3)          \
    FAMILY(gemma3n)         \
    FAMILY(gemma4)          \
    FAMILY(lfm2)            \
    FAMILY(lfm2_moe)        \
    FAMILY(mamba2)          \
    FAMILY(falcon_h1)       \
    FAMILY(bamba)           \
    FAMILY(granite_hybrid)  \
    FAMILY(nemotron_h)      \
    FAMILY(nemotron_h_moe)  \
    FAMILY(ernie4_5_moe)    \
    FAMILY(ernie4_5_vl_moe) \
    FAMILY(glm4_moe)        \
    FAMILY(glm4v_moe)       \
    FAMILY(minimax_m2)      \
    FAMILY(hunyuan)         \
    FAMILY(hunyuan_moe)     \
    FAMILY(hunyuan_vl)      \
    FAMILY(deepseek2)       \
    FAMILY(deepseek_v3)     \
    FAMILY(glm4_moe_lite)   \
    FAMILY(bert)            \
    FAMILY(roberta)         \
    FAMILY(modernbert)      \
    FAMILY(mllama)          \
    FAMILY(whisper)
/* clang-format on */

/* Towers beside any text family (family/tower_<name>.c): TOWER(x) declares tower_x and
 * tower_x_list_ops(). */
/* clang-format off */
#define TOWER_LIST(TOWER)   \
    TOWER(llava)            \
    TOWER(llava_next)       \
    TOWER(llava_onevision)  \
    TOWER(internvl)         \
    TOWER(aya_vision)       \
    TOWER(cohere2_vision)   \
    TOWER(deepseek_ocr)     \
    TOWER(deepseek_vl_v2)   \
    TOWER(janus)            \
    TOWER(multi_modality)   \
    TOWER(kimi_vl)          \
    TOWER(kimi_k25)         \
    TOWER(lfm2_vl)          \
    TOWER(mistral3)         \
    TOWER(pixtral)          \
    TOWER(qwen2_audio)
/* clang-format on */

#define TOWER_DECLARE(name)                                                                        \
    extern const struct model_tower tower_##name;                                                  \
    void tower_##name##_list_ops(struct plan_builder *builder, const struct vision_config *config);
TOWER_LIST(TOWER_DECLARE)
#undef TOWER_DECLARE

#define FAMILY_DECLARE(name)                                                                       \
    extern const struct model_family family_##name;                                                \
    extern const struct gguf_form checkpoint_gguf_##name;                                          \
    extern const struct hf_form checkpoint_hf_##name;                                              \
    void tower_##name##_list_ops(struct plan_builder *builder,                                     \
                                 const struct vision_config *config);                              \
    void tower_##name##_sound_list_ops(struct plan_builder *builder,                               \
                                       const struct vision_config *config);
FAMILY_LIST(FAMILY_DECLARE)
#undef FAMILY_DECLARE

#endif
