"""kimi_vl: Kimi K2.5's tower with the names and keys of Kimi-VL, three layers, a table larger than most images. (The text keeps a low rank of
queries, since transformers saves a plain q_proj as if it were the tower's.)"""
from towers import kimi_k25_tower
from towers.kimi_k25_tower import CLASS, IMAGE_TOKEN, MEAN, STD, buffer, count, features, inputs  # noqa: F401

SEED = 152
IMAGES = [(1, 32, 48), (1, 72, 24), (1, 16, 8)]
CONFIG = kimi_k25_tower.CONFIG | {
    "projection_hidden_size": 48,
    "text_config": kimi_k25_tower.CONFIG["text_config"] | {
        "q_lora_rank": 16, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 3, "n_routed_experts": 8,
        "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2, "routed_scaling_factor": 2.446},
    "vision_config": kimi_k25_tower.CONFIG["vision_config"] | {
        "hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 56, "pos_emb_height": 16,
        "pos_emb_width": 16},
}
VISION = CONFIG["vision_config"]
PUBLISHED = {
    "architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "ignore_index": -100, "torch_dtype": "bfloat16",
    "media_placeholder_token_id": IMAGE_TOKEN, "vocab_size": CONFIG["text_config"]["vocab_size"], "text_config": CONFIG["text_config"],
    "vision_config": {
        "model_type": "moonvit", "hidden_size": VISION["hidden_size"], "intermediate_size": VISION["intermediate_size"],
        "num_hidden_layers": VISION["num_hidden_layers"], "num_attention_heads": VISION["num_attention_heads"],
        "patch_size": VISION["patch_size"], "init_pos_emb_height": VISION["pos_emb_height"],
        "init_pos_emb_width": VISION["pos_emb_width"], "merge_kernel_size": VISION["merge_kernel_size"],
    },
}
RENAMES = kimi_k25_tower.RENAMES + [
    (r"^mm_projector\.proj\.0", "multi_modal_projector.linear_1"), (r"^mm_projector\.proj\.2", "multi_modal_projector.linear_2"),
    (r"^mm_projector", "multi_modal_projector"),
]


def stored(weights):
    return kimi_k25_tower.stored(weights, RENAMES)
