"""qwen3: norms on query and key heads, heads * head_dim other than the hidden size, yarn, untied."""
import gguf

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    "tie_word_embeddings": False, "attention_bias": False, "use_sliding_window": False, "sliding_window": None,
    "max_window_layers": 2, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 12
GGUF_ARCHITECTURE = "qwen3"


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        found |= {at + f"self_attn.{name}_norm.weight": (config["head_dim"],) for name in "qk"}
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
    writer.add_rope_scaling_orig_ctx_len(config["rope_scaling"]["original_max_position_embeddings"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): array for name, array in tensors.items()}
