"""gemma3_wide: squares of three by three patches, four tokens each, three key heads, every other layer with a window."""
from towers import gemma3_tower
from towers.gemma3_tower import CLASS, MEAN, STD, extra, features, inputs  # noqa: F401

SEED = 174
IMAGE_TOKEN = 91
IMAGES = [(1, 30, 30), (1, 30, 30), (1, 30, 30)]
CONFIG = gemma3_tower.CONFIG | {
    "mm_tokens_per_image": 4,
    "text_config": gemma3_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3, "sliding_window": 5, "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 12, "rms_norm_eps": 1e-4},
    "vision_config": gemma3_tower.CONFIG["vision_config"] | {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 30, "patch_size": 5},
}


def count(family, image):
    return 4
