"""gemma2: a window of 8 in every other layer, soft caps of scores and logits, a query scalar beside the head size, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 12, "sliding_window": 8, "attention_bias": False,
    "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0, "torch_dtype": "bfloat16", "bos_token_id": 256,
    "eos_token_id": 257,
}
SEED = 11
GGUF_ARCHITECTURE = "gemma2"
GGUF_LAYER = shared.GGUF_LAYER | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                                  "post_feedforward_layernorm": "post_ffw_norm"}


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        found |= {at + f"{name}_feedforward_layernorm.weight": (config["hidden_size"],) for name in ("pre", "post")}
    return found


def centre(_):
    return 0


def gguf_metadata(config, writer):
    """Writes no key for the scale, as converters do not: readers infer it from the layer count."""
    writer.add_sliding_window(config["sliding_window"])
    writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_float32("gemma2.attention.scale", config["query_pre_attn_scalar"] ** -0.5)


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
