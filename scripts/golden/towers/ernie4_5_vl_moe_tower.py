"""ernie4_5_vl_moe: two sets of six experts after a dense layer, one of rows of images and the tokens around them; lines and columns in turn in a head's
first pairs; the flat config and the names of published folders, tied."""
import torch

from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, count, features, positions  # noqa: F401
from towers import qwen_vl_common

CLASS = "Ernie4_5_VLMoeForConditionalGeneration"
SEED = 181
IMAGE_TOKEN = 91
EDGES = (89, 90)
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
TOKENS = {"image_token_id": IMAGE_TOKEN, "image_start_token_id": EDGES[0], "image_end_token_id": EDGES[1], "video_start_token_id": 86,
          "video_end_token_id": 87, "video_token_id": 88}
TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "use_bias": False, "hidden_act": "silu", "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "moe_k": 2, "moe_num_shared_experts": 2, "moe_norm_min": 1e-12, "moe_intermediate_size": [24, 8],
}
VISION = {
    "model_type": "ernie4_5_vl_moe_vision", "depth": 2, "hidden_size": 16, "intermediate_size": 20, "num_heads": 2, "hidden_act": "quick_gelu",
    "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2, "temporal_merge_size": 2, "rms_norm_eps": 1e-6,
}
CONFIG = {
    "architectures": [CLASS], "model_type": "ernie4_5_vl_moe", "torch_dtype": "bfloat16", **TOKENS, "tie_word_embeddings": True,
    "text_config": TEXT | {"model_type": "ernie4_5_vl_moe_text", "moe_num_experts": 6, "mlp_layer_types": ["dense", "sparse", "sparse"],
                           "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [3, 3, 2]}},
    "vision_config": VISION,
}
PUBLISHED = {name: value for name, value in CONFIG.items() if name != "text_config"} | TEXT | {
    "model_type": "ernie4_5_moe_vl", "moe_num_experts": [6, 6], "moe_layer_start_index": [1, 1], "moe_layer_end_index": [29, 28],
    "moe_layer_interval": 1, "rope_theta": 5000.0, "freq_allocation": 2, "rope_3d": True,
    "vision_config": VISION | {"model_type": "DFNRope_vision_transformer", "mlp_ratio": 1.25, "embed_dim": 16},
}
PUBLISHED["vision_config"].pop("intermediate_size")


def inputs(family, images):
    vision = family.CONFIG["vision_config"]
    from transformers.models.ernie4_5_vl_moe.image_processing_ernie4_5_vl_moe import Ernie4_5_VLMoeImageProcessor
    import numpy as np
    processor = Ernie4_5_VLMoeImageProcessor(do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(family.MEAN),
                                             image_std=list(family.STD), merge_size=vision["spatial_merge_size"])
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt", input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def extra(family, ids):
    kinds = [[int(token == family.IMAGE_TOKEN or token in family.EDGES) for token in ids]]
    return qwen_vl_common.extra(family, ids) | {"moe_mm_token_type_ids": torch.tensor(kinds)}


def buffer(name, shape, source):
    """The bias of the choice of experts."""
    return source.integers(-32, 33, shape) / 256 if name.endswith("e_score_correction_bias") else None
