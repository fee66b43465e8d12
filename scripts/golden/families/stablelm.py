"""stablelm: layer norms, biases of q, k and v, a quarter of each head rotated, untied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_size": 96, "intermediate_size": 88,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "layer_norm_eps": 1e-5, "rope_theta": 6000, "partial_rotary_factor": 0.25,
    "hidden_act": "silu", "use_qkv_bias": True, "qk_layernorm": False, "use_parallel_residual": False,
    "attention_dropout": 0.0, "hidden_dropout": 0.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 73
GGUF_ARCHITECTURE = "stablelm"
NORMS = ("input_layernorm", "post_attention_layernorm")


def shapes(config):
    hidden = config["hidden_size"]
    found = shared.whole_shapes(config) | {"model.norm.bias": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        own = shared.layer_shapes(config, at)
        found |= own | {f"{at}{norm}.bias": (hidden,) for norm in NORMS}
        found |= {f"{at}self_attn.{name}_proj.bias": own[f"{at}self_attn.{name}_proj.weight"][:1] for name in "qkv"}
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_parallel_residual(True)  # as converters did where the config had no such key
    writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * config["head_dim"]))


def gguf_tensors(config, tensors):
    return {"output_norm.bias" if name == "model.norm.bias" else shared.gguf_name(name): array for name, array in tensors.items()}
