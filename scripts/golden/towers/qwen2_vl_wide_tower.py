"""qwen2_vl_wide: three heads, one key head, other sections, an image that is one square."""
from towers import qwen2_vl_tower
from towers.qwen_vl_common import MEAN, STD, TOKENS, count, extra, features, inputs, positions  # noqa: F401

CLASS = qwen2_vl_tower.CLASS
SEED = 172
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 6, 6), (1, 18, 6), (1, 12, 18)]
CONFIG = qwen2_vl_tower.CONFIG | {
    "tie_word_embeddings": True,
    "text_config": qwen2_vl_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1, "num_hidden_layers": 1, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 900.0, "mrope_section": [2, 5, 1]}},
    "vision_config": qwen2_vl_tower.CONFIG["vision_config"] | {
        "depth": 2, "embed_dim": 24, "hidden_size": 48, "mlp_ratio": 3, "num_heads": 3, "patch_size": 3, "spatial_merge_size": 2},
}
