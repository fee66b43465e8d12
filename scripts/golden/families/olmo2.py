"""olmo2: norms after both halves, of all query heads as one and all key heads as one, untied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_size": 64, "intermediate_size": 80,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "attention_bias": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 37
GGUF_ARCHITECTURE = "olmo2"
GGUF_LAYER = shared.GGUF_LAYER_AFTER


def shapes(config):
    found = shared.shapes_with_norms_after(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.self_attn."
        found[at + "q_norm.weight"] = (config["num_attention_heads"] * config["head_dim"],)
        found[at + "k_norm.weight"] = (config["num_key_value_heads"] * config["head_dim"],)
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    """Nothing beyond what all families have."""


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()}
