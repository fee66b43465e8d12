"""gemma4 like its large sizes: features shifted and scaled, image spans seen whole by layers with a window only, mixtures
beside feed-forward parts, values that are keys in global layers."""
from towers import VOCAB
from towers.gemma4_common import (GLOBAL, MEAN, SLIDING, STD, TEXT, TOKENS, TOWER, buffer, centre, count, extra, features,
                                  inputs)

CLASS = "Gemma4ForConditionalGeneration"
SEED = 80
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 40, 16), (1, 16, 24), (1, 8, 8)]
CONFIG = {
    "architectures": [CLASS], "model_type": "gemma4", **TOKENS, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    "text_config": {
        **TEXT, "num_hidden_layers": 3, "layer_types": [SLIDING, SLIDING, GLOBAL], "vocab_size": VOCAB,
        "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False, "sliding_window": 6, "final_logit_softcapping": 30.0, "attention_k_eq_v": True,
        "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32,
        "use_bidirectional_attention": "vision", "pad_token_id": 0,
    },
    "vision_config": {**TOWER, "num_hidden_layers": 2, "pooling_kernel_size": 2, "position_embedding_size": 12,
                      "use_clipped_linears": False, "standardize": True},
    "audio_config": None,
}
