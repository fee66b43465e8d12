"""cohere2_vision_wide: other widths, squares of three, no pooling head; cohere2's text with an output matrix of its own."""
from towers import VOCAB, cohere2_vision_tower
from towers.cohere2_vision_tower import CLASS, MEAN, STD, count, features, inputs  # noqa: F401

SEED = 89
IMAGE_TOKEN = 91
LOGIT_SCALE = 0.5
IMAGES = [(1, 45, 45), (2, 45, 45), (1, 45, 45)]
CONFIG = cohere2_vision_tower.CONFIG | {
    "downsample_factor": 3, "alignment_intermediate_size": 34, "tie_word_embeddings": False,
    "text_config": {
        "model_type": "cohere2", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "layer_norm_eps": 1e-6,
        "rope_theta": 9000.0, "sliding_window": 30, "logit_scale": 0.5, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3,
        "num_attention_heads": 3, "image_size": 45, "patch_size": 5, "vision_use_head": False,
    },
}
