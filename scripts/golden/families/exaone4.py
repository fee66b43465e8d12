"""exaone4: norms after both halves only, head norms, every layer global, untied."""
from families import VOCAB, shared

LAYERS = 3
CONFIG = {
    "architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "hidden_size": 64, "intermediate_size": 88,
    "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu",
    "sliding_window": None, "sliding_window_pattern": None, "layer_types": ["full_attention"] * LAYERS,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 36
GGUF_ARCHITECTURE = "exaone4"
GGUF_LAYER = shared.GGUF_LAYER_AFTER


def shapes(config):
    found = shared.shapes_with_norms_after(config)
    for layer in range(config["num_hidden_layers"]):
        found |= {f"model.layers.{layer}.self_attn.{name}_norm.weight": (config["head_dim"],) for name in "qk"}
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    """Writes no key for windows: converters write none that tells the layers."""


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()}
