"""lfm2_vl_wide: squares of three by three patches, no layer norm and no biases in the projection, SigLIP's pooling head, biases of convolutions."""
from towers import lfm2_vl_tower
from towers.lfm2_vl_tower import CLASS, IMAGE_TOKEN, count, features, inputs  # noqa: F401

SEED = 132
IMAGES = [(2, 18, 18), (1, 36, 9), (1, 9, 27)]
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
TEXT = lfm2_vl_tower.CONFIG["text_config"]
VISION = lfm2_vl_tower.CONFIG["vision_config"]
CONFIG = lfm2_vl_tower.CONFIG | {
    "downsample_factor": 3, "projector_bias": False, "projector_use_layernorm": False, "projector_hidden_size": 72,
    "text_config": TEXT | {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "layer_types": ["full_attention", "conv", "full_attention"],
                           "conv_bias": True, "conv_L_cache": 4},
    "vision_config": VISION | {"hidden_size": 48, "intermediate_size": 56, "num_attention_heads": 3, "num_hidden_layers": 2, "patch_size": 3,
                               "num_patches": 49, "layer_norm_eps": 1e-5, "vision_use_head": True},
}
