"""aya_vision_wide: other widths, squares of three, a layer before the last, the default width of the projection, a pooling head."""
from towers import VOCAB, aya_vision_tower
from towers.aya_vision_tower import CLASS, MEAN, STD, count, features, inputs  # noqa: F401

SEED = 87
IMAGE_TOKEN = 91
IMAGES = [(2, 30, 30), (1, 30, 30), (1, 30, 30)]
CONFIG = {name: value for name, value in aya_vision_tower.CONFIG.items() if name != "alignment_intermediate_size"} | {
    "downsample_factor": 3, "adapter_layer_norm_eps": 1e-6, "vision_feature_layer": -2, "tie_word_embeddings": False,
    "text_config": {
        "model_type": "llama", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 9000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3,
        "num_attention_heads": 3, "image_size": 30, "patch_size": 5, "layer_norm_eps": 1e-5,
    },
}
