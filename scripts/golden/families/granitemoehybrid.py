"""granitemoehybrid: two layers of four attend, without rotation, 3 of 6 experts beside one that every row uses, four factors."""
import numpy as np

from families import VOCAB, mamba2, shared

CONFIG = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "hidden_size": 48, "intermediate_size": 24,
    "shared_intermediate_size": 40, "num_local_experts": 6, "num_experts_per_tok": 3, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB, "layer_types": ["mamba", "attention", "mamba", "attention"],
    "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 24, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_chunk_size": 8, "mamba_conv_bias": True, "mamba_proj_bias": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "position_embedding_type": "nope", "attention_bias": False, "max_position_embeddings": 512,
    "embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2, "logits_scaling": 3.0,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 74
GGUF_ARCHITECTURE = "granitehybrid"
GGUF_SHARED_SETTINGS = False  # key-value heads are a list
GGUF_LAYER = shared.GGUF_LAYER | {"block_sparse_moe.router.layer": "ffn_gate_inp", "block_sparse_moe.output_linear": "ffn_down_exps",
                                  "shared_mlp.output_linear": "ffn_down_shexp"}
centre = mamba2.centre
gguf_keeps_f32 = mamba2.gguf_keeps_f32


def shapes(config):
    hidden, wide, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    found, size = shared.whole_shapes(config), hidden // config["num_attention_heads"]
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        own = shared.layer_shapes(config | {"head_dim": size}, at)
        found |= {name: shape for name, shape in own.items() if ".self_attn." in name and kind == "attention" or "norm" in name}
        found |= {at + "block_sparse_moe.input_linear.weight": (experts, 2 * wide, hidden),
                  at + "block_sparse_moe.output_linear.weight": (experts, hidden, wide),
                  at + "block_sparse_moe.router.layer.weight": (experts, hidden),
                  at + "shared_mlp.input_linear.weight": (2 * config["shared_intermediate_size"], hidden),
                  at + "shared_mlp.output_linear.weight": (hidden, config["shared_intermediate_size"])}
        if kind == "mamba":
            found |= mamba2.mixer_shapes(at + "mamba.", hidden, config["mamba_n_heads"], config["mamba_d_head"],
                                         config["mamba_n_groups"], config["mamba_d_state"], config["mamba_d_conv"], False)
    return found


def gguf_metadata(config, writer):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(2 ** 20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([config["num_key_value_heads"] if kind == "attention" else 0 for kind in config["layer_types"]])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_scaling_finetuned(False)
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])
    mamba2.gguf_mixer_settings(writer, config["mamba_n_heads"], config["mamba_d_head"], config["mamba_n_groups"],
                               config["mamba_d_state"], config["mamba_d_conv"])


def gguf_tensors(config, tensors):
    found = {}
    for name, array in tensors.items():
        at = f"blk.{(name + '..').split('.')[2]}."
        if ".mamba." in name:
            gguf, array = mamba2.gguf_mixer(name.split(".mamba.")[1], array, config["mamba_n_groups"])
            found[at + gguf] = array
        elif "input_linear" in name:
            kind = "exps" if "block_sparse_moe" in name else "shexp"
            gate, up = np.split(array, 2, axis=-2)
            found |= {f"{at}ffn_gate_{kind}.weight": gate, f"{at}ffn_up_{kind}.weight": up}
        elif "q_proj" in name or "k_proj" in name:
            heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            found[shared.gguf_name(name, GGUF_LAYER)] = shared.halves_to_pairs(array, heads)
        else:
            found[shared.gguf_name(name, GGUF_LAYER)] = array
    return found
