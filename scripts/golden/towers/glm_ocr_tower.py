"""glm_ocr: a layer that predicts several tokens, which the class ignores; norms of each head and biases in the tower, no table; heads wider than the hidden size, MRoPE over whole heads."""
from towers import VOCAB, glm4v_tower
from towers.glm4v_tower import IMAGES, MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

CLASS = "GlmOcrForConditionalGeneration"
SEED = 100
IMAGE_TOKEN = 91
CONFIG = glm4v_tower.CONFIG | {
    "architectures": [CLASS], "model_type": "glm_ocr",
    "text_config": {
        "model_type": "glm_ocr_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "pad_token_id": 0, "eos_token_id": [2], "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 1.0, "mrope_section": [3, 5, 4]},
    },
    "vision_config": glm4v_tower.CONFIG["vision_config"] | {"model_type": "glm_ocr_vision", "attention_bias": True},
}


def stored(weights):
    import numpy as np
    ahead = "model.language_model.layers.16."
    return weights | {ahead + "eh_proj.weight": np.ones((4, 8), np.float32), ahead + "input_layernorm.weight": np.ones(4, np.float32)}
