"""gemma4 with experts beside each layer's dense half, as in 26B-A4B: stacks with gate and up joined, scales of scores and of each
expert; no per-layer embeddings and no shared keys."""
from families import gemma4
from families.gemma4 import GLOBAL, GGUF_ARCHITECTURE, GGUF_SHARED_SETTINGS, SLIDING, centre, gguf_metadata

CONFIG = gemma4.CONFIG | {
    "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "layer_types": [SLIDING, GLOBAL, GLOBAL],
    "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "hidden_size_per_layer_input": 0, "enable_moe_block": True,
    "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24,
}
SEED = 44
NORMS = {"post_feedforward_layernorm_1": "post_ffw_norm_1", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
         "post_feedforward_layernorm_2": "post_ffw_norm_2"}
GGUF_MIXTURE = {"router.proj.weight": "ffn_gate_inp.weight", "router.scale": "ffn_gate_inp.scale",
                "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
                "experts.down_proj": "ffn_down_exps.weight"} | {
                    name + ".weight": short + ".weight" for name, short in NORMS.items()}


def shapes(config):
    hidden, count, wide = config["hidden_size"], config["num_experts"], config["moe_intermediate_size"]
    found = gemma4.shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {at + f"{name}.weight": (hidden,) for name in NORMS}
        found |= {at + "router.proj.weight": (count, hidden), at + "router.scale": (hidden,),
                  at + "router.per_expert_scale": (count,), at + "experts.gate_up_proj": (count, 2 * wide, hidden),
                  at + "experts.down_proj": (count, hidden, wide)}
    return found


def gguf_tensors(config, tensors):
    mixture, others = {}, {}
    for name, array in tensors.items():
        rest = name.split(".", 3)[-1]
        if rest in GGUF_MIXTURE and name.startswith("model.layers."):
            mixture[f"blk.{name.split('.')[2]}.{GGUF_MIXTURE[rest]}"] = array
        else:
            others[name] = array
    return gemma4.gguf_tensors(config, others) | mixture
