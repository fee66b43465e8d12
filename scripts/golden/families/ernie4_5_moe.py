"""ernie4_5_moe: 3 of 8 experts chosen by the softmax of all scores plus a bias in two of four layers, two that every row uses, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu", "use_bias": False,
    "moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 24, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
    "moe_layer_end_index": 3, "moe_layer_interval": 1, "moe_norm_min": 1e-12, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 83
GGUF_ARCHITECTURE = "ernie4_5-moe"


def shapes(config):
    found, hidden, wide = shared.whole_shapes(config), config["hidden_size"], config["moe_intermediate_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        whole = shared.layer_shapes(config, at)
        if layer < config["moe_layer_start_index"]:
            found |= whole
            continue
        found |= {name: shape for name, shape in whole.items() if ".mlp." not in name}
        found |= {at + "mlp.gate.weight": (config["moe_num_experts"], hidden),
                  at + "mlp.moe_statics.e_score_correction_bias": (1, config["moe_num_experts"])}
        found |= shared.expert_shapes(at + "mlp.", hidden, wide, config["moe_num_experts"])
        found |= shared.gated_shapes(at + "mlp.shared_experts.", hidden, wide * config["moe_num_shared_experts"])
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_expert_count(config["moe_num_experts"])
    writer.add_expert_used_count(config["moe_k"])
    writer.add_interleave_moe_layer_step(config["moe_layer_interval"])
    writer.add_leading_dense_block_count(config["moe_layer_start_index"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_shared_count(config["moe_num_shared_experts"])
    writer.add_expert_shared_feed_forward_length(config["intermediate_size"] // config["num_key_value_heads"])


def gguf_tensors(config, tensors):
    return shared.gguf_moe_tensors(tensors, shared.GGUF_LAYER | shared.SHARED_EXPERT | {"mlp.gate": "ffn_gate_inp"})
