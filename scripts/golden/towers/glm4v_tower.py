"""glm4v: a table of six by six positions, which is the size of no image, no biases of q, k and v in the tower; sections of MRoPE over half
of a head, adjacent pairs."""
from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, count, extra, features, inputs, positions  # noqa: F401

CLASS = "Glm4vForConditionalGeneration"
SEED = 97
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
CONFIG = {
    "architectures": [CLASS], "model_type": "glm4v", "torch_dtype": "bfloat16", "image_token_id": IMAGE_TOKEN, "video_token_id": 92,
    "image_start_token_id": 89, "image_end_token_id": 90, "video_start_token_id": 87, "video_end_token_id": 88,
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "glm4v_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "attention_bias": True,
        "pad_token_id": 0, "eos_token_id": [2], "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 2, 1]},
    },
    "vision_config": {
        "model_type": "glm4v_vision", "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "out_hidden_size": 32,
        "image_size": 24, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "attention_bias": False,
    },
}
