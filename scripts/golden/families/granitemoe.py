"""granitemoe: granite with 3 of 7 experts in each layer, gate and up in one stack, tied."""
import numpy as np

from families import granite, llama, shared

CONFIG = granite.CONFIG | {
    "architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe", "intermediate_size": 40, "num_local_experts": 7,
    "num_experts_per_tok": 3, "output_router_logits": False, "router_aux_loss_coef": 0.0, "attention_multiplier": 0.1,
    "logits_scaling": 1.5,
}
del CONFIG["mlp_bias"]
SEED = 74
GGUF_ARCHITECTURE = "granitemoe"
MOE = "block_sparse_moe."


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." not in name}
        found |= {f"{at}{MOE}input_linear.weight": (experts, 2 * wide, hidden),
                  f"{at}{MOE}output_linear.weight": (experts, hidden, wide), f"{at}{MOE}router.layer.weight": (experts, hidden)}
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    granite.gguf_metadata(config, writer)
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])


def gguf_tensors(config, tensors):
    """The joined stack is stored as two."""
    names = shared.GGUF_LAYER | {MOE + "router.layer": "ffn_gate_inp", MOE + "output_linear": "ffn_down_exps"}
    renamed = {}
    for name, array in tensors.items():
        if "input_linear" in name:
            layer = name.split(".")[2]
            for stem, half in zip(("gate", "up"), np.split(array, 2, axis=1)):
                renamed[f"blk.{layer}.ffn_{stem}_exps.weight"] = half
        else:
            renamed[shared.gguf_name(name, names)] = llama.permuted(config, name, array)
    return renamed
