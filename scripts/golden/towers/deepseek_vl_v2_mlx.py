"""deepseek_vl_v2: tiles of five by five patches in squares of two by two, deepseek_v2's text with low ranks and two of six experts; the names of published
folders, a tensor of the pooling head, which nothing uses."""
IMAGE_TOKEN = 91
SEED = 191
IMAGES = [(3, 20, 20), (2, 20, 20), (5, 20, 20)]
GRIDS = [(1, 2), (1, 1), (2, 2)]  # of the tiles after the first one: lines, columns
MEAN = STD = (0.5, 0.5, 0.5)
TEXT = {
    "model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "n_shared_experts": 1, "n_routed_experts": 6, "num_experts_per_tok": 2,
    "routed_scaling_factor": 1.0, "kv_lora_rank": 16, "q_lora_rank": None, "qk_rope_head_dim": 8, "v_head_dim": 12, "qk_nope_head_dim": 8,
    "topk_method": "greedy", "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "vocab_size": 96, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "norm_topk_prob": False, "hidden_act": "silu", "bos_token_id": 0, "eos_token_id": 1,
    "tie_word_embeddings": False,
}
CONFIG = {
    "architectures": ["DeepseekVLV2ForCausalLM"], "model_type": "deepseek_vl_v2", "torch_dtype": "bfloat16", "tile_tag": "2D", "global_view_pos": "head",
    "candidate_resolutions": [[20, 20], [20, 40], [40, 20], [40, 40], [60, 20], [20, 60]], "language_config": TEXT,
    "projector_config": {"model_type": "mlp_projector", "projector_type": "downsample_mlp_gelu", "input_dim": 24, "n_embed": 32, "depth": 2, "mlp_ratio": 1,
                         "downsample_ratio": 2, "token_pooling": False},
    "vision_config": {"model_type": "vision", "model_name": "siglip_so400m_patch14_384", "layers": 2, "width": 24, "num_attention_heads": 3, "mlp_ratio": 1.5,
                      "patch_size": 4, "image_size": 20},
}
