"""llava_siglip: SigLIP's tower up to its last layer, without its norm; other widths, no projector biases, mistral's text with a window."""
from towers import VOCAB, llava_tower
from towers.llava_tower import CLASS, features, inputs  # noqa: F401

SEED = 82
IMAGE_TOKEN = 91
IMAGES = [(1, 20, 20), (1, 20, 20), (1, 20, 20)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = llava_tower.CONFIG | {
    "vision_feature_layer": -2, "vision_feature_select_strategy": "full", "image_seq_length": 16, "multimodal_projector_bias": False,
    "text_config": {
        "model_type": "mistral", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "rope_theta": 9000.0, "sliding_window": 20, "bos_token_id": 1, "eos_token_id": 2,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 4,
        "num_attention_heads": 4, "image_size": 20, "patch_size": 5, "vision_use_head": False,
    },
}


def count(family, image):
    return 16
