"""qwen2_vl: layer norms, quick gelu, no windows; a text_config, as newer versions write it, and tensors of text without a prefix."""
from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, TOKENS, count, extra, features, inputs, positions

CLASS = "Qwen2VLForConditionalGeneration"
SEED = 72
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 24, 16), (1, 16, 24), (1, 8, 8)]
CONFIG = {
    "architectures": [CLASS], "model_type": "qwen2_vl", **TOKENS,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen2_vl_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "hidden_act": "silu", "vocab_size": VOCAB,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [4, 2, 2]},
    },
    "vision_config": {
        "model_type": "qwen2_vl", "depth": 2, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2, "num_heads": 2,
        "hidden_act": "quick_gelu", "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
}
