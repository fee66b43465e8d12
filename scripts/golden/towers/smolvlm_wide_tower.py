"""smolvlm_wide: squares of three by three patches, three heads, tied."""
from towers import smolvlm_tower
from towers.smolvlm_tower import CLASS, MEAN, STD, features, inputs  # noqa: F401

SEED = 175
IMAGE_TOKEN = 91
IMAGES = [(2, 18, 18), (1, 18, 18), (3, 18, 18)]
CONFIG = smolvlm_tower.CONFIG | {
    "scale_factor": 3, "tie_word_embeddings": True,
    "text_config": smolvlm_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 8, "tie_word_embeddings": True},
    "vision_config": smolvlm_tower.CONFIG["vision_config"] | {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 18, "patch_size": 3},
}


def count(family, image):
    return image[0] * 4
