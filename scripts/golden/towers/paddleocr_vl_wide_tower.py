"""paddleocr_vl_wide: three heads in the tower, biases everywhere in the text, another epsilon in the tower, untied, the names and config
that transformers saves."""
from towers import paddleocr_vl_tower
from towers.paddleocr_vl_tower import CLASS, IMAGE_TOKEN, count, extra, features, inputs, positions  # noqa: F401

SEED = 142
IMAGES = [(1, 18, 30), (1, 6, 6), (1, 42, 12)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = paddleocr_vl_tower.CONFIG | {
    "tie_word_embeddings": False,
    "text_config": paddleocr_vl_tower.TEXT | {
        "model_type": "paddleocr_vl_text", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "use_bias": True,
        "tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}},
    "vision_config": paddleocr_vl_tower.VISION | {"hidden_size": 48, "intermediate_size": 56, "num_attention_heads": 3, "image_size": 21, "patch_size": 3,
                                                  "spatial_merge_size": 2, "layer_norm_eps": 1e-5},
}
