"""nemotron_h_moe: nemotron_h with 3 of 7 experts over a latent, beside one that every row uses, in two layers of five."""
import numpy as np

from families import nemotron_h

CONFIG = {name: value for name, value in nemotron_h.CONFIG.items() if name != "hybrid_override_pattern"} | {
    "layers_block_type": ["mamba", "moe", "attention", "moe", "mamba"], "n_routed_experts": 7, "num_experts_per_tok": 3,
    "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40, "moe_latent_size": 32, "n_shared_experts": 1,
    "routed_scaling_factor": 2.5, "norm_topk_prob": True, "n_group": 1, "topk_group": 1, "intermediate_size": 24,
}
LETTERS = {"mamba": "M", "moe": "E", "attention": "*", "mlp": "-"}
SEED = 76
GGUF_ARCHITECTURE = "nemotron_h_moe"
GGUF_SHARED_SETTINGS = False
gguf_keeps_f32 = nemotron_h.gguf_keeps_f32


def centre(name):
    return 0 if name.endswith("correction_bias") else nemotron_h.centre(name)


def with_pattern(config):
    return config | {"hybrid_override_pattern": "".join(LETTERS[kind] for kind in config["layers_block_type"])}


def shapes(config):
    return nemotron_h.shapes(with_pattern(config))


def gguf_metadata(config, writer):
    nemotron_h.gguf_metadata(with_pattern(config), writer)
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_group_count(config["n_group"])
    writer.add_expert_group_used_count(config["topk_group"])
    writer.add_moe_latent_size(config["moe_latent_size"])


def gguf_tensors(config, tensors):
    config = with_pattern(config)
    found, stacks = {}, {}
    for name, array in tensors.items():
        layer = (name + "...").split(".")[2]
        if ".experts." in name:
            part = "up" if "up_proj" in name else "down"
            stacks.setdefault(f"blk.{layer}.ffn_{part}_exps.weight", []).append(array)
        elif name.endswith("correction_bias"):
            found[f"blk.{layer}.exp_probs_b.bias"] = array
        else:
            gguf, values = nemotron_h.gguf_name(name, array, config)
            found[gguf] = values
    return found | {name: np.stack(arrays) for name, arrays in stacks.items()}
