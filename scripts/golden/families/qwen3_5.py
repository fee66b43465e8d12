"""qwen3_5: gated delta nets with two value heads a key head, and attention with an output gate and a quarter of a head rotated."""
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"], "full_attention_interval": 2,
    "linear_conv_kernel_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 24,
    "linear_value_head_dim": 24, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default", "partial_rotary_factor": 0.25,
                        "mrope_section": [1, 1, 0], "mrope_interleaved": True},
    "attention_bias": False, "attn_output_gate": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 42
GGUF_ARCHITECTURE = "qwen35"
GGUF_SHARED_SETTINGS = False  # block_count includes a layer that predicts a further token
GGUF_LAYER = shared.GGUF_LAYER | {
    "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
}


def shapes(config):
    hidden, heads = config["hidden_size"], config["linear_num_value_heads"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = heads * config["linear_value_head_dim"]
    found = shared.whole_shapes(config)
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        if kind == "full_attention":
            queries, _ = found[at + "self_attn.q_proj.weight"]
            found |= {at + "self_attn.q_proj.weight": (2 * queries, hidden)}
            found |= {at + f"self_attn.{name}_norm.weight": (config["head_dim"],) for name in "qk"}
            continue
        found = {name: shape for name, shape in found.items() if not name.startswith(at + "self_attn.")}
        at += "linear_attn."
        found |= {at + "A_log": (heads,), at + "dt_bias": (heads,), at + "norm.weight": (config["linear_value_head_dim"],),
                  at + "conv1d.weight": (2 * keys + values, 1, config["linear_conv_kernel_dim"]),
                  at + "in_proj_qkv.weight": (2 * keys + values, hidden), at + "in_proj_z.weight": (values, hidden),
                  at + "in_proj_b.weight": (heads, hidden), at + "in_proj_a.weight": (heads, hidden),
                  at + "out_proj.weight": (hidden, values)}
    return found


def centre(name):
    """The mean rate is -exp(-0.5)."""
    return -0.5 if name.endswith("A_log") else 1 if name.endswith("linear_attn.norm.weight") else 0


def gguf_metadata(config, writer):
    writer.add_block_count(config["num_hidden_layers"] + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    if "intermediate_size" in config:
        writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
    writer.add_full_attention_interval(config["full_attention_interval"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
    writer.add_rope_dimension_sections(rope["mrope_section"] + [0])


def in_turns(array, config, head_dim, axis=0):
    """Reorders value heads from grouped by key head to interleaved over the key heads."""
    keys = config["linear_num_key_heads"]
    array = np.moveaxis(array, axis, 0)
    split = array.reshape(keys, -1, head_dim, *array.shape[1:])
    return np.moveaxis(split.swapaxes(0, 1).reshape(array.shape), 0, axis)


def converted(name, array, config):
    head_dim = config["linear_value_head_dim"]
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if "conv1d" in name or "in_proj_qkv" in name:
        array = array.squeeze(1) if array.ndim == 3 else array
        return np.concatenate([array[:keys], in_turns(array[keys:], config, head_dim)])
    if "in_proj_z" in name:
        return in_turns(array, config, head_dim)
    if "out_proj" in name:
        return in_turns(array, config, head_dim, axis=1)
    if "in_proj_" in name or "dt_bias" in name:
        return in_turns(array, config, 1)
    if "A_log" in name:
        return -np.exp(in_turns(array, config, 1))
    return array if "linear_attn" in name or array.ndim > 1 else array + 1


def gguf_name(name, layer_names=GGUF_LAYER):
    if name.endswith(("A_log", "dt_bias")):
        return f"blk.{name.split('.')[2]}." + ("ssm_a" if name.endswith("A_log") else "ssm_dt.bias")
    return shared.gguf_name(name, layer_names)


def gguf_tensors(config, tensors):
    found = {gguf_name(name): converted(name, array, config) for name, array in layered(config, tensors).items()}
    return found | ahead_layer(config, found, tensors)


def layered(config, tensors):
    """Without what only a layer that predicts a further token has; its other tensors are those of the layer after the last one."""
    last = f"model.layers.{config['num_hidden_layers']}."
    named = {name.replace("mtp.layers.0.", last): array for name, array in tensors.items()}
    return {name: array for name, array in named.items() if not name.startswith("mtp.")}


AHEAD_NAMES = {"pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head_norm"}


def ahead_layer(config, found, tensors):
    """What only a layer that predicts a further token has. A checkpoint without one gets an attention layer that predicts nothing."""
    if "mtp.fc.weight" in tensors:
        at = f"blk.{config['num_hidden_layers']}.nextn."
        return {at + "eh_proj.weight": tensors["mtp.fc.weight"]} | {
            f"{at}{gguf}.weight": tensors[f"mtp.{name}.weight"] + 1 for name, gguf in AHEAD_NAMES.items()}
    attends, last, hidden = config["layer_types"].index("full_attention"), config["num_hidden_layers"], config["hidden_size"]
    layer = {name.replace(f"blk.{attends}.", f"blk.{last}."): array for name, array in found.items()
             if name.startswith(f"blk.{attends}.")}
    layer |= {f"blk.{last}.nextn.{name}.weight": np.ones(hidden, np.float32) for name in ("enorm", "hnorm", "shared_head_norm")}
    return layer | {f"blk.{last}.nextn.eh_proj.weight": np.zeros((hidden, 2 * hidden), np.float32)}


def mlx_tensors(tensors):
    """Convolutions as in lfm2; norms with their 1, except for the delta net's; and names below language_model."""
    saved = {}
    for name, array in tensors.items():
        if array.ndim == 3:
            array = array.swapaxes(1, 2)
        elif name.endswith("norm.weight") and "linear_attn" not in name:
            array = array + 1
        saved["language_model." + name] = array
    return saved
