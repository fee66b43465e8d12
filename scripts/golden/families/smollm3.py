"""smollm3: no rotation in the fourth of five layers, tied."""
from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "hidden_size": 64, "intermediate_size": 80,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000.0, "hidden_act": "silu",
    "no_rope_layers": [1, 1, 1, 0, 1], "no_rope_layer_interval": 4, "use_sliding_window": False, "sliding_window": None,
    "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 31
GGUF_ARCHITECTURE = "smollm3"


shapes = shared.llama_shapes


def centre(_):
    return 1


def gguf_metadata(config, writer):
    """Writes no key for the layers that do not rotate, as converters do not."""


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
