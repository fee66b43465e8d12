"""qwen2_5_vl: windows of two squares in two of three layers, sections of MRoPE, the flat config of published checkpoints."""
from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, TOKENS, count, extra, features, inputs, positions

CLASS = "Qwen2_5_VLForConditionalGeneration"
SEED = 71
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
CONFIG = {
    "architectures": [CLASS], "model_type": "qwen2_5_vl", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "silu", "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "sliding_window": 512,
    "use_sliding_window": False, "max_window_layers": 2, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, **TOKENS,
    "bos_token_id": 1, "eos_token_id": 2,
    "vision_config": {
        "model_type": "qwen2_5_vl", "depth": 3, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "hidden_act": "silu",
        "in_chans": 3, "patch_size": 4, "spatial_patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "window_size": 16, "fullatt_block_indexes": [1], "out_hidden_size": 32, "tokens_per_second": 2,
    },
}
