"""qwen3_vl_moe: qwen3_vl's tower, mixtures in two of three layers, transposed stacks of experts as published."""
import numpy as np

from towers import VOCAB
from towers.qwen_vl_common import TOKENS, count, extra, features, inputs, positions

CLASS = "Qwen3VLMoeForConditionalGeneration"
SEED = 77
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 16, 24), (1, 32, 16), (1, 8, 8)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = {
    "architectures": [CLASS], "model_type": "qwen3_vl_moe", **TOKENS,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_moe_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "hidden_act": "silu", "vocab_size": VOCAB,
        "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1,
        "mlp_only_layers": [1], "norm_topk_prob": True,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [4, 2, 2],
                            "mrope_interleaved": True},
    },
    "vision_config": {
        "model_type": "qwen3_vl_moe", "depth": 3, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2,
        "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 2],
    },
}


def stored(weights):
    """Transformers reads both orders and writes only the untransposed one."""
    return {name: np.ascontiguousarray(array.swapaxes(1, 2)) if ".experts." in name else array for name, array in weights.items()}
