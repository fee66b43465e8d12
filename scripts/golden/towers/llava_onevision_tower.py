"""llava_onevision: SigLIP's tower to its last layer without its norm, mosaics of more than two tiles resized; qwen2's tied text."""
from towers import VOCAB, llava_next_tower
from towers.llava_next_tower import Cut, count, features, inputs, mosaic  # noqa: F401

CLASS = "LlavaOnevisionForConditionalGeneration"
SEED = 95
IMAGE_TOKEN = 91
SIDE = 3
MOST = 2
MEAN = STD = (0.5, 0.5, 0.5)
SIZES = [(30, 47), (13, 40), (31, 33)]
CONFIG = {
    "architectures": [CLASS], "model_type": "llava_onevision", "image_token_index": IMAGE_TOKEN, "video_token_index": 90,
    "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
    "vision_aspect_ratio": "anyres_max_2", "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    "image_grid_pinpoints": [[15, 15], [15, 30], [30, 15], [30, 30], [30, 45], [15, 45]],
    "text_config": {
        "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000.0,
        "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 2, "image_size": 15, "patch_size": 4, "vision_use_head": False,
    },
}
IMAGES = [Cut(CONFIG, size, 12) for size in SIZES]
