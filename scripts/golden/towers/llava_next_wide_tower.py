"""llava_next_wide: no biases of the projection, its last layer but two, patches that leave pixels over, a mosaic of three; mistral's text with a window."""
from towers import llava_next_tower, llava_siglip_tower
from towers.llava_next_tower import CLASS, Cut, MEAN, STD, count, features, inputs, mosaic  # noqa: F401

SEED = 94
IMAGE_TOKEN = 91
SIDE = 2
MOST = None
SIZES = [(9, 33), (3, 3), (50, 22)]
CONFIG = llava_next_tower.CONFIG | {
    "vision_feature_layer": -3, "multimodal_projector_bias": False, "image_grid_pinpoints": [[13, 13], [26, 13], [13, 39]],
    "text_config": llava_siglip_tower.CONFIG["text_config"],
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 4,
        "num_attention_heads": 4, "image_size": 13, "patch_size": 5, "projection_dim": 16, "vocab_size": 96,
    },
}
IMAGES = [Cut(CONFIG, size, 10) for size in SIZES]
