"""kimi_k25: a table of five by five positions, which is the size of no image, with the publisher's names and keys: q, k and v as one matrix of
adjacent pairs, sizes as vt_*; the text is deepseek_v3's, untied, its model_type kimi_k2."""
import re

import numpy as np

from towers import VOCAB
from towers.square_common import MEAN, STD  # noqa: F401

CLASS = "Kimi_K25ForConditionalGeneration"
SEED = 151
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
CONFIG = {
    "architectures": [CLASS], "model_type": "kimi_k25", "torch_dtype": "bfloat16", "image_token_id": IMAGE_TOKEN, "video_token_id": 92,
    "vision_start_token_id": 89, "vision_end_token_id": 90, "projection_hidden_size": 32, "projection_layer_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "deepseek_v3", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 8, "kv_lora_rank": 24, "q_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
        "v_head_dim": 16, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 16,
        "first_k_dense_replace": 1, "num_nextn_predict_layers": 0, "vocab_size": VOCAB, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    },
    "vision_config": {
        "model_type": "kimi_k25_vision", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
        "patch_size": 4, "pos_emb_height": 5, "pos_emb_width": 5, "pos_emb_time": 4, "merge_kernel_size": [2, 2],
    },
}

VISION = CONFIG["vision_config"]
PUBLISHED = {name: value for name, value in CONFIG.items() if not name.startswith(("image_", "video_", "projection_"))} | {
    "media_placeholder_token_id": IMAGE_TOKEN, "text_config": CONFIG["text_config"] | {"model_type": "kimi_k2"},
    "vision_config": {
        "vt_hidden_size": VISION["hidden_size"], "vt_intermediate_size": VISION["intermediate_size"],
        "vt_num_hidden_layers": VISION["num_hidden_layers"], "vt_num_attention_heads": VISION["num_attention_heads"],
        "init_pos_emb_height": VISION["pos_emb_height"], "init_pos_emb_width": VISION["pos_emb_width"], "init_pos_emb_time": 4,
        "patch_size": VISION["patch_size"], "merge_kernel_size": VISION["merge_kernel_size"], "merge_type": "sd2_tpool",
        "mm_hidden_size": VISION["hidden_size"], "mm_projector_type": "patchmerger", "pos_emb_type": "divided_fixed",
        "projector_hidden_act": "gelu", "projector_ln_eps": 1e-5, "qkv_bias": True, "text_hidden_size": 32,
        "video_attn_type": "spatial_temporal",
    },
}
RENAMES = [
    (r"^language_model\.model\.blocks", "language_model.model.layers"), (r"^vision_tower\.encoder\.patch_embed", "vision_tower.patch_embed"),
    (r"^model\.mm_projector", "mm_projector"),
]


def stored(weights, renames=RENAMES):
    """transformers saves some names that neither it nor the publisher reads; these are the publisher's."""
    found = {}
    for name, array in weights.items():
        for old, new in renames:
            name = re.sub(old, new, name)
        found[name] = array
    return found


def inputs(family, images):
    from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
    vision = family.CONFIG["vision_config"]
    processor = Kimi_K25ImageProcessor(do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(family.MEAN),
                                       image_std=list(family.STD), merge_size=vision["merge_kernel_size"][0])
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt", input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def buffer(name, shape, source):
    return source.integers(-32, 33, shape) / 128 if name.endswith("e_score_correction_bias") else None


def features(family, model, given):
    import torch
    return torch.cat(list(model.model.get_image_features(**given).pooler_output))


def count(family, image):
    vision = family.CONFIG["vision_config"]
    side = vision["patch_size"] * vision["merge_kernel_size"][0]
    _, width, height = image
    return (width // side) * (height // side)
