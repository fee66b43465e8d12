"""internvl_chat: the publisher's layout: llm_config, other names, q, k and v in one matrix; qwen2's text, not tied."""
import re

import numpy as np

from towers import internvl_tower
from towers.internvl_tower import CLASS, IMAGE_TOKEN, MEAN, STD, count, features, inputs  # noqa: F401

SEED = 85
IMAGES = [(2, 24, 24), (1, 24, 24), (1, 24, 24)]
CONFIG = internvl_tower.CONFIG | {"tie_word_embeddings": False,
                                  "text_config": internvl_tower.CONFIG["text_config"] | {"tie_word_embeddings": False}}
VISION = CONFIG["vision_config"]
PUBLISHED = {
    "architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5, "dynamic_image_size": True,
    "force_image_size": 24, "max_dynamic_patch": 12, "min_dynamic_patch": 1, "ps_version": "v2", "select_layer": -1,
    "template": "internvl2_5", "use_thumbnail": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "llm_config": CONFIG["text_config"] | {"architectures": ["Qwen2ForCausalLM"]},
    "vision_config": {name: VISION[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    | {"model_type": "intern_vit_6b", "architectures": ["InternVisionModel"], "image_size": 24, "patch_size": 4, "qkv_bias": True,
       "qk_normalization": False, "norm_type": "layer_norm", "layer_norm_eps": 1e-6, "hidden_act": "gelu", "num_channels": 3},
}
RENAMES = [
    ("vision_tower.embeddings.cls_token", "vision_model.embeddings.class_embedding"),
    ("vision_tower.embeddings.position_embeddings", "vision_model.embeddings.position_embedding"),
    ("vision_tower.embeddings.patch_embeddings.projection", "vision_model.embeddings.patch_embedding"),
    (r"vision_tower.encoder.layer.(\d+)", r"vision_model.encoder.layers.\1"), ("layernorm_before", "norm1"), ("layernorm_after", "norm2"),
    ("lambda_1", "ls1"), ("lambda_2", "ls2"), ("attention.projection_layer", "attn.proj"),
    ("multi_modal_projector.layer_norm", "mlp1.0"), ("multi_modal_projector.linear_1", "mlp1.1"),
    ("multi_modal_projector.linear_2", "mlp1.3"), ("^language_model", "language_model.model"),
    ("^lm_head", "language_model.lm_head"),
]


def stored(weights):
    found = {}
    for name, array in weights.items():
        name = name.removeprefix("model.").replace("language_model.model.", "language_model.")
        name = name.replace("language_model.lm_head", "lm_head")
        for old, new in RENAMES:
            name = re.sub(old, new, name)
        found[name] = array
    for name in [name for name in found if ".attention.q_proj." in name]:
        parts = [found.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        found[name.replace("attention.q_proj", "attn.qkv")] = np.concatenate(parts)
    return found
