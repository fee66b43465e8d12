"""qwen2: biases on queries, keys and values, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu",
    "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 8, "max_window_layers": 1,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 11
GGUF_ARCHITECTURE = "qwen2"


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        weights = shared.layer_shapes(config, f"model.layers.{layer}.")
        found |= weights
        found |= {name.replace(".weight", ".bias"): shape[:1] for name, shape in weights.items()
                  if any(part in name for part in ("q_proj", "k_proj", "v_proj"))}
    return found


def centre(name):
    return 0 if name.endswith(".bias") else 1


def gguf_metadata(config, writer):
    pass


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): array for name, array in tensors.items()}
