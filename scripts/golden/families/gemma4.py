"""gemma4: sliding and global layers with heads of their own sizes, the last two sharing keys and twice as wide, values that are
keys in global layers, per-layer embeddings, layer scalars, a quarter of a global head rotating, capped logits."""
import numpy as np

from families import VOCAB, shared

SLIDING, GLOBAL = "sliding_attention", "full_attention"
CONFIG = {
    "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 64,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32,
    "num_global_key_value_heads": 1, "attention_k_eq_v": True, "layer_types": [SLIDING, SLIDING, GLOBAL, SLIDING, GLOBAL],
    "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16, "vocab_size": VOCAB,
    "vocab_size_per_layer_input": VOCAB, "max_position_embeddings": 512, "sliding_window": 8, "rms_norm_eps": 1e-6,
    "rope_parameters": {
        GLOBAL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
        SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    },
    "final_logit_softcapping": 2.5, "enable_moe_block": False, "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
    "pad_token_id": 0,
}
SEED = 41
GGUF_ARCHITECTURE = "gemma4"
GGUF_SHARED_SETTINGS = False
GGUF_WHOLE = {"embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
              "per_layer_projection_norm": "per_layer_proj_norm"}
GGUF_LAYER = shared.GGUF_LAYER | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
}


def is_global(config, layer):
    return config["layer_types"][layer] == GLOBAL


def shares(config, layer):
    return layer >= config["num_hidden_layers"] - config["num_kv_shared_layers"]


def head_dim(config, layer):
    return config["global_head_dim"] if is_global(config, layer) else config["head_dim"]


def kv_heads(config, layer):
    return config["num_global_key_value_heads"] if is_global(config, layer) else config["num_key_value_heads"]


def wide(config, layer):
    return config["intermediate_size"] * (2 if shares(config, layer) else 1)


def shapes(config):
    hidden, columns = config["hidden_size"], config["hidden_size_per_layer_input"]
    every = config["num_hidden_layers"] * columns
    found = shared.whole_shapes(config)
    if columns:
        found |= {"model.embed_tokens_per_layer.weight": (VOCAB, every),
                  "model.per_layer_model_projection.weight": (every, hidden), "model.per_layer_projection_norm.weight": (columns,)}
    for layer in range(config["num_hidden_layers"]):
        at, size = f"model.layers.{layer}.", head_dim(config, layer)
        queries, keys = config["num_attention_heads"] * size, kv_heads(config, layer) * size
        found |= {at + f"{name}.weight": (hidden,) for name in (
            "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
            *["post_per_layer_input_norm"] * bool(columns))}
        found |= {
            at + "self_attn.q_proj.weight": (queries, hidden), at + "self_attn.o_proj.weight": (hidden, queries),
            at + "self_attn.q_norm.weight": (size,), at + "mlp.gate_proj.weight": (wide(config, layer), hidden),
            at + "mlp.up_proj.weight": (wide(config, layer), hidden), at + "mlp.down_proj.weight": (hidden, wide(config, layer)),
        }
        if columns:
            found |= {at + "per_layer_input_gate.weight": (columns, hidden), at + "per_layer_projection.weight": (hidden, columns)}
        found |= {at + "layer_scalar": (1,)}
        if not shares(config, layer):
            found |= {at + "self_attn.k_proj.weight": (keys, hidden), at + "self_attn.k_norm.weight": (size,)}
            if not is_global(config, layer):
                found |= {at + "self_attn.v_proj.weight": (keys, hidden)}
    return found


def centre(name):
    """The norms of queries and keys keep scores small: with large scores the answer depends on f16 rounding in the cache."""
    return 0.75 if name.endswith("layer_scalar") else 0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1


def gguf_metadata(config, writer):
    layers = range(config["num_hidden_layers"])
    writer.add_block_count(len(layers))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length([wide(config, layer) for layer in layers])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([kv_heads(config, layer) for layer in layers])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_uint32("gemma4.attention.key_length", config["global_head_dim"])
    writer.add_uint32("gemma4.attention.value_length", config["global_head_dim"])
    writer.add_uint32("gemma4.attention.key_length_swa", config["head_dim"])
    writer.add_uint32("gemma4.attention.value_length_swa", config["head_dim"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_array("gemma4.attention.sliding_window_pattern", [not is_global(config, layer) for layer in layers])
    writer.add_uint32("gemma4.attention.shared_kv_layers", config["num_kv_shared_layers"])
    writer.add_uint32("gemma4.embedding_length_per_layer_input", config["hidden_size_per_layer_input"])
    writer.add_float32("gemma4.final_logit_softcapping", config["final_logit_softcapping"])
    writer.add_rope_freq_base(config["rope_parameters"][GLOBAL]["rope_theta"])
    writer.add_float32("gemma4.rope.freq_base_swa", config["rope_parameters"][SLIDING]["rope_theta"])
    writer.add_rope_dimension_count(config["global_head_dim"])
    writer.add_uint32("gemma4.rope.dimension_count_swa", config["head_dim"])
    if config["enable_moe_block"]:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


def gguf_name(name):
    stem = name.removeprefix("model.").removesuffix(".weight")
    if stem in GGUF_WHOLE:
        return GGUF_WHOLE[stem] + ".weight"
    if stem.endswith(".layer_scalar"):
        return f"blk.{stem.split('.')[1]}.layer_output_scale.weight"
    return shared.gguf_name(name, GGUF_LAYER)


def gguf_tensors(config, tensors):
    """Adds a divisor for each pair of a global head; 1e30 turns a pair's rotation off."""
    half = config["global_head_dim"] // 2
    rotating = int(config["rope_parameters"][GLOBAL]["partial_rotary_factor"] * half)
    divisors = np.array([1.0] * rotating + [1e30] * (half - rotating), np.float32)
    return {"rope_freqs.weight": divisors} | {gguf_name(name): array for name, array in tensors.items()}
