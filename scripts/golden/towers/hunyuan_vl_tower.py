"""hunyuan_vl: four axes of positions, a base stretched by alpha, a table of five by five positions behind a class row that nothing uses, a learned row
after each line and around an image; the flat config and the names of published folders, tied."""
import numpy as np
import torch

from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, extra  # noqa: F401

CLASS = "HunYuanVLForConditionalGeneration"
SEED = 161
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
TOKENS = {"image_token_id": IMAGE_TOKEN, "im_start_id": 89, "im_end_id": 90, "im_newline_id": 88}
TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "tie_word_embeddings": True,
}
VISION = {
    "model_type": "hunyuan_vl_vision", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
    "hidden_act": "gelu", "interpolate_mode": "bilinear", "max_image_size": 22, "patch_size": 4, "spatial_merge_size": 2,
    "temporal_patch_size": 1, "rms_norm_eps": 1e-5, "out_hidden_size": 32, "text_hidden_size": 32,
}
ROPE = {"alpha": 100.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
CONFIG = {
    "architectures": [CLASS], "model_type": "hunyuan_vl", "torch_dtype": "bfloat16", **TOKENS, "tie_word_embeddings": True,
    "text_config": TEXT | {"model_type": "hunyuan_vl_text",
                           "rope_parameters": ROPE | {"rope_type": "dynamic", "rope_theta": 5000.0, "mrope_section": [2, 1, 3, 2]}},
    "vision_config": VISION,
}
PUBLISHED = {name: value for name, value in CONFIG.items() if name != "text_config"} | TEXT | {
    "rope_theta": 5000.0, "rope_scaling": ROPE | {"type": "xdrope", "xdrope_section": [2, 1, 3, 2]}, "attention_head_dim": 16,
    "pad_id": 0, "org_vocab_size": VOCAB, "num_experts": 1, "use_qk_norm": True, "attention_bias": False, "use_cla": False,
}


def inputs(family, images):
    from transformers.models.hunyuan_vl.image_processing_hunyuan_vl import HunYuanVLImageProcessor
    vision = family.CONFIG["vision_config"]
    processor = HunYuanVLImageProcessor(do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(family.MEAN),
                                        image_std=list(family.STD), merge_size=vision["spatial_merge_size"])
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt", input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def count(family, image):
    vision = family.CONFIG["vision_config"]
    side = vision["patch_size"] * vision["spatial_merge_size"]
    _, width, height = image
    return (width // side + 1) * (height // side) + 2


def positions(family, model, ids, given):
    """The last three axes are width, height and the number of the image, which scenes have in the other order."""
    found, _ = model.model.get_rope_index(torch.tensor([ids]), **extra(family, ids), image_grid_thw=given["image_grid_thw"])
    return found[:, 0].flip(0)[:3]


def features(family, model, given):
    out = model.model.get_image_features(given["pixel_values"], given["image_grid_thw"])
    rows = out.pooler_output
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in rows]) if isinstance(rows, (list, tuple)) else rows.reshape(-1, rows.shape[-1])
