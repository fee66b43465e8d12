"""phi3: joined projections, three quarters of a head rotated, longrope past its original context, a window, tied."""
import gguf
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "original_max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.3, 1.75, 2.5],
                     "long_factor": [1.1, 1.5, 2.25, 4.0, 8.5, 22.0]},
    "partial_rotary_factor": 0.75, "hidden_act": "silu", "sliding_window": 19, "tie_word_embeddings": True,
    "attention_bias": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 14
# Token by token, transformers uses another table for the first 16 tokens.
TABLE_CHANGES = True
GGUF_ARCHITECTURE = "phi3"
GGUF_LAYER = shared.GGUF_LAYER | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}


def shapes(config):
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {
            at + "self_attn.qkv_proj.weight": (queries + 2 * keys, hidden), at + "self_attn.o_proj.weight": (hidden, queries),
            at + "mlp.gate_up_proj.weight": (2 * wide, hidden), at + "mlp.down_proj.weight": (hidden, wide),
            at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
        }
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    original = config["original_max_position_embeddings"]
    growth = config["max_position_embeddings"] / original
    writer.add_rope_dimension_count(int(config["head_dim"] * config["partial_rotary_factor"]))
    writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(growth) / np.log(original))))
    writer.add_sliding_window(config["sliding_window"])


def gguf_tensors(config, tensors):
    lists = {f"rope_factors_{length}.weight": np.array(config["rope_scaling"][f"{length}_factor"], np.float32)
             for length in ("long", "short")}
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()} | lists
