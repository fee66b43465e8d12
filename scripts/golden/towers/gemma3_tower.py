"""gemma3: squares of one size, nine tokens each; attention within an image is bidirectional; a window that is shorter than a prompt."""
import torch

from towers import VOCAB
from towers.square_common import MEAN, STD, unit_pixels

CLASS = "Gemma3ForConditionalGeneration"
SEED = 74
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 24), (1, 24, 24), (1, 24, 24)]
CONFIG = {
    "architectures": [CLASS], "model_type": "gemma3", "image_token_index": IMAGE_TOKEN, "image_token_id": IMAGE_TOKEN,
    "boi_token_index": 89, "eoi_token_index": 90, "mm_tokens_per_image": 9, "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 100000.0, "rope_local_base_freq": 1000.0,
        "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 20, "sliding_window": 12,
        "sliding_window_pattern": 3, "bos_token_id": 1, "eos_token_id": 2,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 24, "patch_size": 4, "num_channels": 3, "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6, "vision_use_head": False,
    },
}


def inputs(family, images):
    return {"pixel_values": unit_pixels(images)}


def extra(family, ids):
    return {"token_type_ids": torch.tensor([[int(token == IMAGE_TOKEN) for token in ids]])}


def features(family, model, given):
    rows = model.model.get_image_features(given["pixel_values"]).pooler_output
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    return CONFIG["mm_tokens_per_image"]
