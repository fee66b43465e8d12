"""apertus: norms of heads, no gate, xIELU with parameters that differ by layer, llama3 frequencies, untied."""
import numpy as np

from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["ApertusForCausalLM"], "model_type": "apertus", "hidden_size": 64, "intermediate_size": 104,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 12000.0, "hidden_act": "xielu", "qk_norm": True,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 64},
    "post_norm": False, "mlp_bias": False, "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 3,
}
SEED = 76
GGUF_ARCHITECTURE = "apertus"
NAMES = shared.GGUF_LAYER | {"attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm"}
PARAMETERS = {"alpha_p": 0.25, "alpha_n": -0.5, "beta": 0.5, "eps": None}


def shapes(config):
    found = {}
    for name, shape in shared.llama_shapes(config).items():
        if "gate_proj" not in name:
            name = name.replace("post_attention_layernorm", "feedforward_layernorm")
            found[name.replace("input_layernorm", "attention_layernorm")] = shape
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {f"{at}self_attn.{part}_norm.weight": (config["head_dim"],) for part in "qk"}
        found |= {f"{at}mlp.act_fn.{name}": (1,) if name.startswith("alpha") else () for name in PARAMETERS}
    return found


def centre(_):
    return 1


def weight(name, shape, source):
    stem = name.split(".")[-1]
    if stem == "eps":
        return np.array(-2.0 ** -20)
    if stem in PARAMETERS:
        return np.asarray(PARAMETERS[stem] + source.integers(-32, 33, shape) / (256 if stem == "beta" else 128))
    return None


def gguf_metadata(config, writer):
    pass


def gguf_tensor_metadata(tensors, writer):
    for stem, add in (("alpha_p", writer.add_xielu_alpha_p), ("alpha_n", writer.add_xielu_alpha_n),
                      ("beta", writer.add_xielu_beta), ("eps", writer.add_xielu_eps)):
        add([float(array.reshape(-1)[0]) for name, array in tensors.items() if name.endswith(stem)])


def gguf_tensors(config, tensors):
    renamed = {shared.gguf_name(name, NAMES): array for name, array in tensors.items() if name.split(".")[-1] not in PARAMETERS}
    return renamed | {"rope_freqs.weight": llama.llama3_divisors(config)}
