"""falcon_h1: attention beside mixers of two groups in every layer, and factors that are powers of two, so that GGUF's weights, which
contain them, are as exact."""
from families import VOCAB, mamba2, shared

CONFIG = {
    "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "hidden_size": 64, "intermediate_size": 72,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": VOCAB,
    "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 24, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_chunk_size": 8, "mamba_conv_bias": True, "mamba_proj_bias": False, "mamba_rms_norm": True,
    "mamba_norm_before_gate": False, "projectors_bias": False, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
    "rms_norm_eps": 1e-5, "rope_theta": 1e11, "max_position_embeddings": 512, "lm_head_multiplier": 0.5, "embedding_multiplier": 4.0,
    "mlp_multipliers": [0.5, 0.25], "key_multiplier": 0.5, "attention_in_multiplier": 2.0, "attention_out_multiplier": 0.5,
    "ssm_in_multiplier": 0.5, "ssm_out_multiplier": 0.25, "ssm_multipliers": [2.0, 0.5, 4.0, 2.0, 0.5],
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 72
GGUF_ARCHITECTURE = "falcon-h1"
GGUF_LAYER = shared.GGUF_LAYER | {"pre_ff_layernorm": "ffn_norm", "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up",
                                  "feed_forward.down_proj": "ffn_down"}
centre = mamba2.centre
gguf_keeps_f32 = mamba2.gguf_keeps_f32


def shapes(config):
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    found = {name.replace("model.norm", "model.final_layernorm"): shape for name, shape in shared.whole_shapes(config).items()}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        own = {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." not in name}
        own[at + "pre_ff_layernorm.weight"] = own.pop(at + "post_attention_layernorm.weight")
        found |= own | shared.gated_shapes(at + "feed_forward.", hidden, wide)
        found |= mamba2.mixer_shapes(at + "mamba.", hidden, config["mamba_n_heads"], config["mamba_d_head"],
                                     config["mamba_n_groups"], config["mamba_d_state"], config["mamba_d_conv"], False)
    return found


def gguf_metadata(config, writer):
    mamba2.gguf_mixer_settings(writer, config["mamba_n_heads"], config["mamba_d_head"], config["mamba_n_groups"],
                               config["mamba_d_state"], config["mamba_d_conv"])


def factor(name, config):
    """By which the converter multiplies a tensor."""
    gate, down = config["mlp_multipliers"]
    inward = config["attention_in_multiplier"]
    factors = {"down_proj": down, "gate_proj": gate, "k_proj": config["key_multiplier"] * inward, "q_proj": inward, "v_proj": inward,
               "o_proj": config["attention_out_multiplier"], "mamba.out_proj": config["ssm_out_multiplier"],
               "mamba.in_proj": config["ssm_in_multiplier"], "lm_head": config["lm_head_multiplier"],
               "embed_tokens": config["embedding_multiplier"]}
    return next((value for part, value in factors.items() if name.endswith(part + ".weight")), 1.0)


def converted(name, array, config):
    array = array * factor(name, config)
    if name.endswith("mamba.in_proj.weight"):
        columns, groups = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
        first = 0
        for rows, value in zip((columns, columns, groups, groups, config["mamba_n_heads"]), config["ssm_multipliers"]):
            array[first:first + rows] *= value
            first += rows
    return array


def gguf_tensors(config, tensors):
    found = {}
    for name, array in tensors.items():
        array = converted(name, array, config)
        if ".mamba." in name:
            gguf, array = mamba2.gguf_mixer(name.split(".mamba.")[1], array, config["mamba_n_groups"])
            found[f"blk.{name.split('.')[2]}.{gguf}"] = array
        else:
            found[shared.gguf_name(name.replace("final_layernorm", "norm"), GGUF_LAYER)] = array
    return found
