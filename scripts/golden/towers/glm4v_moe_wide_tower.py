"""glm4v_moe_wide: no biases of q, k and v, the published keys of the rope over whole heads, three of eight experts of the better of two groups, whose
weights do not add up to one, from the first layer on; squares of three by three patches."""
from towers import glm4v_moe_tower, glm4v_wide_tower
from towers.glm4v_moe_tower import CLASS, IMAGE_TOKEN, MEAN, STD, buffer, count, extra, features, inputs, positions  # noqa: F401
from towers.glm4v_wide_tower import IMAGES  # noqa: F401

SEED = 152
TEXT = {key: value for key, value in glm4v_moe_tower.CONFIG["text_config"].items() if key != "rope_parameters"}
CONFIG = glm4v_moe_tower.CONFIG | {
    "text_config": TEXT | {
        "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "rms_norm_eps": 1e-4,
        "attention_bias": False, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16, "n_shared_experts": 2,
        "first_k_dense_replace": 0, "n_group": 2, "topk_group": 1, "norm_topk_prob": False, "routed_scaling_factor": 1.5,
        "partial_rotary_factor": 1.0, "rope_theta": 9000.0, "rope_scaling": {"type": "default", "mrope_section": [4, 3, 3]},
    },
    "vision_config": glm4v_wide_tower.CONFIG["vision_config"] | {"model_type": "glm4v_moe_vision", "attention_bias": False},
}
