"""glm4_moe: norms of heads, biases of q, k and v, half of each head rotated, 4 of 12 experts of the 2 best of 3 groups by sigmoid and a
bias after a dense layer, one that every row uses."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 48, "intermediate_size": 72,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "hidden_act": "silu",
    "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 12, "num_experts_per_tok": 4, "n_shared_experts": 1,
    "moe_intermediate_size": 20, "n_group": 3, "topk_group": 2, "first_k_dense_replace": 1, "norm_topk_prob": True,
    "routed_scaling_factor": 1.5, "num_nextn_predict_layers": 0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 84
GGUF_ARCHITECTURE = "glm4moe"
GGUF_LAYER = shared.GGUF_LAYER | shared.SHARED_EXPERT | shared.GGUF_NEXTN | {
    "mlp.gate": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"}


def shapes(config):
    found, hidden, wide = shared.whole_shapes(config), config["hidden_size"], config["moe_intermediate_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        whole = shared.layer_shapes(config, at)
        whole |= {name[:-6] + "bias": shape[:1] for name, shape in whole.items() if any(f".{x}_proj." in name for x in "qkv")}
        whole |= {at + f"self_attn.{x}_norm.weight": (config["head_dim"],) for x in "qk"}
        if layer < config["first_k_dense_replace"]:
            found |= whole
            continue
        found |= {name: shape for name, shape in whole.items() if ".mlp." not in name}
        found |= {at + "mlp.gate.weight": (config["n_routed_experts"], hidden),
                  at + "mlp.gate.e_score_correction_bias": (config["n_routed_experts"],)}
        found |= shared.expert_shapes(at + "mlp.", hidden, wide, config["n_routed_experts"])
        found |= shared.gated_shapes(at + "mlp.shared_experts.", hidden, wide * config["n_shared_experts"])
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    if config.get("num_nextn_predict_layers", 0):
        writer.add_nextn_predict_layers(config["num_nextn_predict_layers"])
    writer.add_rope_dimension_count(int(config["head_dim"] * config["partial_rotary_factor"]))
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_uint32("glm4moe.expert_gating_func", 2)
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_uint32("glm4moe.expert_group_count", config["n_group"])
    writer.add_uint32("glm4moe.expert_group_used_count", config["topk_group"])


def gguf_tensors(config, tensors):
    return shared.gguf_moe_tensors(tensors, GGUF_LAYER)
