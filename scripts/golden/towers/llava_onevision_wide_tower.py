"""llava_onevision_wide: an image of one tile, as beside other images; a layer before the last, SigLIP's pooling head, mosaics of more than three
tiles resized; qwen2's untied text."""
from transformers.models.llava_onevision import modeling_llava_onevision as modeling

from towers import llava_onevision_tower
from towers.llava_next_tower import Cut, count, features, inputs, mosaic  # noqa: F401
from towers.llava_onevision_tower import CLASS  # noqa: F401

SEED = 96
IMAGE_TOKEN = 91
SIDE = 2
MOST = 3
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
SIZES = [(10, 10), (42, 27), (18, 80)]
CONFIG = llava_onevision_tower.CONFIG | {
    "vision_feature_layer": -2, "vision_aspect_ratio": "anyres_max_3", "multimodal_projector_bias": False, "tie_word_embeddings": False,
    "image_grid_pinpoints": [[20, 10], [30, 20], [10, 40]],
    "text_config": llava_onevision_tower.CONFIG["text_config"] | {
        "hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 3, "rope_theta": 9000.0, "tie_word_embeddings": False},
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 4,
        "num_attention_heads": 4, "image_size": 10, "patch_size": 5,
    },
}
IMAGES = [(1, 10, 10), *(Cut(CONFIG, size, 10) for size in SIZES[1:])]
IMAGES[0] = type("Whole", (tuple,), {"size": SIZES[0]})(IMAGES[0])
cut = modeling.image_size_to_num_patches


def tiles_of(image_size, grid_pinpoints, patch_size):
    """The class counts one tile for an image beside others; here its size says so."""
    return 1 if tuple(int(side) for side in image_size) == (10, 10) else cut(image_size, grid_pinpoints, patch_size)


modeling.image_size_to_num_patches = tiles_of
