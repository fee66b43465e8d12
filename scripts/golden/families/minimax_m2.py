"""minimax_m2: norms of all heads as one, 16 of a head's 24 dimensions rotated, 3 of 7 experts by sigmoid and a bias in every layer."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "hidden_size": 64, "intermediate_size": 40,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "rotary_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000000.0, "hidden_act": "silu", "num_local_experts": 7,
    "num_experts_per_tok": 3, "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_layer",
    "shared_intermediate_size": 0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 85
GGUF_ARCHITECTURE = "minimax-m2"
MOE = "block_sparse_moe."
NAMES = ("w1", "w3", "w2")


def shapes(config):
    found, hidden = shared.whole_shapes(config), config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {name: shape for name, shape in shared.layer_shapes(config, at).items() if ".mlp." not in name}
        found |= {at + "self_attn.q_norm.weight": (config["num_attention_heads"] * config["head_dim"],),
                  at + "self_attn.k_norm.weight": (config["num_key_value_heads"] * config["head_dim"],),
                  at + MOE + "gate.weight": (config["num_local_experts"], hidden),
                  at + MOE + "e_score_correction_bias": (config["num_local_experts"],)}
        found |= shared.expert_shapes(at + MOE, hidden, config["intermediate_size"], config["num_local_experts"], NAMES)
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    writer.add_rope_dimension_count(config["rotary_dim"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_uint32("minimax-m2.expert_gating_func", 2)


def gguf_tensors(config, tensors):
    return shared.gguf_moe_tensors(tensors, shared.GGUF_LAYER | {MOE + "gate": "ffn_gate_inp"})
