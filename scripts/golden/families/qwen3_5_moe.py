"""qwen3_5_moe: qwen3_5 with experts in stacks, three of seven chosen, and a shared expert of another width."""
import numpy as np

from families import VOCAB, qwen3_5

CONFIG = {key: value for key, value in qwen3_5.CONFIG.items() if key != "intermediate_size"} | {
    "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "hidden_size": 48, "vocab_size": VOCAB,
    "num_experts": 7, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
    "output_router_logits": False,
}
SEED = 63
GGUF_ARCHITECTURE = "qwen35moe"
GGUF_SHARED_SETTINGS = False
GGUF_LAYER = qwen3_5.GGUF_LAYER | {
    "mlp.gate": "ffn_gate_inp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["moe_intermediate_size"], config["num_experts"]
    shared_wide = config["shared_expert_intermediate_size"]
    found = {name: shape for name, shape in qwen3_5.shapes(config | {"intermediate_size": 1}).items() if ".mlp." not in name}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp."
        found |= {at + "gate.weight": (experts, hidden), at + "experts.gate_up_proj": (experts, 2 * wide, hidden),
                  at + "experts.down_proj": (experts, hidden, wide), at + "shared_expert_gate.weight": (1, hidden),
                  at + "shared_expert.gate_proj.weight": (shared_wide, hidden),
                  at + "shared_expert.up_proj.weight": (shared_wide, hidden),
                  at + "shared_expert.down_proj.weight": (hidden, shared_wide)}
    return found


centre = qwen3_5.centre


def gguf_metadata(config, writer):
    qwen3_5.gguf_metadata(config, writer)
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def gguf_tensors(config, tensors):
    """Gate and up are separate; the weight of the shared expert's score is a vector."""
    found = {}
    for name, array in qwen3_5.layered(config, tensors).items():
        at = name.split(".mlp.")[0].replace("model.layers.", "blk.")
        if name.endswith("experts.gate_up_proj"):
            found[at + ".ffn_gate_exps.weight"], found[at + ".ffn_up_exps.weight"] = np.split(array, 2, axis=1)
        elif name.endswith("experts.down_proj"):
            found[at + ".ffn_down_exps.weight"] = array
        elif name.endswith("shared_expert_gate.weight"):
            found[at + ".ffn_gate_inp_shexp.weight"] = array[0]
        else:
            found[qwen3_5.gguf_name(name, GGUF_LAYER)] = qwen3_5.converted(name, array, config)
    return found | qwen3_5.ahead_layer(config, found, tensors)


def mlx_tensors(tensors):
    """As in qwen3_5, with separate gate and up of experts."""
    saved = qwen3_5.mlx_tensors({name: array for name, array in tensors.items() if ".experts." not in name})
    for name, array in tensors.items():
        at = "language_model." + name.replace(".experts.", ".switch_mlp.")
        if name.endswith(".experts.gate_up_proj"):
            gate, up = np.split(array, 2, axis=1)
            saved |= {at.replace("gate_up_proj", "gate_proj.weight"): gate, at.replace("gate_up_proj", "up_proj.weight"): up}
        elif ".experts." in name:
            saved[at + ".weight"] = array
    return saved
