"""gpt_oss: sinks, biases everywhere, a window of 8 in every other layer, yarn between dimensions, and experts whose gates exceed their
limits. Stored like MLX: separate stacks of gate, up and down. transformers interleaves gate and up and transposes the stacks, so
the reference converts them."""
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 24,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 150000.0, "hidden_act": "silu",
    "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                     "original_max_position_embeddings": 64},
    "num_local_experts": 5, "num_experts_per_tok": 2, "swiglu_limit": 7.0, "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "attention_bias": True,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 63
GGUF_ARCHITECTURE = "gpt-oss"
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
}


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        whole = {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." not in name}
        found |= whole | {name.replace(".weight", ".bias"): shape[:1] for name, shape in whole.items() if "_proj" in name}
        found[at + "self_attn.sinks"] = (config["num_attention_heads"],)
        found |= {at + "mlp.router.weight": (experts, hidden), at + "mlp.router.bias": (experts,)}
        for name, rows, columns in (("gate_proj", wide, hidden), ("up_proj", wide, hidden), ("down_proj", hidden, wide)):
            found[f"{at}mlp.experts.{name}.weight"] = (experts, rows, columns)
            found[f"{at}mlp.experts.{name}.bias"] = (experts, rows)
    return found


def centre(name):
    return 1 if "norm" in name else 0


def weight(name, shape, source):
    """Sinks large enough to matter, and gates beyond their limits."""
    if name.endswith("sinks"):
        return source.integers(-127, 128, shape) / 32
    if name.endswith(("gate_proj.bias", "up_proj.bias")):
        return source.integers(-127, 128, shape) / 16
    return None


def in_memory(weights):
    """The tensors in transformers' layout."""
    held = {}
    for name, array in weights.items():
        if ".gate_proj." in name:
            both = np.stack([array, weights[name.replace("gate_proj", "up_proj")]], 2)
            both = both.reshape(array.shape[0], 2 * array.shape[1], *array.shape[2:])
            is_bias = name.endswith(".bias")
            stem = name.rsplit(".", 2)[0] + ".gate_up_proj"
            held[stem + ("_bias" if is_bias else "")] = both if is_bias else both.swapaxes(1, 2)
        elif ".experts.down_proj." in name:
            is_bias = name.endswith(".bias")
            held[name.removesuffix(".weight").replace(".bias", "_bias")] = array if is_bias else array.swapaxes(1, 2)
        elif ".up_proj." not in name:
            held[name] = array
    return held


def reference(config, weights, ids):
    import torch
    import transformers

    model = transformers.GptOssForCausalLM._from_config(transformers.GptOssConfig(**config), attn_implementation="eager",
                                                    experts_implementation="eager").double()
    model.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)).double() for name, array in in_memory(weights).items()})
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def gguf_metadata(config, writer):
    import gguf

    scaling = config["rope_scaling"]
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def gguf_tensors(config, tensors):
    renamed = {}
    for name, array in tensors.items():
        if name.endswith("sinks"):
            renamed[f"blk.{name.split('.')[2]}.attn_sinks.weight"] = array
        else:
            renamed[shared.gguf_name(name, NAMES)] = array
    return renamed
