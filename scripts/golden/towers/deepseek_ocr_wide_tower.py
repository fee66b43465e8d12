"""deepseek_ocr_wide: sixteen by sixteen patches, tiles of twelve by twelve, windows of six, two layers without windows, heads of ten columns, three of
eight experts, another base of the rope."""
from towers import deepseek_ocr_tower
from towers.deepseek_ocr_tower import IMAGE_TOKEN, MEAN, STD, centre, count, features, inputs, model_class, mosaic, stored  # noqa: F401

SEED = 202
IMAGES = [(1, 48, 48), (2, 36, 36), (4, 36, 36)]
GRIDS = {2: (2, 1), 4: (2, 2)}
TEXT = deepseek_ocr_tower.TEXT | {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "n_routed_experts": 8, "num_experts_per_tok": 3,
                                  "n_shared_experts": 1, "rope_theta": 1000000.0, "rms_norm_eps": 1e-5}
SAM = {"width": 30, "layers": 3, "heads": 3, "patch_size": 3, "window_size": 6, "global_attn_indexes": [0, 2], "output_channels": 8,
       "downsample_channels": [12, 36]}
CLIP = {"width": 36, "layers": 2, "heads": 3, "image_size": 15, "patch_size": 3}
IMAGE_SIZE = 48
PUBLISHED = deepseek_ocr_tower.published(TEXT, SAM, CLIP, IMAGE_SIZE)
CONFIG = deepseek_ocr_tower.read_by_transformers(TEXT, SAM, CLIP, IMAGE_SIZE)
