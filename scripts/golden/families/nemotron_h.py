"""nemotron_h: a layer of each kind but experts, mixers of two groups."""
from families import VOCAB, mamba2

CONFIG = {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hidden_size": 64, "intermediate_size": 80,
    "num_hidden_layers": 5, "hybrid_override_pattern": "M-*M-", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24,
    "vocab_size": VOCAB, "mamba_num_heads": 6, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 24, "conv_kernel": 4, "expand": 2,
    "chunk_size": 8, "use_bias": False, "use_conv_bias": True, "mlp_bias": False, "attention_bias": False, "mlp_hidden_act": "relu2",
    "mamba_hidden_act": "silu", "layer_norm_epsilon": 1e-5, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 75
GGUF_ARCHITECTURE = "nemotron_h"
GGUF_SHARED_SETTINGS = False  # key-value heads and columns of feed-forward parts are lists
GGUF_WHOLE = mamba2.GGUF_WHOLE
GGUF_PARTS = {"norm": "attn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "up_proj": "ffn_up",
              "down_proj": "ffn_down", "gate": "ffn_gate_inp", "shared_experts.up_proj": "ffn_up_shexp",
              "shared_experts.down_proj": "ffn_down_shexp", "fc1_latent_proj": "ffn_latent_down", "fc2_latent_proj": "ffn_latent_up"}
centre = mamba2.centre
gguf_keeps_f32 = mamba2.gguf_keeps_f32


def part_shapes(config, at, kind):
    """Of a layer of that letter; names begin with `at`."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    if kind == "M":
        return mamba2.mixer_shapes(at, hidden, config["mamba_num_heads"], config["mamba_head_dim"], config["n_groups"],
                                   config["ssm_state_size"], config["conv_kernel"], False)
    if kind == "*":
        queries, keys = (config[f"num_{name}_heads"] * config["head_dim"] for name in ("attention", "key_value"))
        return {at + "q_proj.weight": (queries, hidden), at + "k_proj.weight": (keys, hidden), at + "v_proj.weight": (keys, hidden),
                at + "o_proj.weight": (hidden, queries)}
    if kind == "-":
        return {at + "up_proj.weight": (wide, hidden), at + "down_proj.weight": (hidden, wide)}
    wide, shared_wide, inner = config["moe_intermediate_size"], config["moe_shared_expert_intermediate_size"], config["moe_latent_size"]
    found = {at + "gate.weight": (config["n_routed_experts"], hidden), at + "gate.e_score_correction_bias": (config["n_routed_experts"],),
             at + "shared_experts.up_proj.weight": (shared_wide, hidden), at + "shared_experts.down_proj.weight": (hidden, shared_wide),
             at + "fc1_latent_proj.weight": (inner, hidden), at + "fc2_latent_proj.weight": (hidden, inner)}
    for expert in range(config["n_routed_experts"]):
        found |= {f"{at}experts.{expert}.up_proj.weight": (wide, inner), f"{at}experts.{expert}.down_proj.weight": (inner, wide)}
    return found


def shapes(config):
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    found = {"backbone.embeddings.weight": (vocab, hidden), "backbone.norm_f.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    for layer, kind in enumerate(config["hybrid_override_pattern"]):
        found[f"backbone.layers.{layer}.norm.weight"] = (hidden,)
        found |= part_shapes(config, f"backbone.layers.{layer}.mixer.", kind)
    return found


def gguf_metadata(config, writer):
    pattern = config["hybrid_override_pattern"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(2 ** 20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length([config["moe_intermediate_size" if "E" in pattern else "intermediate_size"] if kind in "-E" else 0
                                    for kind in pattern])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([config["num_key_value_heads"] if kind == "*" else 0 for kind in pattern])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    mamba2.gguf_mixer_settings(writer, config["mamba_num_heads"], config["mamba_head_dim"], config["n_groups"],
                               config["ssm_state_size"], config["conv_kernel"])


def gguf_name(name, array, config):
    """GGUF's name and values of one tensor."""
    if name in GGUF_WHOLE:
        return GGUF_WHOLE[name], array
    layer, rest = name.removeprefix("backbone.layers.").split(".", 1)
    inner, ending = rest.removeprefix("mixer."), rest.rsplit(".", 1)[1]
    if config["hybrid_override_pattern"][int(layer)] == "M" and rest != inner:
        inner, array = mamba2.gguf_mixer(inner, array, config["n_groups"])
        return f"blk.{layer}.{inner}", array
    return f"blk.{layer}.{GGUF_PARTS[inner.rsplit('.', 1)[0]]}.{ending}", array


def gguf_tensors(config, tensors):
    return dict(gguf_name(name, array, config) for name, array in tensors.items())
