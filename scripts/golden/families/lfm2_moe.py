"""lfm2_moe: lfm2 with 3 of 6 experts by sigmoid and a bias in all layers but the first one, tied."""
from families import lfm2, shared

CONFIG = {key: value for key, value in lfm2.CONFIG.items() if not key.startswith("block_")} | {
    "architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "intermediate_size": 72, "num_hidden_layers": 4,
    "layer_types": ["conv", "full_attention", "conv", "full_attention"], "conv_L_cache": 3, "num_dense_layers": 1, "num_experts": 6,
    "num_experts_per_tok": 3, "moe_intermediate_size": 24, "use_expert_bias": True, "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
}
SEED = 88
GGUF_ARCHITECTURE = "lfm2moe"
GGUF_SHARED_SETTINGS = False
GGUF_LAYER = lfm2.GGUF_LAYER | {"feed_forward.gate": "ffn_gate_inp"}
NAMES = ("w1", "w3", "w2")


def shapes(config):
    found = {}
    dense = config | {"block_ffn_dim_multiplier": 1.0, "block_multiple_of": 1}
    for name, shape in lfm2.shapes(dense).items():
        if ".feed_forward." not in name:
            found[name] = shape
    hidden = config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.feed_forward."
        if layer < config["num_dense_layers"]:
            found |= shared.gated_shapes(at, hidden, config["intermediate_size"], NAMES)
            continue
        found |= {at + "gate.weight": (config["num_experts"], hidden), at + "expert_bias": (config["num_experts"],)}
        found |= shared.expert_shapes(at, hidden, config["moe_intermediate_size"], config["num_experts"], NAMES)
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([config["num_key_value_heads"] if kind != "conv" else 0 for kind in config["layer_types"]])
    writer.add_layer_norm_rms_eps(config["norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_shortconv_l_cache(config["conv_L_cache"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_leading_dense_block_count(config["num_dense_layers"])
    writer.add_uint32("lfm2moe.expert_gating_func", 2)


def gguf_tensors(config, tensors):
    plain = {name: array.squeeze(1) if array.ndim == 3 else array for name, array in tensors.items()}
    whole = {lfm2.GGUF_WHOLE[name]: array for name, array in plain.items() if name in lfm2.GGUF_WHOLE}
    layers = {name: array for name, array in plain.items() if name not in lfm2.GGUF_WHOLE}
    return whole | shared.gguf_moe_tensors(layers, GGUF_LAYER)
