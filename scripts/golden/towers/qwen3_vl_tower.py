"""qwen3_vl: a table of positions of another size than every image, deepstack after two layers, interleaved rotary axes."""
from towers import VOCAB
from towers.qwen_vl_common import TOKENS, count, extra, features, inputs, positions

CLASS = "Qwen3VLForConditionalGeneration"
SEED = 73
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 24, 16), (1, 32, 24), (1, 8, 8)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = {
    "architectures": [CLASS], "model_type": "qwen3_vl", **TOKENS,
    "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "hidden_act": "silu", "vocab_size": VOCAB,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [4, 2, 2],
                            "mrope_interleaved": True},
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 3, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2,
        "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "patch_size": 4, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": 32, "num_position_embeddings": 25, "deepstack_visual_indexes": [0, 1],
    },
}
