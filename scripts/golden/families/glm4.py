"""glm4: half of each head rotated in adjacent pairs, biases of q, k and v, norms on both sides, gate and up in one, untied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "hidden_size": 72, "intermediate_size": 88,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "partial_rotary_factor": 0.5,
    "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": True, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 12
GGUF_ARCHITECTURE = "glm4"
GGUF_LAYER = shared.GGUF_LAYER | {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
                                  "mlp.gate_up_proj": "ffn_up"}


def shapes(config):
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        del found[at + "mlp.gate_proj.weight"], found[at + "mlp.up_proj.weight"]
        found[at + "mlp.gate_up_proj.weight"] = (2 * wide, hidden)
        found |= {at + f"self_attn.{name}_proj.bias": found[at + f"self_attn.{name}_proj.weight"][:1] for name in "qkv"}
        found |= {at + f"post_{name}_layernorm.weight": (hidden,) for name in ("self_attn", "mlp")}
    return found


def centre(name):
    return 0 if name.endswith(".bias") else 1


def gguf_metadata(config, writer):
    writer.add_rope_dimension_count(int(config["head_dim"] * config["partial_rotary_factor"]))


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()}
