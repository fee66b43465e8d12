"""deepseek_vl_v2_tiny: the text of the smallest published model, which attends as llama does; mlx-vlm's text is the reference."""
from towers import deepseek_vl_v2_mlx
from towers.deepseek_vl_v2_mlx import GRIDS, IMAGE_TOKEN, MEAN, STD  # noqa: F401

SEED = 193
IMAGES = [(3, 16, 16), (2, 16, 16), (5, 16, 16)]
TEXT = deepseek_vl_v2_mlx.TEXT | {
    "kv_lora_rank": None, "qk_rope_head_dim": 0, "v_head_dim": 0, "qk_nope_head_dim": 0, "use_mla": False, "rm_head": False, "lm_head": True, "rope_scaling": None,
}
CONFIG = deepseek_vl_v2_mlx.CONFIG | {
    "candidate_resolutions": [[16, 16], [16, 32], [32, 16], [32, 32]], "language_config": TEXT,
    "vision_config": deepseek_vl_v2_mlx.CONFIG["vision_config"] | {"image_size": 16},
}
MLX_TEXT = True
