"""internvl_wide: as InternViT-6B: rms norms, norms of queries and keys over all heads, no biases of q, k and v; qwen3's text."""
from towers import VOCAB, internvl_tower
from towers.internvl_tower import CLASS, MEAN, STD, features, inputs  # noqa: F401

SEED = 84
IMAGE_TOKEN = 91
IMAGES = [(2, 20, 20), (1, 20, 20), (3, 20, 20)]
CONFIG = internvl_tower.CONFIG | {
    "image_seq_length": 4, "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 9000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "internvl_vision", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3,
        "num_attention_heads": 3, "image_size": [20, 20], "patch_size": [5, 5], "attention_bias": False, "use_qk_norm": True,
        "norm_type": "rms_norm", "layer_norm_eps": 1e-5,
    },
}


def count(family, image):
    return 4 * image[0]
