"""qwen3_vl_wide: a table smaller than the images, one further part, of the last layer; untied."""
from towers import qwen3_vl_tower
from towers.qwen_vl_common import TOKENS, count, extra, features, inputs, positions  # noqa: F401

CLASS = qwen3_vl_tower.CLASS
SEED = 173
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 6, 6), (1, 18, 6), (1, 12, 18)]
MEAN, STD = qwen3_vl_tower.MEAN, qwen3_vl_tower.STD
CONFIG = qwen3_vl_tower.CONFIG | {
    "tie_word_embeddings": False,
    "text_config": qwen3_vl_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 900.0, "mrope_section": [6, 1, 1], "mrope_interleaved": True}},
    "vision_config": qwen3_vl_tower.CONFIG["vision_config"] | {
        "depth": 2, "hidden_size": 24, "intermediate_size": 56, "num_heads": 3, "patch_size": 3, "spatial_merge_size": 2, "out_hidden_size": 48,
        "num_position_embeddings": 4, "deepstack_visual_indexes": [1]},
}
