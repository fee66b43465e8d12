"""seed_oss: heads of 24 beside a hidden size of 72, biases of q, k and v, untied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["SeedOssForCausalLM"], "model_type": "seed_oss", "hidden_size": 72, "intermediate_size": 88,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "attention_bias": True, "attention_out_bias": False, "mlp_bias": False,
    "attention_dropout": 0.0, "residual_dropout": 0.0, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
    "pad_token_id": 257,
}
SEED = 32
GGUF_ARCHITECTURE = "seed_oss"
GGUF_LAYER = shared.GGUF_LAYER | {"post_attention_layernorm": "post_attention_norm"}


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        found |= {at + f"self_attn.{name}_proj.bias": found[at + f"self_attn.{name}_proj.weight"][:1] for name in "qkv"}
    return found


def centre(name):
    return 0 if name.endswith(".bias") else 1


def gguf_metadata(config, writer):
    pass


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()}
