"""smolvlm: images of one to three tiles, squares of four patches joined, llama's text."""
import torch

from towers import VOCAB
from towers.square_common import MEAN, STD, unit_pixels

CLASS = "SmolVLMForConditionalGeneration"
SEED = 75
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 24), (3, 24, 24), (2, 24, 24)]
CONFIG = {
    "architectures": [CLASS], "model_type": "smolvlm", "image_token_id": IMAGE_TOKEN, "scale_factor": 2,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "hidden_act": "silu", "vocab_size": VOCAB, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    },
    "vision_config": {
        "model_type": "smolvlm_vision", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 24, "patch_size": 4, "num_channels": 3, "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6,
    },
}


def inputs(family, images):
    return {"pixel_values": unit_pixels(images)[None]}


def features(family, model, given):
    rows = model.model.get_image_features(given["pixel_values"]).pooler_output
    rows = torch.cat(list(rows)) if isinstance(rows, (list, tuple)) else rows
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    side = 24 // 4 // CONFIG["scale_factor"]
    return image[0] * side * side
