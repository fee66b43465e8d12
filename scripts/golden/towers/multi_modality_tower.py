"""multi_modality: Janus as its publisher's folders have it: their names and keys, q, k and v in one matrix, the pooling head of the tower and a
tensor of the part that makes images, which nothing uses; other widths, another epsilon of the text, untied."""
import numpy as np

from towers import janus_tower
from towers.janus_tower import CLASS, IMAGE_TOKEN, centre, count, features, inputs  # noqa: F401

SEED = 172
IMAGES = [(1, 15, 15), (1, 15, 15), (1, 15, 15)]
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
TEXT = janus_tower.TEXT | {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
                           "rms_norm_eps": 1e-5, "rope_theta": 9000.0, "tie_word_embeddings": False}
CONFIG = janus_tower.CONFIG | {
    "tie_word_embeddings": False, "text_config": TEXT,
    "vision_config": janus_tower.VISION | {
        "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "mlp_ratio": 1.25, "image_size": 15, "patch_size": 5, "projection_dim": 48,
        "num_image_tokens": 9},
    "vq_config": janus_tower.CONFIG["vq_config"] | {"num_patches": 3, "projection_dim": 48, "image_token_embed_dim": 48},
}
PUBLISHED = {
    "architectures": ["MultiModalityCausalLM"], "model_type": "multi_modality", "torch_dtype": "bfloat16",
    "aligner_config": {"cls": "MlpProjector", "model_type": "aligner",
                       "params": {"depth": 2, "input_dim": 48, "n_embed": 48, "projector_type": "mlp_gelu"}},
    "gen_aligner_config": {"cls": "MlpProjector", "model_type": "gen_aligner", "params": {"depth": 2}},
    "language_config": TEXT,
    "vision_config": {
        "cls": "CLIPVisionTower", "model_type": "vision", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "mlp_ratio": 1.25,
        "patch_size": 5,
        "params": {"image_size": 15, "model_name": "siglip_large_patch16_384", "select_feature": "same", "select_layer": -1}},
}
NAMES = (
    ("model.vision_model.embeddings.patch_embedding.", "patch_embed.proj."), ("model.vision_model.encoder.layers.", "blocks."),
    ("model.vision_model.post_layernorm.", "norm."),
)
LAYER = ((".layer_norm1.", ".norm1."), (".layer_norm2.", ".norm2."), (".self_attn.projection_layer.", ".attn.proj."))


def stored(weights):
    renamed, parts = {}, {}
    for name, array in weights.items():
        if name.startswith(janus_tower.MADE):
            continue
        if name.startswith("model.language_model.") or name == "lm_head.weight":
            renamed["language_model." + (name if name == "lm_head.weight" else "model." + name.removeprefix("model.language_model."))] = array
        elif name.startswith("model.aligner."):
            renamed[name.replace("model.aligner.fc1", "aligner.layers.0").replace("model.aligner.hidden_layers.0", "aligner.layers.2")] = array
        elif "position_embedding" in name:
            renamed["vision_model.vision_tower.pos_embed"] = array[None]
        elif "_proj." in name:
            layer, rest = name.removeprefix("model.vision_model.encoder.layers.").split(".self_attn.")
            parts.setdefault((layer, rest.split(".")[1]), {})[rest[0]] = array
        else:
            old, new = next(pair for pair in NAMES if name.startswith(pair[0]))
            name = "vision_model.vision_tower." + new + name.removeprefix(old)
            for old, new in LAYER:
                name = name.replace(old, new)
            renamed[name] = array
    renamed |= {f"vision_model.vision_tower.blocks.{layer}.attn.qkv.{kind}": np.concatenate([found[x] for x in "qkv"])
                for (layer, kind), found in parts.items()}
    return renamed | {"vision_model.vision_tower.attn_pool.latent": np.zeros((1, 1, 48), np.float32),
                      "gen_embed.weight": weights["model.generation_embeddings.weight"]}
