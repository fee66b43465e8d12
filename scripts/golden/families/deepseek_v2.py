"""deepseek_v2: a latent of keys and values, queries without one, YaRN whose magnitude is in the scores, a dense layer, then 3 of 8
experts of the 2 best of 4 groups, beside two that every row uses; its GGUF is of the older form (attn_kv_b)."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 48, "intermediate_size": 80,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCAB, "head_dim": 8,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "rope_scaling": {"type": "yarn", "factor": 8.0, "mscale": 0.707, "mscale_all_dim": 0.707, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 64},
    "kv_lora_rank": 32, "q_lora_rank": None, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 20,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2,
    "moe_intermediate_size": 24, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy", "scoring_func": "softmax",
    "norm_topk_prob": False, "routed_scaling_factor": 1.5, "tie_word_embeddings": False, "attention_bias": False,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 81
GGUF_ARCHITECTURE = "deepseek2"
GGUF_SHARED_SETTINGS = False
GGUF_LAYER = shared.GGUF_LAYER | shared.SHARED_EXPERT | shared.GGUF_NEXTN | {
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.gate": "ffn_gate_inp",
}


def attention_shapes(config, at):
    hidden, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    plain, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    queries, low = heads * (plain + rope), config["q_lora_rank"]
    found = {at + "q_proj.weight": (queries, hidden)} if not low else {
        at + "q_a_proj.weight": (low, hidden), at + "q_a_layernorm.weight": (low,), at + "q_b_proj.weight": (queries, low)}
    return found | {
        at + "kv_a_proj_with_mqa.weight": (rank + rope, hidden), at + "kv_a_layernorm.weight": (rank,),
        at + "kv_b_proj.weight": (heads * (plain + value), rank), at + "o_proj.weight": (hidden, heads * value)}


def expert_shapes(config, at, biased):
    hidden, wide, experts = config["hidden_size"], config["moe_intermediate_size"], config["n_routed_experts"]
    found = {at + "gate.weight": (experts, hidden)}
    if biased:
        found[at + "gate.e_score_correction_bias"] = (experts,)
    found |= shared.expert_shapes(at, hidden, wide, experts)
    return found | shared.gated_shapes(at + "shared_experts.", hidden, wide * config["n_shared_experts"])


def shapes(config, biased=False):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at, hidden = f"model.layers.{layer}.", config["hidden_size"]
        found |= {at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,)}
        found |= attention_shapes(config, at + "self_attn.")
        dense = layer < config["first_k_dense_replace"]
        found |= shared.gated_shapes(at + "mlp.", hidden, config["intermediate_size"]) if dense else expert_shapes(config, at + "mlp.", biased)
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def whole_metadata(config, writer):
    """What both forms of files state."""
    ahead = config.get("num_nextn_predict_layers", 0)
    writer.add_block_count(config["num_hidden_layers"] + ahead)
    if ahead:
        writer.add_nextn_predict_layers(ahead)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    if scaling := config["rope_scaling"]:
        writer.add_string("deepseek2.rope.scaling.type", "yarn")
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * scaling["mscale_all_dim"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])
    writer.add_uint32("deepseek2.expert_group_count", config["n_group"])
    writer.add_uint32("deepseek2.expert_group_used_count", config["topk_group"])


def gguf_metadata(config, writer):
    whole_metadata(config, writer)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    writer.add_value_length(config["v_head_dim"])


def gguf_tensors(config, tensors):
    return shared.gguf_moe_tensors(tensors, GGUF_LAYER)
