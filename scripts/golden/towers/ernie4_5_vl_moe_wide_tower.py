"""ernie4_5_vl_moe_wide: three of eight experts in two of three layers, one that every row uses, time alone in most pairs, exact
gelu in the tower, other epsilons, the nested config of transformers, untied."""
from towers import ernie4_5_vl_moe_tower
from towers.ernie4_5_vl_moe_tower import CLASS, EDGES, IMAGE_TOKEN, MEAN, STD, buffer, count, extra, features, inputs, positions  # noqa: F401

SEED = 182
IMAGES = [(1, 24, 18), (1, 6, 6), (1, 36, 12)]
CONFIG = {name: value for name, value in ernie4_5_vl_moe_tower.CONFIG.items() if name != "text_config"} | {
    "tie_word_embeddings": False,
    "text_config": ernie4_5_vl_moe_tower.TEXT | {
        "model_type": "ernie4_5_vl_moe_text", "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-4,
        "tie_word_embeddings": False, "moe_k": 3, "moe_num_experts": 8, "moe_num_shared_experts": 1, "moe_intermediate_size": [16, 20],
        "mlp_layer_types": ["sparse", "dense", "sparse"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 9000.0, "mrope_section": [1, 1, 4]}},
    "vision_config": ernie4_5_vl_moe_tower.VISION | {
        "hidden_size": 24, "intermediate_size": 28, "num_heads": 3, "hidden_act": "gelu", "patch_size": 3, "rms_norm_eps": 1e-4},
}
