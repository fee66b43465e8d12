"""gemma3: a window of 8 in two of three layers, two rotary embeddings, norms on both sides, tied."""
import gguf

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 20, "sliding_window": 8, "sliding_window_pattern": 3, "attention_bias": False,
    "final_logit_softcapping": None, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 2
GGUF_ARCHITECTURE = "gemma3"
GGUF_LAYER = shared.GGUF_LAYER | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                                  "post_feedforward_layernorm": "post_ffw_norm"}


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        found |= {at + f"{name}_feedforward_layernorm.weight": (config["hidden_size"],) for name in ("pre", "post")}
        found |= {at + f"self_attn.{name}_norm.weight": (config["head_dim"],) for name in "qk"}
    return found


def centre(_):
    return 0


def gguf_metadata(config, writer):
    writer.add_sliding_window(config["sliding_window"])
    writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
    writer.add_float32("gemma3.attention.scale", config["query_pre_attn_scalar"] ** -0.5)
    writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
