"""Shared by most families: names and shapes of attention and feed-forward weights, in both formats."""
import re

import numpy as np

GGUF_LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
# Of a layer that predicts a further token, after the model's layers.
GGUF_NEXTN = {"enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "eh_proj": "nextn.eh_proj", "embed_tokens": "nextn.embed_tokens",
              "shared_head.norm": "nextn.shared_head_norm", "shared_head.head": "nextn.shared_head_head"}
# Of families that norm the outputs of the halves instead of the inputs.
GGUF_LAYER_AFTER = GGUF_LAYER | {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GGUF_WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}


def whole_shapes(config):
    """The tensors outside the layers."""
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], config["hidden_size"]),
              "model.norm.weight": (config["hidden_size"],)}
    if not config.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (config["vocab_size"], config["hidden_size"])
    return shapes


def layer_shapes(config, at):
    """Grouped-query attention, a gated feed-forward and a norm before each; names begin with `at`."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    return {
        at + "self_attn.q_proj.weight": (queries, hidden), at + "self_attn.k_proj.weight": (keys, hidden),
        at + "self_attn.v_proj.weight": (keys, hidden), at + "self_attn.o_proj.weight": (hidden, queries),
        at + "mlp.gate_proj.weight": (wide, hidden), at + "mlp.up_proj.weight": (wide, hidden),
        at + "mlp.down_proj.weight": (hidden, wide), at + "input_layernorm.weight": (hidden,),
        at + "post_attention_layernorm.weight": (hidden,),
    }


def llama_shapes(config):
    """A whole model of such layers."""
    found = whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        found |= layer_shapes(config, f"model.layers.{layer}.")
    return found


def shapes_with_norms_after(config):
    """The same with norms of the outputs of the halves instead of the inputs."""
    return {name.replace("input_layernorm", "post_feedforward_layernorm"): shape for name, shape in llama_shapes(config).items()}


def gguf_name(name, layer_names=GGUF_LAYER):
    """GGUF's name of a tensor; `layer_names`: of those in layers, without the layer and the .weight or .bias."""
    if name in GGUF_WHOLE:
        return GGUF_WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    stem, ending = rest.rsplit(".", 1)
    return f"blk.{layer}.{layer_names[stem]}.{ending}"


def halves_to_pairs(array, heads):
    """Permutes the rows of each head from rotary halves to pairs, as in GGUF's llama."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
EXPERT_PARTS = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}
SHARED_EXPERT = {f"mlp.{kind}.{name}": f"ffn_{EXPERT_PARTS[name]}_shexp" for kind in ("shared_experts", "shared_mlp")
                 for name in PROJECTIONS}


def gated_shapes(at, hidden, wide, names=PROJECTIONS):
    """A gated feed-forward part; names[2] projects back."""
    return {f"{at}{name}.weight": (hidden, wide) if name == names[2] else (wide, hidden) for name in names}


def expert_shapes(at, hidden, wide, experts, names=PROJECTIONS):
    """The matrices of experts that are stored one by one."""
    found = {}
    for expert in range(experts):
        found |= gated_shapes(f"{at}experts.{expert}.", hidden, wide, names)
    return found


def gguf_moe_tensors(tensors, layer_names):
    """GGUF's names; experts become stacks, and biases of the choice exp_probs_b."""
    renamed, stacks = {}, {}
    for name, array in tensors.items():
        found = re.fullmatch(r"model\.layers\.(\d+)\..*\.experts\.(\d+)\.(\w+)\.weight", name)
        if found:
            stacks.setdefault((found[1], EXPERT_PARTS[found[3]]), {})[int(found[2])] = array
        elif name.endswith(("e_score_correction_bias", "expert_bias")):
            renamed[f"blk.{name.split('.')[2]}.exp_probs_b.bias"] = array.reshape(-1)
        else:
            renamed[gguf_name(name, layer_names)] = array
    for (layer, part), stack in stacks.items():
        renamed[f"blk.{layer}.ffn_{part}_exps.weight"] = np.stack([stack[expert] for expert in sorted(stack)])
    return renamed
