"""arcee: a feed-forward part without a gate, relu squared, YaRN, untied."""
import gguf

from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["ArceeForCausalLM"], "model_type": "arcee", "hidden_size": 64, "intermediate_size": 104,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "relu2",
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1},
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 39
GGUF_ARCHITECTURE = "arcee"


def shapes(config):
    return {name: shape for name, shape in shared.llama_shapes(config).items() if "gate_proj" not in name}


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])
    writer.add_rope_scaling_orig_ctx_len(config["rope_scaling"]["original_max_position_embeddings"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
