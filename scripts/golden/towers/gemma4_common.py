"""Shared by Gemma 4's sizes: the image processor, which pads every image, and weights that keep scores small."""
import numpy as np
import torch
from transformers import Gemma4ImageProcessor

MEAN, STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
TOKENS = {"image_token_id": 91, "video_token_id": 92, "audio_token_id": 93, "boi_token_id": 89, "eoi_token_id": 90}
SLIDING, GLOBAL = "sliding_attention", "full_attention"
TEXT = {
    "model_type": "gemma4_text", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "global_head_dim": 32, "num_global_key_value_heads": 1, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "rope_parameters": {GLOBAL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
                        SLIDING: {"rope_type": "default", "rope_theta": 10000.0}},
    "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2,
}
TOWER = {
    "model_type": "gemma4_vision", "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "num_key_value_heads": 2,
    "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "patch_size": 4,
    "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
}


def inputs(family, images):
    vision = family.CONFIG["vision_config"]
    processor = Gemma4ImageProcessor(do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"],
                                     pooling_kernel_size=vision["pooling_kernel_size"], max_soft_tokens=70)
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt",
                     input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_position_ids": made["image_position_ids"]}


def extra(family, ids):
    return {"mm_token_type_ids": torch.tensor([[int(token == family.IMAGE_TOKEN) for token in ids]])}


def features(family, model, given):
    return torch.cat(list(model.model.get_image_features(**given).pooler_output))


def count(family, image):
    vision = family.CONFIG["vision_config"]
    side = vision["patch_size"] * vision["pooling_kernel_size"]
    _, width, height = image
    return (width // side) * (height // side)


def centre(name):
    return 0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1


def buffer(name, shape, source):
    """Clipping bounds that some values exceed."""
    if name.endswith(("_min", "_max")):
        return (source.integers(64, 128, shape) / 64) * (-1 if name.endswith("_min") else 1)
    if name.endswith(("layer_scalar", "std_scale")):
        return 0.75 + source.integers(-32, 33, shape) / 128
    return source.integers(-64, 65, shape) / 64 if name.endswith("std_bias") else None
