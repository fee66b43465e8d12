#!/usr/bin/env python3
"""Makes tests/golden/features: tiny checkpoints, each with settings that few published models use, as transformers saves them.

usage: feature_folders.py DIRECTORY [NAME ...]

Every setting has two shapes, NAME-a and NAME-b; NAME_shape-b is another shape of a family whose first one is in
tests/golden/checkpoints. A folder has what save_pretrained() writes (config.json and
model.safetensors, in BF16), ids.txt and logits.f32: the logits (F32, little-endian) of every position, computed in F32 on
the CPU by transformers from the folder as it is. Weights are random multiples of a power of two with seven bits. Needs
torch, transformers, compressed-tensors and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import transformers

POSITIONS = 24
SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 101, "max_position_embeddings": 256,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
OTHER = SMALL | {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 3,
                 "num_key_value_heads": 1, "head_dim": 24, "vocab_size": 89}
GEMMA_WINDOWS = {"sliding_window": 7, "layer_types": [SLIDING, FULL]}
GEMMA_WINDOWS_B = {"sliding_window": 5, "layer_types": [FULL, SLIDING, FULL]}
LATENT = {"num_key_value_heads": 4, "head_dim": 8, "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12,
          "moe_intermediate_size": 16}
LATENT_B = {"num_key_value_heads": 3, "head_dim": 4, "kv_lora_rank": 20, "q_lora_rank": None, "qk_nope_head_dim": 10, "qk_rope_head_dim": 4, "v_head_dim": 18,
            "moe_intermediate_size": 24}
DELTA = {"layer_types": [LINEAR, FULL], "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
         "linear_value_head_dim": 8, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default",
         "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0], "mrope_interleaved": True}}
MAMBA2 = {"model_type": "mamba2", "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16, "state_size": 12, "n_groups": 1,
          "conv_kernel": 3, "vocab_size": 101, "chunk_size": 8, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MIXER = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 12, "mamba_d_conv": 3, "mamba_expand": 2, "mamba_chunk_size": 8}
MIXER_B = {"mamba_n_heads": 6, "mamba_d_head": "auto", "mamba_n_groups": 3, "mamba_d_state": 17, "mamba_d_conv": 4, "mamba_expand": 3, "mamba_chunk_size": 8}
GEMMA3N = {"altup_coef_clip": 120.0, "laurel_rank": 6, "hidden_size_per_layer_input": 8, "final_logit_softcapping": 3.0,
           "vocab_size_per_layer_input": 80, "sliding_window": 8}
GEMMA4 = {"hidden_size_per_layer_input": 8, "sliding_window": 8, "global_head_dim": 32}
TOWER = {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 1, "head_dim": 16, "image_size": 28, "patch_size": 14}

# Parts of phi4_multimodal that its text does not use.
PHI4 = {"model_type": "phi4_multimodal", "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        "vision_config": {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 1, "image_size": 28, "crop_size": 28,
                          "image_token_id": 10, "feature_layer": -2},
        "audio_config": {"hidden_size": 8, "intermediate_size": 8, "num_blocks": 1, "num_attention_heads": 1, "ext_pw_out_channel": 8, "depthwise_separable_out_channel": 8,
                         "nemo_conv_channels": 8, "input_size": 8, "bias_max_distance": 4, "audio_token_id": 9, "time_reduction": 2}}

# Of a class that transformers lacks: its Granite with the same factors computes the logits, then config.json is rewritten.
MINICPM = {"model_type": "minicpm", "architectures": ["MiniCPMForCausalLM"], "rewritten": True}

# name: (class, config, {further member of config.json: value}, members to leave out of config.json)
CASES = {
    "llama_biases-a": ("LlamaForCausalLM", SMALL | {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
                       {"not_a_number": float("nan"), "bounds": [float("-inf"), float("inf")]}, []),
    "llama_biases-b": ("LlamaForCausalLM", OTHER | {"model_type": "llama", "attention_bias": True, "tie_word_embeddings": True},
                       {}, []),
    "qwen3_biases-a": ("Qwen3ForCausalLM", SMALL | {"model_type": "qwen3", "attention_bias": True}, {}, []),
    "qwen3_biases-b": ("Qwen3MoeForCausalLM", OTHER | {
        "model_type": "qwen3_moe", "attention_bias": True, "num_experts": 5, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24}, {}, []),
    "granite_factors-a": ("GraniteForCausalLM", SMALL | {
        "model_type": "granite", "attention_bias": True, "mlp_bias": True, "embedding_multiplier": 3.0,
        "residual_multiplier": 0.5, "logits_scaling": 0.5, "head_dim": 8}, {}, ["attention_multiplier"]),
    "granite_factors-b": ("GraniteForCausalLM", OTHER | {
        "model_type": "granite", "residual_multiplier": 1.5, "attention_multiplier": 0.3, "rms_norm_eps": 1e-2, "head_dim": 16},
                          {}, ["embedding_multiplier", "logits_scaling"]),
    "smollm3_windows-a": ("SmolLM3ForCausalLM", SMALL | {
        "model_type": "smollm3", "attention_bias": True, "mlp_bias": True, "use_sliding_window": True, "sliding_window": 6,
        "no_rope_layers": [0, 1], "head_dim": 8}, {}, []),
    "smollm3_windows-b": ("SmolLM3ForCausalLM", OTHER | {
        "model_type": "smollm3", "no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 9,
        "layer_types": [SLIDING, FULL, SLIDING], "head_dim": 16, "tie_word_embeddings": False}, {}, ["no_rope_layers"]),
    "arcee_biases-a": ("ArceeForCausalLM", SMALL | {
        "model_type": "arcee", "attention_bias": True, "mlp_bias": True, "head_dim": 8}, {}, []),
    "arcee_biases-b": ("ArceeForCausalLM", OTHER | {
        "model_type": "arcee", "mlp_bias": True, "head_dim": 16, "tie_word_embeddings": True}, {}, ["hidden_act"]),
    "ernie4_5_plain-a": ("Ernie4_5ForCausalLM", SMALL | {
        "model_type": "ernie4_5", "use_bias": False, "head_dim": 8, "tie_word_embeddings": False}, {}, []),
    "ernie4_5_plain-b": ("Ernie4_5ForCausalLM", OTHER | {
        "model_type": "ernie4_5", "use_bias": True, "head_dim": 16, "tie_word_embeddings": False}, {}, ["hidden_act"]),
    "starcoder2_plain-a": ("Starcoder2ForCausalLM", SMALL | {
        "model_type": "starcoder2", "use_bias": False, "head_dim": 8, "tie_word_embeddings": False}, {}, ["hidden_act"]),
    "starcoder2_plain-b": ("Starcoder2ForCausalLM", OTHER | {
        "model_type": "starcoder2", "sliding_window": 6, "head_dim": 16, "norm_epsilon": 1e-3}, {},
                           ["use_bias", "tie_word_embeddings"]),
    "stablelm_parallel-a": ("StableLmForCausalLM", SMALL | {
        "model_type": "stablelm", "use_parallel_residual": True, "partial_rotary_factor": 0.5, "head_dim": 8}, {}, []),
    "stablelm_parallel-b": ("StableLmForCausalLM", OTHER | {
        "model_type": "stablelm", "use_parallel_residual": True, "use_qkv_bias": True, "head_dim": 16,
        "tie_word_embeddings": True}, {}, ["layer_norm_eps"]),
    "phi_heads-a": ("PhiForCausalLM", SMALL | {"model_type": "phi", "head_dim": 8}, {}, ["hidden_act"]),
    "phi_heads-b": ("PhiForCausalLM", OTHER | {
        "model_type": "phi", "head_dim": 16, "partial_rotary_factor": 0.25, "layer_norm_eps": 1e-3}, {}, []),
    "granitemoe_biases-a": ("GraniteMoeForCausalLM", SMALL | {
        "model_type": "granitemoe", "attention_bias": True, "head_dim": 8, "num_local_experts": 4, "attention_multiplier": 0.25,
        "embedding_multiplier": 6.0, "logits_scaling": 2.0, "residual_multiplier": 0.3}, {}, ["num_experts_per_tok"]),
    "granitemoe_biases-b": ("GraniteMoeForCausalLM", OTHER | {
        "model_type": "granitemoe", "head_dim": 16, "num_experts_per_tok": 3, "attention_multiplier": 0.2,
        "tie_word_embeddings": True}, {}, ["num_local_experts"]),
    "apertus_biases-a": ("ApertusForCausalLM", SMALL | {
        "model_type": "apertus", "attention_bias": True, "head_dim": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
                         {}, []),
    "apertus_biases-b": ("ApertusForCausalLM", OTHER | {"model_type": "apertus", "head_dim": 16, "tie_word_embeddings": True}, {},
                         ["hidden_act", "rms_norm_eps"]),
    "minicpm_factors-a": ("GraniteForCausalLM", SMALL | {
        "model_type": "granite", "attention_bias": True, "head_dim": 8, "embedding_multiplier": 3.0,
        "residual_multiplier": 1.5 / 2 ** 0.5, "logits_scaling": 32 / 24, "attention_multiplier": 8 ** -0.5,
        "tie_word_embeddings": True}, MINICPM | {"scale_emb": 3, "scale_depth": 1.5, "dim_model_base": 24},
                          ["architectures", "tie_word_embeddings"]),
    "minicpm_factors-b": ("GraniteForCausalLM", OTHER | {
        "model_type": "granite", "head_dim": 16, "residual_multiplier": 1 / 3 ** 0.5, "logits_scaling": 48.0,
        "attention_multiplier": 16 ** -0.5, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 6000.0, "original_max_position_embeddings": 16, "factor": 16.0,
            "long_factor": [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], "short_factor": [1.0] * 8}},
                          MINICPM, ["model_type"]),
    "exaone4_windows-a": ("Exaone4ForCausalLM", SMALL | {
        "model_type": "exaone4", "sliding_window": 7, "layer_types": [SLIDING, FULL], "head_dim": 8}, {}, []),
    "exaone4_windows-b": ("Exaone4ForCausalLM", OTHER | {
        "model_type": "exaone4", "sliding_window": 5, "sliding_window_pattern": 2, "head_dim": 16, "tie_word_embeddings": True},
                          {}, ["layer_types"]),
    "olmo2_biases-a": ("Olmo2ForCausalLM", SMALL | {"model_type": "olmo2", "attention_bias": True, "head_dim": 8}, {}, []),
    "olmo2_biases-b": ("Olmo2ForCausalLM", OTHER | {
        "model_type": "olmo2", "num_key_value_heads": 3, "head_dim": 16, "tie_word_embeddings": True}, {}, []),
    "olmo3_biases-a": ("Olmo3ForCausalLM", SMALL | {
        "model_type": "olmo3", "attention_bias": True, "head_dim": 8, "sliding_window": 6, "layer_types": [FULL, SLIDING]}, {}, []),
    "olmo3_biases-b": ("Olmo3ForCausalLM", OTHER | {
        "model_type": "olmo3", "head_dim": 16, "sliding_window": 5, "layer_types": [SLIDING, FULL, SLIDING],
        "rope_parameters": {FULL: {"rope_type": "yarn", "factor": 2.0, "rope_theta": 7000.0, "original_max_position_embeddings": 64},
                            SLIDING: {"rope_type": "default", "rope_theta": 900.0}}}, {}, []),
    "seed_oss_biases-a": ("SeedOssForCausalLM", SMALL | {
        "model_type": "seed_oss", "attention_out_bias": True, "mlp_bias": True}, {}, []),
    "seed_oss_biases-b": ("SeedOssForCausalLM", OTHER | {
        "model_type": "seed_oss", "attention_bias": False, "mlp_bias": True, "tie_word_embeddings": True}, {}, []),
    "gemma_biases-a": ("GemmaForCausalLM", SMALL | {"model_type": "gemma", "attention_bias": True}, {}, []),
    "gemma_biases-b": ("GemmaForCausalLM", OTHER | {"model_type": "gemma", "num_key_value_heads": 3}, {},
                       ["hidden_act", "tie_word_embeddings"]),
    "cohere2_biases-a": ("Cohere2ForCausalLM", SMALL | GEMMA_WINDOWS | {
        "model_type": "cohere2", "attention_bias": True, "head_dim": 8, "logit_scale": 0.25}, {}, []),
    "cohere2_biases-b": ("Cohere2ForCausalLM", OTHER | GEMMA_WINDOWS_B | {
        "model_type": "cohere2", "attention_bias": True, "head_dim": 16, "logit_scale": 0.5}, {}, []),
    "qwen3_5_biases-a": ("Qwen3_5ForCausalLM", SMALL | DELTA | {"model_type": "qwen3_5_text", "attention_bias": True}, {}, []),
    "qwen3_5_biases-b": ("Qwen3_5ForCausalLM", OTHER | DELTA | {
        "model_type": "qwen3_5_text", "attention_bias": True, "layer_types": [FULL, LINEAR, LINEAR]}, {}, []),
    "lfm2_biases-a": ("Lfm2ForCausalLM", SMALL | {
        "model_type": "lfm2", "conv_bias": True, "layer_types": [FULL, "conv"], "block_multiple_of": 16, "head_dim": 8},
                      {}, []),
    "lfm2_biases-b": ("Lfm2ForCausalLM", OTHER | {
        "model_type": "lfm2", "conv_bias": True, "layer_types": ["conv", "conv", FULL], "conv_L_cache": 4,
        "block_multiple_of": 8, "head_dim": 16}, {}, []),
    "gemma3_caps-a": ("Gemma3ForCausalLM", SMALL | GEMMA_WINDOWS | {
        "model_type": "gemma3_text", "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
        "query_pre_attn_scalar": 12}, {}, []),
    "gemma3_caps-b": ("Gemma3ForCausalLM", OTHER | GEMMA_WINDOWS_B | {
        "model_type": "gemma3_text", "final_logit_softcapping": 1.5, "query_pre_attn_scalar": 24, "attention_bias": True}, {}, []),
    "gemma3n_active-a": ("Gemma3nForCausalLM", SMALL | GEMMA3N | {
        "model_type": "gemma3n_text", "num_hidden_layers": 3, "altup_active_idx": 2, "altup_num_inputs": 4,
        "num_kv_shared_layers": 0, "layer_types": [SLIDING, FULL, FULL], "activation_sparsity_pattern": [0.8, 0.0, 0.0],
        "intermediate_size": [48] * 3}, {}, []),
    "gemma3n_active-b": ("Gemma3nForCausalLM", OTHER | GEMMA3N | {
        "model_type": "gemma3n_text", "num_hidden_layers": 4, "altup_active_idx": 1, "altup_num_inputs": 3,
        "num_kv_shared_layers": 2, "layer_types": [SLIDING, FULL, SLIDING, FULL], "intermediate_size": [40] * 4,
        "activation_sparsity_pattern": [0.5, 0.0, 0.9, 0.0]}, {}, []),
    "gemma4_saved-a": ("Gemma4ForCausalLM", SMALL | GEMMA4 | {
        "model_type": "gemma4_text", "num_hidden_layers": 5, "layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL],
        "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
        "vocab_size_per_layer_input": 101}, {}, []),
    "gemma4_saved-b": ("Gemma4ForCausalLM", OTHER | GEMMA4 | {
        "model_type": "gemma4_text", "layer_types": [SLIDING, SLIDING, FULL], "global_head_dim": 24,
        "vocab_size_per_layer_input": 89, "final_logit_softcapping": 4.0}, {}, []),
    "deepseek_v2_greedy-a": ("DeepseekV2ForCausalLM", SMALL | LATENT | {
        "model_type": "deepseek_v2", "n_routed_experts": 6, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
        "n_shared_experts": 1, "topk_method": "greedy", "routed_scaling_factor": 2.0}, {}, ["hidden_act"]),
    "deepseek_v2_greedy-b": ("DeepseekV2ForCausalLM", OTHER | LATENT_B | {
        "model_type": "deepseek_v2", "n_routed_experts": 9, "num_experts_per_tok": 3, "n_shared_experts": 2, "n_group": 3,
        "topk_group": 2, "topk_method": "group_limited_greedy", "tie_word_embeddings": True, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5,
            "original_max_position_embeddings": 32}}, {}, ["first_k_dense_replace"]),
    "deepseek_v3_pairs-a": ("DeepseekV3ForCausalLM", SMALL | LATENT | {
        "model_type": "deepseek_v3", "n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "n_group": 4,
        "topk_group": 2, "rope_interleave": False, "norm_topk_prob": False, "q_lora_rank": None},
                            {"num_nextn_predict_layers": 0}, ["routed_scaling_factor"]),
    "deepseek_v3_pairs-b": ("DeepseekV3ForCausalLM", OTHER | LATENT_B | {
        "model_type": "deepseek_v3", "n_routed_experts": 7, "num_experts_per_tok": 5, "first_k_dense_replace": 1, "n_group": 1,
        "topk_group": 1, "q_lora_rank": 20, "routed_scaling_factor": 0.5, "rms_norm_eps": 1e-5},
                            {"rewritten": True, "model_type": "kimi_k2"}, []),
    "glm4_moe_lite-a": ("Glm4MoeLiteForCausalLM", SMALL | LATENT | {
        "model_type": "glm4_moe_lite", "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
        "num_hidden_layers": 3, "mlp_layer_types": ["dense", "sparse", "dense"]}, {}, []),
    "glm4_moe_lite-b": ("Glm4MoeLiteForCausalLM", OTHER | LATENT_B | {
        "model_type": "glm4_moe_lite", "n_routed_experts": 5, "num_experts_per_tok": 2, "rope_interleave": False,
        "n_shared_experts": 3}, {"first_k_dense_replace": 1}, ["mlp_layer_types", "routed_scaling_factor"]),
    "ernie4_5_moe_layers-a": ("Ernie4_5_MoeForCausalLM", SMALL | {
        "model_type": "ernie4_5_moe", "head_dim": 8, "num_hidden_layers": 5, "moe_num_experts": 6, "moe_k": 2,
        "moe_intermediate_size": 16, "moe_num_shared_experts": 1, "moe_layer_interval": 2, "moe_layer_end_index": 3,
        "tie_word_embeddings": False}, {}, []),
    "ernie4_5_moe_layers-b": ("Ernie4_5_MoeForCausalLM", OTHER | {
        "model_type": "ernie4_5_moe", "head_dim": 16, "moe_num_experts": 9, "moe_k": 4, "moe_intermediate_size": 24,
        "moe_num_shared_experts": 0, "moe_layer_start_index": 0}, {"moe_layer_end_index": -1}, ["hidden_act", "moe_norm_min"]),
    "glm4_moe_plain-a": ("Glm4MoeForCausalLM", SMALL | {
        "model_type": "glm4_moe", "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "first_k_dense_replace": 1}, {}, ["use_qk_norm"]),
    "glm4_moe_plain-b": ("Glm4MoeForCausalLM", OTHER | {
        "model_type": "glm4_moe", "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
        "first_k_dense_replace": 0, "n_shared_experts": 2, "norm_topk_prob": False, "use_qk_norm": True, "n_group": 4, "topk_group": 2,
        "routed_scaling_factor": 0.5, "tie_word_embeddings": True, "rope_parameters": {
            "rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.25}}, {}, []),
    "minimax_m2_plain-a": ("MiniMaxM2ForCausalLM", SMALL | {
        "model_type": "minimax_m2", "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 16, "rope_parameters": {
            "rope_type": "default", "rope_theta": 6000.0, "partial_rotary_factor": 0.5}}, {}, ["hidden_act"]),
    "minimax_m2_plain-b": ("MiniMaxM2ForCausalLM", OTHER | {
        "model_type": "minimax_m2", "num_local_experts": 9, "num_experts_per_tok": 4, "tie_word_embeddings": True}, {}, []),
    "hunyuan_dense_rope-a": ("HunYuanDenseV1ForCausalLM", SMALL | {
        "model_type": "hunyuan_v1_dense", "attention_bias": True, "tie_word_embeddings": True}, {}, []),
    "hunyuan_dense_rope-b": ("HunYuanDenseV1ForCausalLM", OTHER | {
        "model_type": "hunyuan_v1_dense", "rope_parameters": {"rope_type": "dynamic", "rope_theta": 500.0, "alpha": 20.0, "factor": 1.0}},
                             {}, ["hidden_act"]),
    "hunyuan_moe_rope-a": ("HunYuanMoEV1ForCausalLM", SMALL | {
        "model_type": "hunyuan_v1_moe", "num_experts": 5, "moe_topk": 2, "intermediate_size": 16}, {}, []),
    "hunyuan_moe_rope-b": ("HunYuanMoEV1ForCausalLM", OTHER | {
        "model_type": "hunyuan_v1_moe", "num_experts": 4, "moe_topk": 4, "attention_bias": True, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}}, {}, []),
    "lfm2_moe_plain-a": ("Lfm2MoeForCausalLM", SMALL | {
        "model_type": "lfm2_moe", "head_dim": 8, "layer_types": [FULL, "conv"], "num_dense_layers": 1, "num_experts": 5,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "use_expert_bias": False, "norm_topk_prob": False}, {}, []),
    "lfm2_moe_plain-b": ("Lfm2MoeForCausalLM", OTHER | {
        "model_type": "lfm2_moe", "head_dim": 16, "layer_types": ["conv", "conv", FULL], "num_dense_layers": 0, "num_experts": 6,
        "num_experts_per_tok": 3, "moe_intermediate_size": 24, "conv_bias": True, "routed_scaling_factor": 2.0,
        "tie_word_embeddings": False}, {}, []),
    "mamba2_steps-a": ("Mamba2ForCausalLM", MAMBA2 | {"time_step_limit": [0.4, 0.9], "tie_word_embeddings": True}, {}, ["hidden_act"]),
    "mamba2_steps-b": ("Mamba2ForCausalLM", MAMBA2 | {
        "hidden_size": 40, "num_heads": 6, "head_dim": 20, "expand": 3, "n_groups": 3, "state_size": 17, "conv_kernel": 4, "use_bias": True,
        "use_conv_bias": False, "num_hidden_layers": 3, "vocab_size": 89, "layer_norm_epsilon": 1e-2}, {}, ["time_step_limit"]),
    "falcon_h1_norms-a": ("FalconH1ForCausalLM", SMALL | MIXER | {
        "model_type": "falcon_h1", "mamba_d_ssm": 64, "mamba_proj_bias": True, "projectors_bias": True, "mlp_bias": True,
        "lm_head_multiplier": 0.7, "embedding_multiplier": 3.3, "mlp_multipliers": [0.6, 1.3], "key_multiplier": 0.3,
        "attention_in_multiplier": 1.4, "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.2, "ssm_out_multiplier": 0.6,
        "ssm_multipliers": [1.5, 0.7, 1.1, 0.9, 0.4], "tie_word_embeddings": True}, {}, ["mamba_rms_norm"]),
    "falcon_h1_norms-b": ("FalconH1ForCausalLM", OTHER | MIXER_B | {
        "model_type": "falcon_h1", "mamba_d_ssm": None, "mamba_rms_norm": True, "mamba_conv_bias": False, "ssm_in_multiplier": 0.7,
        "time_step_limit": [0.2, 1.1]}, {"mamba_d_ssm": None, "mamba_d_head": "auto"},
                          ["mamba_norm_before_gate", "mlp_multipliers", "ssm_multipliers"]),
    "bamba_biases-a": ("BambaForCausalLM", SMALL | MIXER | {
        "model_type": "bamba", "head_dim": 8, "attn_layer_indices": [0], "attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True}, {}, []),
    "bamba_biases-b": ("BambaForCausalLM", OTHER | MIXER_B | {
        "model_type": "bamba", "head_dim": 16, "attn_layer_indices": [1, 2], "mamba_conv_bias": False, "tie_word_embeddings": True}, {},
                       ["hidden_act", "time_step_limit"]),
    "granitemoehybrid_dense-a": ("GraniteMoeHybridForCausalLM", SMALL | MIXER | {
        "model_type": "granitemoehybrid", "head_dim": 8, "num_local_experts": 0, "shared_intermediate_size": 40, "position_embedding_type": "rope",
        "layer_types": [FULL, LINEAR], "attention_bias": True, "attention_multiplier": 0.3, "embedding_multiplier": 2.0,
        "residual_multiplier": 0.7, "logits_scaling": 2.0, "mamba_proj_bias": True}, {}, []),
    "granitemoehybrid_dense-b": ("GraniteMoeHybridForCausalLM", OTHER | MIXER_B | {
        "model_type": "granitemoehybrid", "head_dim": 16, "num_local_experts": 5, "shared_intermediate_size": 24, "intermediate_size": 16,
        "attention_multiplier": 0.2, "tie_word_embeddings": True, "layer_types": [LINEAR, FULL, LINEAR]}, {}, ["num_experts_per_tok"]),
    "nemotron_h_parts-a": ("NemotronHForCausalLM", SMALL | {
        "model_type": "nemotron_h", "layers_block_type": [LINEAR, "mlp", FULL, "mlp"], "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1,
        "ssm_state_size": 12, "conv_kernel": 3, "chunk_size": 8, "use_bias": True, "mlp_bias": True, "num_hidden_layers": 4}, {}, ["mlp_hidden_act"]),
    "nemotron_h_parts-b": ("NemotronHForCausalLM", OTHER | {
        "model_type": "nemotron_h", "layers_block_type": ["moe", LINEAR, FULL, "mlp", "moe"], "mamba_num_heads": 6, "mamba_head_dim": 20, "n_groups": 3,
        "ssm_state_size": 17, "chunk_size": 8, "use_conv_bias": False, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2,
        "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 24, "norm_topk_prob": False, "routed_scaling_factor": 0.5,
        "tie_word_embeddings": True}, {}, ["mamba_hidden_act"]),
    "glm4_shape-b": ("Glm4ForCausalLM", OTHER | {
        "model_type": "glm4", "head_dim": 16, "partial_rotary_factor": 0.25, "tie_word_embeddings": True}, {}, []),
    "gemma2_shape-b": ("Gemma2ForCausalLM", OTHER | {
        "model_type": "gemma2", "num_key_value_heads": 3, "sliding_window": 5, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 2.0}, {}, []),
    "gpt_oss_shape-b": ("GptOssForCausalLM", OTHER | {
        "model_type": "gpt_oss", "head_dim": 16, "num_local_experts": 7, "num_experts_per_tok": 3, "sliding_window": 5,
        "layer_types": [FULL, SLIDING, FULL]}, {}, []),
    "phi4_multimodal-a": ("Phi4MultimodalForCausalLM", SMALL | PHI4 | {"tie_word_embeddings": True, "hidden_size": 64}, {}, ["head_dim"]),
    "phi4_multimodal-b": ("Phi4MultimodalForCausalLM", OTHER | PHI4 | {
        "hidden_size": 72, "tie_word_embeddings": True, "original_max_position_embeddings": 16,
        "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75, "short_factor": [1.0] * 9,
                            "long_factor": [1.0 + 0.25 * i for i in range(9)]}},
                          {"published": True, "model_type": "phi4mm", "architectures": ["Phi4MMForCausalLM"], "partial_rotary_factor": 0.75,
                           "rope_theta": 10000.0, "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 9, "long_factor": [1.0 + 0.25 * i for i in range(9)]},
                           "vision_lora": {"r": 2, "lora_alpha": 4}, "speech_lora": {"r": 4, "lora_alpha": 8},
                           "embd_layer": {"embedding_cls": "image_audio"}}, ["head_dim", "rope_parameters", "vision_config", "audio_config"]),
    "phi3_shape-b": ("Phi3ForCausalLM", OTHER | {
        "model_type": "phi3", "num_key_value_heads": 3, "hidden_size": 72, "sliding_window": 6, "tie_word_embeddings": False}, {}, ["head_dim"]),
    "qwen2_windows-b": ("Qwen2ForCausalLM", OTHER | {
        "model_type": "qwen2", "head_dim": 16, "hidden_size": 48, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1,
        "tie_word_embeddings": False}, {}, []),
    "gemma4_moe_shape-b": ("Gemma4ForCausalLM", OTHER | GEMMA4 | {
        "model_type": "gemma4_text", "layer_types": [SLIDING, SLIDING, FULL], "hidden_size_per_layer_input": 0, "enable_moe_block": True,
        "num_experts": 9, "top_k_experts": 4, "moe_intermediate_size": 16, "global_head_dim": 40, "num_kv_shared_layers": 0}, {}, []),
    "qwen3_5_moe_shape-b": ("Qwen3_5MoeForCausalLM", OTHER | DELTA | {
        "model_type": "qwen3_5_moe_text", "layer_types": [FULL, LINEAR, LINEAR], "linear_num_key_heads": 3, "linear_num_value_heads": 3,
        "linear_value_head_dim": 12, "num_experts": 5, "num_experts_per_tok": 4, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 24, "tie_word_embeddings": True}, {}, []),
    "packed_words-a": ("LlamaForCausalLM", SMALL | {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}, {}, []),
    "packed_words-b": ("Qwen3ForCausalLM", SMALL | {
        "model_type": "qwen3", "hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 24}, {}, []),
    "mistral3_ties-a": ("Mistral3ForConditionalGeneration", {
        "model_type": "mistral3", "text_config": SMALL | {"model_type": "mistral"}, "vision_config": TOWER,
        "image_token_index": 10}, {}, ["tie_word_embeddings"]),
    "mistral3_ties-b": ("Mistral3ForConditionalGeneration", {
        "model_type": "mistral3", "text_config": OTHER | {"model_type": "ministral3"}, "vision_config": TOWER,
        "image_token_index": 10, "tie_word_embeddings": False}, {}, ["tie_word_embeddings"]),
}


PACKED = {"packed_words-a": (4, 32), "packed_words-b": (8, None)}  # bits, columns of a group; None: a scale per row


def pack_linears(folder, bits, group):
    """Stores the layers' matrices as compressed-tensors packs symmetric integers; returns {name: their values in F32}."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
    from safetensors.torch import load_file, save_file
    tensors, values = {}, {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if not name.endswith("_proj.weight"):
            tensors[name] = weight
            continue
        rows, columns = weight.shape
        grouped = weight.float().reshape(rows, -1, group or columns)
        scale = (grouped.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)).bfloat16().float()
        codes = (grouped / scale).round().clamp(-2 ** (bits - 1), 2 ** (bits - 1) - 1)
        values[name] = (codes * scale).reshape(rows, columns)
        tensors[name + "_packed"] = pack_to_int32(codes.reshape(rows, columns).to(torch.int8), bits)
        tensors[name + "_scale"] = scale.squeeze(-1).bfloat16()
        tensors[name + "_shape"] = torch.tensor([rows, columns])
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    scheme = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "group" if group else "channel", "group_size": group}
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme}}}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return values


def set_weights(model, source):
    """Norms of queries and keys keep scores small, so that F32 sums in another order stay close."""
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            values = source.integers(-127, 128, weight.shape) / 512
        else:
            centre = 0 if name.endswith("bias") else 0.25 if ("q_norm" in name or "k_norm" in name) else 1
            values = centre + source.integers(-32, 33, weight.shape) / 128
        weight.data = torch.tensor(values, dtype=torch.float32)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.copy_(torch.tensor(0.75))
        elif name.endswith(("e_score_correction_bias", "expert_bias")):
            buffer.copy_(torch.tensor(source.integers(-32, 33, buffer.shape) / 128))
    model.tie_weights()


def rewrite(folder, further, absent):
    saved = json.loads((folder / "config.json").read_text())
    granite = [key for key in saved if "multiplier" in key or key == "logits_scaling"] if "rewritten" in further else []
    saved = {key: value for key, value in saved.items() if key not in granite} | further
    saved = {key: value for key, value in saved.items() if key not in absent and key not in ("rewritten", "published")}
    (folder / "config.json").write_text(json.dumps(saved, indent=1) + "\n")


def publish(folder, source):
    """phi4mm's names: matrices beside their adapters for images and sounds, which requests of text do not use."""
    path = folder / "model.safetensors"
    stored = {}
    for name, array in safetensors.torch.load_file(path).items():
        if name.startswith("model.layers.") and "proj." in name:
            at = name.removesuffix("weight")
            stored[at + "base_layer.weight"] = array
            for part, rows in (("vision", 2), ("speech", 4)):
                for letter, shape in (("A", (rows, array.shape[1])), ("B", (array.shape[0], rows))):
                    stored[f"{at}lora_{letter}.{part}.weight"] = torch.tensor(source.integers(-127, 128, shape) / 512, dtype=torch.bfloat16)
        else:
            stored[name] = array
    safetensors.torch.save_file(stored, path)


def record(name, folder):
    kind, config, further, absent = CASES[name]
    source = np.random.default_rng(sum(name.encode()))
    config = transformers.AutoConfig.for_model(**config)
    model = getattr(transformers, kind)._from_config(config, dtype=torch.float32)
    set_weights(model, source)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    later = "rewritten" in further or "published" in further
    if not later:
        rewrite(folder, further, absent)
    vocabulary = config.get_text_config().vocab_size
    ids = source.integers(11, vocabulary, POSITIONS).tolist()
    model, loading = getattr(transformers, kind).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    if loading["missing_keys"] or loading["mismatched_keys"] or loading["unexpected_keys"]:
        sys.exit(f"{name}: {loading}")
    if name in PACKED:
        for weight, values in pack_linears(folder, *PACKED[name]).items():
            model.get_parameter(weight).data = values
    with torch.no_grad():
        logits = model.eval()(torch.tensor([ids])).logits[0].float().numpy()
    assert logits.shape == (POSITIONS, vocabulary) and np.isfinite(logits).all()
    (folder / "ids.txt").write_text(" ".join(map(str, ids)) + "\n")
    if later:
        rewrite(folder, further, absent)
    if "published" in further:
        publish(folder, source)
    (folder / "logits.f32").write_bytes(logits.astype("<f4").tobytes())
    print(name, logits.std(), np.abs(logits).max(), transformers.__version__, torch.__version__)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or CASES:
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        record(name, folder)


if __name__ == "__main__":
    main()
