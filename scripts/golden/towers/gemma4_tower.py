"""gemma4 like its small sizes: clipping bounds around the tower's matrices, per-layer embeddings with a padding token that is
not the first, shared keys, causal attention over image spans."""
from towers import VOCAB
from towers.gemma4_common import (GLOBAL, MEAN, SLIDING, STD, TEXT, TOKENS, TOWER, buffer, centre, count, extra, features,
                                  inputs)

CLASS = "Gemma4ForConditionalGeneration"
SEED = 79
IMAGE_TOKEN = TOKENS["image_token_id"]
IMAGES = [(1, 36, 24), (1, 12, 36), (1, 24, 24)]
CONFIG = {
    "architectures": [CLASS], "model_type": "gemma4", **TOKENS, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
    "text_config": {
        **TEXT, "num_hidden_layers": 4, "layer_types": [SLIDING, GLOBAL, SLIDING, GLOBAL], "vocab_size": VOCAB,
        "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True, "sliding_window": 12, "final_logit_softcapping": 30.0, "attention_k_eq_v": False,
        "enable_moe_block": False, "use_bidirectional_attention": None, "pad_token_id": 7,
    },
    "vision_config": {**TOWER, "num_hidden_layers": 2, "pooling_kernel_size": 3, "position_embedding_size": 64,
                      "use_clipped_linears": True, "standardize": False},
    "audio_config": None,
}
