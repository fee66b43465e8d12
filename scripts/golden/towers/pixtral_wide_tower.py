"""pixtral_wide: other widths, gelu gates, no biases of the projection, a layer before the last; llama's text, tied."""
from towers import VOCAB, pixtral_tower
from towers.pixtral_tower import CLASS, MEAN, STD, count, features, inputs  # noqa: F401

SEED = 94
IMAGE_TOKEN = 91
IMAGES = [(1, 25, 40), (1, 5, 5), (1, 30, 10)]
CONFIG = pixtral_tower.CONFIG | {
    "vision_feature_layer": -2, "multimodal_projector_bias": False, "tie_word_embeddings": True,
    "text_config": {
        "model_type": "llama", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 9000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "pixtral", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 2,
        "image_size": 40, "patch_size": 5, "hidden_act": "gelu",
    },
}
