"""qwen3_moe as newer programs store it: stacks of experts with gate and up joined. Every other layer has experts, except for one
listed in mlp_only_layers, and the chosen experts' weights are not normalized. GGUF has no keys for this."""
from families import VOCAB, qwen3_moe, shared

CONFIG = qwen3_moe.CONFIG | {
    "vocab_size": VOCAB, "num_hidden_layers": 4, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
    "norm_topk_prob": False, "decoder_sparse_step": 2, "mlp_only_layers": [1], "tie_word_embeddings": True,
}
del CONFIG["num_experts"]
SEED = 62


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["moe_intermediate_size"], config["num_local_experts"]
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= qwen3_moe.attention_shapes(config, at)
        if (layer + 1) % config["decoder_sparse_step"] == 0 and layer not in config["mlp_only_layers"]:
            found |= {at + "mlp.gate.weight": (experts, hidden), at + "mlp.experts.gate_up_proj": (experts, 2 * wide, hidden),
                      at + "mlp.experts.down_proj": (experts, hidden, wide)}
        else:
            found |= {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." in name}
    return found


def centre(_):
    return 1
