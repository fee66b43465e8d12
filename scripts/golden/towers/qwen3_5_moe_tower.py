"""qwen3_5_moe: qwen3_5 with a mixture, and a shared expert, in both layers."""
from towers import VOCAB
from towers.qwen_vl_common import TOKENS, count, extra, features, inputs, positions

CLASS = "Qwen3_5MoeForConditionalGeneration"
SEED = 78
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 16, 16), (1, 16, 24), (1, 8, 8)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = {
    "architectures": [CLASS], "model_type": "qwen3_5_moe", **TOKENS,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_moe_text", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 32, "vocab_size": VOCAB, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
        "layer_types": ["linear_attention", "full_attention"], "full_attention_interval": 2, "linear_conv_kernel_dim": 4,
        "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False,
        "attn_output_gate": True, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default", "partial_rotary_factor": 0.5,
                            "mrope_section": [4, 2, 2], "mrope_interleaved": True},
    },
    "vision_config": {
        "model_type": "qwen3_5_moe", "depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2,
        "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 9,
    },
}
