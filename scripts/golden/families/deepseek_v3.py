"""deepseek_v3: deepseek_v2 with a latent of queries, and experts chosen by sigmoid and a bias, of the groups whose two best are best;
its GGUF has a matrix of keys and of values for each head (attn_k_b, attn_v_b)."""
import numpy as np

from families import deepseek_v2

CONFIG = deepseek_v2.CONFIG | {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 12, "kv_lora_rank": 36, "q_lora_rank": 28, "qk_nope_head_dim": 20,
    "qk_rope_head_dim": 12, "v_head_dim": 16, "first_k_dense_replace": 2, "n_routed_experts": 12, "num_experts_per_tok": 4,
    "n_shared_experts": 1, "moe_intermediate_size": 20, "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc",
    "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 128},
}
SEED = 82
GGUF_ARCHITECTURE = "deepseek2"
GGUF_SHARED_SETTINGS = False
centre = deepseek_v2.centre


def shapes(config):
    return deepseek_v2.shapes(config, True)


def gguf_metadata(config, writer):
    deepseek_v2.whole_metadata(config, writer)
    writer.add_uint32("deepseek2.expert_gating_func", 2)
    writer.add_head_count_kv(1)
    writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
    writer.add_value_length(config["kv_lora_rank"])
    writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    writer.add_value_length_mla(config["v_head_dim"])


def gguf_tensors(config, tensors):
    found = deepseek_v2.gguf_tensors(config, tensors)
    for layer in range(config["num_hidden_layers"] + config["num_nextn_predict_layers"]):
        both = found.pop(f"blk.{layer}.attn_kv_b.weight").reshape(config["num_attention_heads"], -1, config["kv_lora_rank"])
        keys, values = np.split(both, [config["qk_nope_head_dim"]], axis=1)
        found |= {f"blk.{layer}.attn_k_b.weight": keys.swapaxes(1, 2), f"blk.{layer}.attn_v_b.weight": values}
    return found
