"""qwen3_5_wide: two delta nets of one value head a key head before attention with heads of 16."""
from towers import qwen3_5_tower
from towers.qwen_vl_common import TOKENS, count, extra, features, inputs, positions  # noqa: F401

CLASS = qwen3_5_tower.CLASS
SEED = 176
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 6, 6), (1, 18, 6), (1, 12, 18)]
MEAN, STD = qwen3_5_tower.MEAN, qwen3_5_tower.STD
CONFIG = qwen3_5_tower.CONFIG | {
    "tie_word_embeddings": False,
    "text_config": qwen3_5_tower.CONFIG["text_config"] | {
        "hidden_size": 40, "num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16, "tie_word_embeddings": False,
        "layer_types": ["linear_attention", "linear_attention", "full_attention"], "full_attention_interval": 3, "linear_conv_kernel_dim": 3,
        "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "rope_parameters": {"rope_theta": 900.0, "rope_type": "default", "partial_rotary_factor": 1.0, "mrope_section": [4, 2, 2],
                            "mrope_interleaved": True}},
    "vision_config": qwen3_5_tower.CONFIG["vision_config"] | {
        "depth": 2, "hidden_size": 24, "num_heads": 3, "patch_size": 3, "spatial_merge_size": 2, "out_hidden_size": 40,
        "num_position_embeddings": 49},
}
