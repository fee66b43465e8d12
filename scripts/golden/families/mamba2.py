"""mamba2: two groups of four heads, biases everywhere, and untied embeddings."""
import numpy as np

from families import VOCAB

CONFIG = {
    "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 3,
    "vocab_size": VOCAB, "state_size": 24, "num_heads": 8, "head_dim": 16, "expand": 2, "n_groups": 2, "conv_kernel": 4,
    "use_bias": True, "use_conv_bias": True, "hidden_act": "silu", "layer_norm_epsilon": 1e-5, "chunk_size": 8,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 71
GGUF_ARCHITECTURE = "mamba2"
GGUF_SHARED_SETTINGS = False  # no heads of attention and no feed-forward part
GGUF_WHOLE = {"backbone.embeddings.weight": "token_embd.weight", "backbone.norm_f.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}


def mixer_shapes(at, hidden, heads, head_dim, groups, state, taps, biases):
    """Of a mixer; names begin with `at`; biases: of the projections."""
    columns = heads * head_dim
    conv = columns + 2 * groups * state
    found = {at + "in_proj.weight": (columns + conv + heads, hidden), at + "conv1d.weight": (conv, 1, taps),
             at + "conv1d.bias": (conv,), at + "A_log": (heads,), at + "D": (heads,), at + "dt_bias": (heads,),
             at + "norm.weight": (columns,), at + "out_proj.weight": (hidden, columns)}
    if biases:
        found |= {at + "in_proj.bias": (columns + conv + heads,), at + "out_proj.bias": (hidden,)}
    return found


def shapes(config):
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    found = {"backbone.embeddings.weight": (vocab, hidden), "backbone.norm_f.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"backbone.layers.{layer}."
        found[at + "norm.weight"] = (hidden,)
        found |= mixer_shapes(at + "mixer.", hidden, config["num_heads"], config["head_dim"], config["n_groups"],
                              config["state_size"], config["conv_kernel"], config["use_bias"])
    return found


def centre(name):
    """The mean rate is -exp(-0.5), the mean step softplus(-1)."""
    if name.endswith("A_log"):
        return -0.5
    return -1 if name.endswith("dt_bias") else 0 if name.endswith("bias") else 1


def gguf_mixer_settings(writer, heads, head_dim, groups, state, taps):
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_inner_size(heads * head_dim)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(groups)


def gguf_metadata(config, writer):
    writer.add_context_length(2 ** 20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    gguf_mixer_settings(writer, config["num_heads"], config["head_dim"], config["n_groups"], config["state_size"],
                        config["conv_kernel"])


def gguf_mixer(rest, array, groups):
    """The name in a layer and the values of a mixer's tensor `rest`, as llama.cpp's converter writes them."""
    if rest == "A_log":
        return "ssm_a", -np.exp(array).reshape(-1, 1)
    if rest == "D":
        return "ssm_d", array.reshape(-1, 1)
    if rest == "dt_bias":
        return "ssm_dt.bias", array
    if rest == "norm.weight":
        return "ssm_norm.weight", array.reshape(groups, -1)
    stem, ending = rest.rsplit(".", 1)
    names = {"in_proj": "ssm_in", "conv1d": "ssm_conv1d", "out_proj": "ssm_out"}
    return f"{names[stem]}.{ending}", array.squeeze(1) if array.ndim == 3 else array


def gguf_keeps_f32(name):
    return name.endswith((".ssm_a", ".ssm_d", ".ssm_conv1d.weight", ".ssm_norm.weight"))


def gguf_tensors(config, tensors):
    found = {}
    for name, array in tensors.items():
        if name in GGUF_WHOLE:
            found[GGUF_WHOLE[name]] = array
            continue
        _, _, layer, rest = name.split(".", 3)
        if rest == "norm.weight":
            found[f"blk.{layer}.attn_norm.weight"] = array
        else:
            gguf, array = gguf_mixer(rest.removeprefix("mixer."), array, config["n_groups"])
            found[f"blk.{layer}.{gguf}"] = array
    return found


def mlx_tensors(tensors):
    return {name: array.swapaxes(1, 2) if array.ndim == 3 else array for name, array in tensors.items()}
