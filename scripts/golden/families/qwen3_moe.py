"""qwen3_moe: experts in every layer, stored one by one, an odd number of them chosen, their weights normalized."""
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 48, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 100000.0, "rope_scaling": None, "hidden_act": "silu",
    "num_experts": 9, "num_experts_per_tok": 3, "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "use_sliding_window": False, "sliding_window": None, "tie_word_embeddings": False,
    "attention_bias": False, "output_router_logits": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 61
GGUF_ARCHITECTURE = "qwen3moe"
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def attention_shapes(config, at):
    """The tensors of every layer: attention with norms of heads, and both norms."""
    head_dim = config["head_dim"]
    whole = shared.layer_shapes(config, at)
    return {name: shape for name, shape in whole.items() if ".mlp." not in name} | {
        at + "self_attn.q_norm.weight": (head_dim,), at + "self_attn.k_norm.weight": (head_dim,)}


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["moe_intermediate_size"], config["num_experts"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= attention_shapes(config, at)
        found[at + "mlp.gate.weight"] = (experts, hidden)
        for expert in range(experts):
            for name in PROJECTIONS:
                shape = (hidden, wide) if name == "down_proj" else (wide, hidden)
                found[f"{at}mlp.experts.{expert}.{name}.weight"] = shape
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


def gguf_tensors(config, tensors):
    """Experts become stacks."""
    names = shared.GGUF_LAYER | {"mlp.gate": "ffn_gate_inp"}
    renamed, stacks = {}, {}
    for name, array in tensors.items():
        if ".experts." in name:
            layer, expert, projection = (name.split(".")[part] for part in (2, 5, 6))
            stacks.setdefault((layer, projection), {})[int(expert)] = array
        else:
            renamed[shared.gguf_name(name, names)] = array
    for (layer, projection), stack in stacks.items():
        renamed[f"blk.{layer}.ffn_{projection.removesuffix('_proj')}_exps.weight"] = np.stack([stack[e] for e in sorted(stack)])
    return renamed
