"""glm4v_moe: glm4v's tower with biases of q, k and v; sections of MRoPE over half of a head in halves, a dense layer before two mixtures of two of
six experts and one that every row uses."""
from towers import VOCAB, glm4v_tower
from towers.glm4v_tower import IMAGE_TOKEN, MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

CLASS = "Glm4vMoeForConditionalGeneration"
SEED = 151
IMAGES = [(1, 16, 24), (1, 40, 16), (1, 8, 8)]
CONFIG = glm4v_tower.CONFIG | {
    "architectures": [CLASS], "model_type": "glm4v_moe",
    "text_config": {
        "model_type": "glm4v_moe_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "attention_bias": True, "pad_token_id": 0, "eos_token_id": [2], "tie_word_embeddings": False,
        "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 24, "first_k_dense_replace": 1,
        "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 2, 1]},
    },
    "vision_config": glm4v_tower.CONFIG["vision_config"] | {"model_type": "glm4v_moe_vision", "attention_bias": True},
}


def buffer(name, shape, source):
    """The bias of the choice of experts."""
    return source.integers(-32, 33, shape) / 128 if name.endswith("e_score_correction_bias") else None
