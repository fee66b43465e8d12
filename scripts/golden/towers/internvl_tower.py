"""internvl: one to three tiles with a class row, factors of halves, layer norms; qwen2's text, tied."""
from towers import VOCAB
from towers.square_common import normalized

CLASS = "InternVLForConditionalGeneration"
SEED = 83
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 24), (3, 24, 24), (2, 24, 24)]
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
CONFIG = {
    "architectures": [CLASS], "model_type": "internvl", "image_token_id": IMAGE_TOKEN, "downsample_ratio": 0.5,
    "image_seq_length": 9, "projector_hidden_act": "gelu", "torch_dtype": "bfloat16", "vision_feature_layer": -1,
    "text_config": {
        "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_theta": 5000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True,
    },
    "vision_config": {
        "model_type": "internvl_vision", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": [24, 24], "patch_size": [4, 4], "attention_bias": True,
    },
}


def inputs(family, images):
    return {"pixel_values": normalized(family, images)}


def features(family, model, given):
    rows = model.model.get_image_features(given["pixel_values"]).pooler_output
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    return 9 * image[0]
