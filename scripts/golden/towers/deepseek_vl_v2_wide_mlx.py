"""deepseek_vl_v2_wide: tiles of seven by seven patches in squares of three by three, with pixels left over, a wider projection, queries of low rank,
experts chosen as in deepseek_v3 by sigmoids and a bias, which the largest published model has under the name of deepseek_v2."""
from towers import deepseek_vl_v2_mlx
from towers.deepseek_vl_v2_mlx import IMAGE_TOKEN, MEAN, STD  # noqa: F401

SEED = 192
IMAGES = [(2, 21, 21), (4, 21, 21), (3, 21, 21)]
GRIDS = [(1, 1), (3, 1), (1, 2)]
TEXT = deepseek_vl_v2_mlx.TEXT | {
    "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "n_shared_experts": 2, "n_routed_experts": 8,
    "num_experts_per_tok": 3, "routed_scaling_factor": 1.5, "q_lora_rank": 20, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
    "rms_norm_eps": 1e-5,
}
ORACLE = TEXT | {"model_type": "deepseek_v3"}
CONFIG = deepseek_vl_v2_mlx.CONFIG | {
    "candidate_resolutions": [[22, 22], [22, 44], [44, 22], [44, 44], [66, 22], [22, 66]], "language_config": TEXT,
    "projector_config": deepseek_vl_v2_mlx.CONFIG["projector_config"] | {"input_dim": 40, "n_embed": 48, "mlp_ratio": 2, "downsample_ratio": 3},
    "vision_config": deepseek_vl_v2_mlx.CONFIG["vision_config"] | {"layers": 3, "width": 40, "num_attention_heads": 4, "mlp_ratio": 2.0, "patch_size": 3,
                                                                   "image_size": 22},
}
