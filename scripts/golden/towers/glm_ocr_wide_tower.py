"""glm_ocr_wide: squares of three by three patches, no biases in the tower, half of a head rotated."""
from towers import glm_ocr_tower
from towers.glm4v_wide_tower import IMAGES  # noqa: F401
from towers.glm_ocr_tower import CLASS, MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

SEED = 101
IMAGE_TOKEN = 91
CONFIG = glm_ocr_tower.CONFIG | {
    "text_config": glm_ocr_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16, "rms_norm_eps": 1e-4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 9000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]},
    },
    "vision_config": glm_ocr_tower.CONFIG["vision_config"] | {
        "hidden_size": 48, "num_heads": 3, "out_hidden_size": 48, "intermediate_size": 56, "patch_size": 5, "spatial_merge_size": 3,
        "rms_norm_eps": 1e-3, "attention_bias": False,
    },
}
