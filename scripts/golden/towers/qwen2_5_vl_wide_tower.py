"""qwen2_5_vl_wide: windows of one square, which cut images unevenly, a first layer that sees all, untied."""
from towers import qwen2_5_vl_tower
from towers.qwen_vl_common import MEAN, STD, TOKENS, count, extra, features, inputs, positions  # noqa: F401

CLASS = qwen2_5_vl_tower.CLASS
SEED = 171
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 18, 30), (1, 6, 24), (1, 12, 12)]
CONFIG = qwen2_5_vl_tower.CONFIG | {
    "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "num_hidden_layers": 1, "rms_norm_eps": 1e-4, "tie_word_embeddings": False,
    "rope_scaling": {"type": "mrope", "mrope_section": [4, 1, 3]},
    "vision_config": qwen2_5_vl_tower.CONFIG["vision_config"] | {
        "depth": 2, "hidden_size": 24, "intermediate_size": 56, "num_heads": 3, "patch_size": 3, "spatial_patch_size": 3, "window_size": 6,
        "fullatt_block_indexes": [0], "out_hidden_size": 48},
}
