"""mistral3_wide: silu gates, squares of three, biases of the projection, a layer before the last, another rope base; ministral3's text, untied."""
from towers import VOCAB, mistral3_tower
from towers.mistral3_tower import CLASS, MEAN, STD, count, features, inputs  # noqa: F401

SEED = 92
IMAGE_TOKEN = 91
IMAGES = [(1, 30, 45), (1, 15, 30), (1, 60, 30)]
CONFIG = mistral3_tower.CONFIG | {
    "spatial_merge_size": 3, "multimodal_projector_bias": True, "vision_feature_layer": -2, "tie_word_embeddings": False,
    "text_config": {
        "model_type": "ministral3", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
        "rope_parameters": {"type": "yarn", "rope_type": "yarn", "rope_theta": 9000.0, "factor": 4.0,
                            "original_max_position_embeddings": 128, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
                            "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
    },
    "vision_config": {
        "model_type": "pixtral", "hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 3,
        "image_size": 60, "patch_size": 5, "hidden_act": "silu", "rope_parameters": {"rope_type": "axial", "rope_theta": 700.0},
    },
}
