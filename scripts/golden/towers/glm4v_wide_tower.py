"""glm4v_wide: squares of three by three patches, biases of q, k and v, other epsilons, published keys of the rope, an image smaller than the
table and one larger."""
from towers import glm4v_tower
from towers.glm4v_tower import CLASS, MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

SEED = 98
IMAGE_TOKEN = 91
IMAGES = [(1, 45, 30), (1, 15, 15), (1, 60, 15)]
TEXT = {key: value for key, value in glm4v_tower.CONFIG["text_config"].items() if key != "rope_parameters"}
CONFIG = glm4v_tower.CONFIG | {
    "text_config": TEXT | {
        "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "rms_norm_eps": 1e-4, "partial_rotary_factor": 0.5,
        "rope_theta": 9000.0, "rope_scaling": {"type": "default", "mrope_section": [2, 1, 1]},
    },
    "vision_config": glm4v_tower.CONFIG["vision_config"] | {
        "hidden_size": 48, "num_heads": 3, "out_hidden_size": 48, "image_size": 30, "patch_size": 5, "spatial_merge_size": 3,
        "rms_norm_eps": 1e-3, "attention_bias": True,
    },
}
