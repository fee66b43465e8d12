"""llama: grouped-query attention with heads * head_dim other than the hidden size, llama3 frequency scaling, untied."""
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu",
    "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 64},
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 1
GGUF_ARCHITECTURE = "llama"


shapes = shared.llama_shapes


def centre(_):
    return 1


def gguf_metadata(config, writer):
    pass


def llama3_divisors(config):
    scaling = config["rope_scaling"]
    frequencies = config["rope_theta"] ** (-np.arange(0, config["head_dim"], 2) / config["head_dim"])
    lengths = 2 * np.pi / frequencies
    context, low, high = (scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    smooth = (context / lengths - low) / (high - low)
    between = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    divisors = np.where(lengths < context / high, 1, np.where(lengths > context / low, scaling["factor"], between))
    return divisors.astype(np.float32)


def permuted(config, name, array):
    for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
        if part in name:
            return shared.halves_to_pairs(array, config[heads])
    return array


def gguf_tensors(config, tensors):
    renamed = {shared.gguf_name(name): permuted(config, name, array) for name, array in tensors.items()}
    return renamed | {"rope_freqs.weight": llama3_divisors(config)}
