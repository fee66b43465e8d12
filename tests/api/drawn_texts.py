"""Configurations of small text models, drawn from a random source, for drawn_texts_test.py: `drawn_config(name, drawn)` draws other
sizes and settings for the golden checkpoint of a family of scripts/golden/families."""

import sys

from plain_causal import FULL, SLIDING
from shoal_server import ROOT

sys.path.insert(0, str(ROOT / "scripts/golden"))
from families import all_families  # noqa: E402

GOLDEN = all_families()
# Classes with the tensors of another: {name: (the other, what config.json has instead)}
VARIANTS = {"glm4_moe_lite": ("deepseek_v3", {"architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite"})}
# Widths of heads are those of the hidden size in these.
WHOLE_HEADS = ("bamba", "granitemoehybrid", "lfm2", "lfm2_moe", "olmo2", "olmo3", "phi", "stablelm")


def sizes(drawn, config, name):
    """What most families have."""
    heads, size, layers = drawn.randint(1, 4), 8 * drawn.randint(1, 3), drawn.randint(1, 4)
    found = {"num_attention_heads": heads, "num_key_value_heads": drawn.choice([n for n in range(1, heads + 1) if heads % n == 0]),
             "head_dim": size, "hidden_size": heads * size if name in WHOLE_HEADS else 8 * drawn.randint(2, 8),
             "intermediate_size": 8 * drawn.randint(1, 9), "num_hidden_layers": layers, "sliding_window": drawn.randint(2, 20),
             "rope_theta": drawn.choice([300.0, 10000.0, 5e5]), "tie_word_embeddings": drawn.random() < 0.5,
             "partial_rotary_factor": drawn.choice([0.25, 0.5, 0.75, 1.0])}
    found |= {kind: drawn.choice([1e-6, 1e-5, 1e-3]) for kind in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps") if kind in config}
    fixed = {"phi": ("tie_word_embeddings",), "lfm2": ("tie_word_embeddings",), "lfm2_moe": ("tie_word_embeddings",),
             "gemma3n": ("tie_word_embeddings",), "gemma4": ("tie_word_embeddings",), "gemma4_moe": ("tie_word_embeddings",)}.get(name, ())
    return {key: value for key, value in found.items() if key in config and key not in fixed and config[key] is not None}


def kinds(drawn, config, choice, needed=()):
    """One of `choice` for each layer; those of `needed` are among them."""
    count = max(config["num_hidden_layers"], len(needed))
    found = [drawn.choice(choice) for _ in range(count - len(needed))] + list(needed)
    drawn.shuffle(found)
    return {"layer_types": found, "num_hidden_layers": count}


def yarn(drawn):
    return {"factor": drawn.choice([2.0, 4.0, 8.0]), "original_max_position_embeddings": drawn.choice([16, 64, 128])}


def experts(drawn, **names):
    """names: of the number of experts, of those chosen, and of their width."""
    count = drawn.randint(2, 9)
    return {names["count"]: count, names["chosen"]: drawn.randint(1, min(count, 4)), names["width"]: 8 * drawn.randint(1, 5)}


def grouped(drawn, per_group):
    groups = drawn.randint(1, 3)
    kept, each = drawn.randint(1, groups), drawn.randint(per_group, 4)
    return {"n_group": groups, "topk_group": kept, "n_routed_experts": groups * each, "num_experts_per_tok": drawn.randint(1, min(4, kept * each)),
            "n_shared_experts": drawn.randint(1, 2), "moe_intermediate_size": 8 * drawn.randint(1, 4),
            "routed_scaling_factor": drawn.choice([0.5, 1.0, 2.5])}


def dense_first(drawn, config):
    return {"first_k_dense_replace": drawn.randint(0, config["num_hidden_layers"] - 1)}


def latent(drawn, config, per_group):
    heads = drawn.randint(1, 4)
    size = 4 * drawn.randint(1, 4)
    scaling = config["rope_scaling"] | yarn(drawn)
    found = {"num_attention_heads": heads, "num_key_value_heads": heads, "qk_rope_head_dim": size, "head_dim": size,
             "qk_nope_head_dim": 4 * drawn.randint(1, 6), "v_head_dim": 4 * drawn.randint(1, 6), "kv_lora_rank": 4 * drawn.randint(2, 10),
             "q_lora_rank": drawn.choice([None, 4 * drawn.randint(1, 8)]), "rope_scaling": scaling}
    return found | grouped(drawn, per_group) | dense_first(drawn, config)


def mixers(drawn, names):
    """Sizes of a state space mixer; names: of its heads, their size, groups, state and taps."""
    groups = drawn.randint(1, 3)
    return dict(zip(names, (groups * drawn.randint(1, 3), 4 * drawn.randint(1, 6), groups, drawn.randint(3, 24), drawn.randint(2, 4))))


MIXER = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")


def power(drawn, most=1):
    """GGUF's weights contain the factors, and powers of two are exact."""
    return 2.0 ** drawn.randint(-2, most)


def draw_mamba2(drawn, config):
    found = mixers(drawn, ("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel"))
    columns, expand = found["num_heads"] * found["head_dim"], drawn.choice([1, 2])
    return found | {"hidden_size": columns // expand, "expand": expand, "num_hidden_layers": drawn.randint(1, 4), "use_bias": drawn.random() < 0.5}


def draw_falcon_h1(drawn, config):
    found = mixers(drawn, MIXER)
    factors = {name: power(drawn) for name in ("lm_head_multiplier", "embedding_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
                                               "ssm_out_multiplier")}
    factors |= {name: power(drawn, 0) for name in ("key_multiplier", "attention_in_multiplier")}  # larger scores amplify rounding
    return found | factors | {"mamba_d_ssm": found["mamba_n_heads"] * found["mamba_d_head"], "mlp_multipliers": [power(drawn), power(drawn)],
                              "ssm_multipliers": [power(drawn) for _ in range(5)]}


def draw_bamba(drawn, config):
    found = mixers(drawn, MIXER)
    heads = found["mamba_n_heads"]
    expand = drawn.choice([n for n in (1, 2, 3) if n * config["hidden_size"] % heads == 0] or [heads])
    layers = config["num_hidden_layers"]
    return found | {"mamba_d_head": "auto", "mamba_expand": expand, "attn_layer_indices": sorted(drawn.sample(range(layers), drawn.randint(1, layers)))}


def granite_factors(drawn):
    return {"embedding_multiplier": drawn.choice([1.0, 6.0, 12.0]), "residual_multiplier": drawn.choice([0.22, 0.5, 1.0]),
            "attention_multiplier": drawn.choice([0.05, 0.2, 0.4]), "logits_scaling": drawn.choice([0.5, 1.0, 3.0])}


def draw_granitemoehybrid(drawn, config):
    found = mixers(drawn, MIXER)
    expand = drawn.choice([1, 2])
    columns = 8 * drawn.randint(2, 6)
    heads = drawn.choice([n for n in (1, 2, 4) if columns % (2 * n) == 0])
    inner = expand * columns
    mixing = drawn.choice([n for n in (1, 2, 4, 8) if inner % (4 * n) == 0])
    groups = drawn.choice([n for n in (1, 2, 4) if mixing % n == 0])
    return found | granite_factors(drawn) | kinds(drawn, config, ["mamba", "attention"], ["attention"]) | experts(
        drawn, count="num_local_experts", chosen="num_experts_per_tok", width="intermediate_size") | {
            "hidden_size": columns, "num_attention_heads": heads, "num_key_value_heads": 1, "mamba_expand": expand, "mamba_n_heads": mixing,
            "mamba_d_head": inner // mixing, "mamba_n_groups": groups, "shared_intermediate_size": 8 * drawn.randint(1, 6)}


def draw_nemotron_h(drawn, config):
    found = mixers(drawn, ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"))
    parts = [drawn.choice("M*-") for _ in range(drawn.randint(1, 4))] + list("M*-")
    drawn.shuffle(parts)
    return found | {"hybrid_override_pattern": "".join(parts), "num_hidden_layers": len(parts), "tie_word_embeddings": False, "layer_norm_epsilon": 1e-5}


def draw_nemotron_h_moe(drawn, config):
    parts = [drawn.choice(["mamba", "moe", "attention"]) for _ in range(drawn.randint(1, 3))] + ["mamba", "moe", "attention"]
    drawn.shuffle(parts)
    found = draw_nemotron_h(drawn, config) | grouped(drawn, 2)
    del found["hybrid_override_pattern"]
    return found | {"layers_block_type": parts, "num_hidden_layers": len(parts), "moe_latent_size": 8 * drawn.randint(1, 5), "n_shared_experts": 1,
                    "moe_shared_expert_intermediate_size": 8 * drawn.randint(1, 5), "norm_topk_prob": drawn.random() < 0.5}


def draw_qwen3_5(drawn, config):
    keys, interval = drawn.randint(1, 3), drawn.randint(2, 3)
    layers, turning = drawn.randint(interval, 4), drawn.choice([0.25, 0.5, 1.0])
    size = config["head_dim"] * 2
    pairs = int(size * turning) // 2
    cut = drawn.randint(0, pairs // 3)
    return {"linear_num_key_heads": keys, "linear_num_value_heads": keys * drawn.randint(1, 3), "linear_key_head_dim": 4 * drawn.randint(2, 8),
            "linear_conv_kernel_dim": drawn.randint(2, 4), "num_hidden_layers": layers, "full_attention_interval": interval, "head_dim": size,
            "layer_types": [FULL if (layer + 1) % interval == 0 else "linear_attention" for layer in range(layers)],
            "rope_parameters": config["rope_parameters"] | {"partial_rotary_factor": turning, "mrope_section": [pairs - 2 * cut, cut, cut]}}


def square_delta(drawn, config):
    """GGUF states one size of keys and values."""
    found = draw_qwen3_5(drawn, config)
    return found | {"linear_value_head_dim": found["linear_key_head_dim"]}


def shared_layers(drawn):
    """Kinds of layers of which the last ones take the keys of earlier ones of their kind."""
    held = [SLIDING, FULL] + [drawn.choice([SLIDING, FULL]) for _ in range(drawn.randint(0, 2))]
    drawn.shuffle(held)
    last = [drawn.choice([SLIDING, FULL]) for _ in range(drawn.randint(0, 2))]
    return {"layer_types": held + last, "num_hidden_layers": len(held + last), "num_kv_shared_layers": len(last)}


def draw_gemma3n(drawn, config):
    layers, streams = shared_layers(drawn), drawn.randint(2, 4)
    count = layers["num_hidden_layers"]
    return layers | {"intermediate_size": [8 * drawn.randint(2, 8)] * count, "altup_num_inputs": streams, "altup_active_idx": drawn.randrange(streams),
                     "laurel_rank": drawn.randint(2, 12), "hidden_size_per_layer_input": 8 * drawn.randint(1, 3),
                     "activation_sparsity_pattern": [drawn.choice([0.0, 0.4, 0.9]) for _ in range(count)]}


def draw_gemma4(drawn, config):
    """The last layer sees all positions, as the class sees to."""
    found = shared_layers(drawn) | {"hidden_size_per_layer_input": 8 * drawn.randint(1, 3)}
    found["layer_types"] = found["layer_types"][:-1] + [FULL] if found["num_kv_shared_layers"] else sorted(found["layer_types"], key=FULL.__eq__)
    return found | global_heads(drawn, config)


def global_heads(drawn, config):
    heads = config["num_attention_heads"]
    rope = {FULL: config["rope_parameters"][FULL] | {"partial_rotary_factor": drawn.choice([0.25, 0.5])}, SLIDING: config["rope_parameters"][SLIDING]}
    return {"global_head_dim": 8 * drawn.randint(1, 4), "rope_parameters": rope,
            "num_global_key_value_heads": drawn.choice([n for n in range(1, heads + 1) if heads % n == 0])}


def draw_lfm2(drawn, config):
    return kinds(drawn, config, ["conv", FULL], [FULL, "conv"]) | {"conv_L_cache": drawn.randint(2, 4), "block_multiple_of": 8 * drawn.randint(1, 4)}


def draw_lfm2_moe(drawn, config):
    found = kinds(drawn, config, ["conv", FULL], [FULL, "conv"])
    return found | experts(drawn, count="num_experts", chosen="num_experts_per_tok", width="moe_intermediate_size") | {
        "conv_L_cache": drawn.randint(2, 4), "num_dense_layers": drawn.randint(0, found["num_hidden_layers"] - 1)}


def draw_ernie4_5_moe(drawn, config):
    """GGUF states the width of the shared part by what it is in published models: that of a dense part, divided by the key heads."""
    layers, count = config["num_hidden_layers"], drawn.randint(1, 2)
    found = experts(drawn, count="moe_num_experts", chosen="moe_k", width="moe_intermediate_size")
    return found | {"moe_layer_start_index": drawn.randint(0, layers - 1), "moe_layer_end_index": layers - 1, "moe_num_shared_experts": count,
                    "intermediate_size": found["moe_intermediate_size"] * count * config["num_key_value_heads"]}


def draw_hunyuan_v1_moe(drawn, config):
    found, layers = experts(drawn, count="num_experts", chosen="moe_topk", width="intermediate_size"), config["num_hidden_layers"]
    return found | {"moe_topk": [found["moe_topk"]] * layers, "moe_intermediate_size": [found["intermediate_size"]] * layers,
                    "num_shared_expert": [1] * layers} | alpha(drawn, config)


def alpha(drawn, config):
    return {"rope_scaling": config["rope_scaling"] | {"alpha": drawn.choice([2.0, 50.0, 1000.0])}}


def qwen_experts(drawn, config):
    return experts(drawn, count="num_experts", chosen="num_experts_per_tok", width="moe_intermediate_size")


def draw_qwen3_moe_mixed(drawn, config):
    found = experts(drawn, count="num_local_experts", chosen="num_experts_per_tok", width="moe_intermediate_size")
    layers = config["num_hidden_layers"]
    return found | {"decoder_sparse_step": drawn.randint(1, 2), "mlp_only_layers": drawn.sample(range(layers), drawn.randint(0, 1)),
                    "norm_topk_prob": drawn.random() < 0.5}


def draw_minimax_m2(drawn, config):
    found = experts(drawn, count="num_local_experts", chosen="num_experts_per_tok", width="intermediate_size")
    return found | {"rotary_dim": 2 * drawn.randint(1, config["head_dim"] // 2)}


def draw_longrope(drawn, config):
    pairs = int(config["head_dim"] * config["partial_rotary_factor"]) // 2
    return {"rope_scaling": {"type": "longrope", **{f"{length}_factor": [round(drawn.uniform(1, 9), 2) for _ in range(pairs)]
                                                    for length in ("short", "long")}}}


def scaled_rope(drawn, config):
    return {"rope_scaling": config["rope_scaling"] | yarn(drawn)}


def periods(drawn, config):
    return {"sliding_window_pattern": drawn.randint(2, 3)}


# What a family draws beyond the sizes: a function of the source and the config that has the sizes.
FURTHER = {
    "llama": scaled_rope, "apertus": scaled_rope, "arcee": scaled_rope, "qwen3": scaled_rope, "phi3": draw_longrope,
    "ministral3": lambda drawn, config: {"rope_parameters": config["rope_parameters"] | yarn(drawn) | {
        "original_max_position_embeddings": drawn.randint(4, 16), "llama_4_scaling_beta": drawn.choice([0.1, 0.25])}},
    "olmo3": lambda drawn, config: scaled_rope(drawn, config) | kinds(drawn, config, [SLIDING, FULL]),
    "exaone4": lambda drawn, config: kinds(drawn, config, [SLIDING, FULL]) | {"sliding_window": drawn.choice([None, 5])},
    "smollm3": lambda drawn, config: {"no_rope_layers": [drawn.randint(0, 1) for _ in range(config["num_hidden_layers"])]},
    "qwen2": lambda drawn, config: {"use_sliding_window": drawn.random() < 0.5, "max_window_layers": drawn.randint(0, 2)},
    "cohere2": lambda drawn, config: periods(drawn, config) | {"logit_scale": drawn.choice([0.25, 1.0])},
    "gemma2": lambda drawn, config: {"query_pre_attn_scalar": drawn.randint(8, 32), "attn_logit_softcapping": drawn.choice([2.0, 50.0])},
    "gemma3": lambda drawn, config: periods(drawn, config) | {"query_pre_attn_scalar": drawn.randint(8, 32)},
    "gemma3n": draw_gemma3n, "gemma4": draw_gemma4,
    "gemma4_moe": lambda drawn, config: {"layer_types": [drawn.choice([SLIDING, FULL]) for _ in range(config["num_hidden_layers"] - 1)] + [FULL]} | global_heads(drawn, config) | experts(
        drawn, count="num_experts", chosen="top_k_experts", width="moe_intermediate_size"),
    "granite": lambda drawn, config: granite_factors(drawn),
    "granitemoe": lambda drawn, config: granite_factors(drawn) | experts(
        drawn, count="num_local_experts", chosen="num_experts_per_tok", width="intermediate_size"),
    "minicpm": lambda drawn, config: {"scale_emb": drawn.randint(1, 12), "scale_depth": drawn.choice([0.7, 1.4]), "dim_model_base": drawn.choice([8, 32])},
    "hunyuan_v1_dense": alpha, "hunyuan_v1_moe": draw_hunyuan_v1_moe, "qwen3_moe": qwen_experts, "qwen3_moe_mixed": draw_qwen3_moe_mixed,
    "gpt_oss": lambda drawn, config: scaled_rope(drawn, config) | {
        "layer_types": [FULL if layer % 2 else SLIDING for layer in range(config["num_hidden_layers"])]} | experts(
            drawn, count="num_local_experts", chosen="num_experts_per_tok", width="intermediate_size"),
    "glm4_moe": lambda drawn, config: grouped(drawn, 2) | dense_first(drawn, config) | {"norm_topk_prob": drawn.random() < 0.5},
    "minimax_m2": draw_minimax_m2, "ernie4_5_moe": draw_ernie4_5_moe, "lfm2": draw_lfm2, "lfm2_moe": draw_lfm2_moe,
    "deepseek_v2": lambda drawn, config: latent(drawn, config, 1), "deepseek_v3": lambda drawn, config: latent(drawn, config, 2),
    "qwen3_5": square_delta, "qwen3_5_moe": lambda drawn, config: square_delta(drawn, config) | qwen_experts(drawn, config) | {
        "shared_expert_intermediate_size": 8 * drawn.randint(1, 6)},
    "mamba2": draw_mamba2, "bamba": draw_bamba, "granitemoehybrid": draw_granitemoehybrid, "falcon_h1": draw_falcon_h1,
    "nemotron_h": draw_nemotron_h, "nemotron_h_moe": draw_nemotron_h_moe,
}


def drawn_config(name, drawn):
    """(module of scripts/golden/families, config)"""
    name, instead = VARIANTS.get(name, (name, {}))
    config = dict(GOLDEN[name].CONFIG)
    if name != "mamba2":
        config |= sizes(drawn, config, name)
    return GOLDEN[name], config | FURTHER.get(name, lambda drawn, config: {})(drawn, config) | instead


def stated_in_gguf(name, config):
    """Whether GGUF has keys for what was drawn: some facts are those of the published models."""
    layers = config["num_hidden_layers"]
    if name == "smollm3":
        return all(turns == ((layer + 1) % 4 > 0) for layer, turns in enumerate(config["no_rope_layers"]))
    if name == "exaone4":
        return not config["sliding_window"]
    if name == "qwen2":
        return not config["use_sliding_window"] or config["max_window_layers"] >= layers
    if name == "falcon_h1":
        return not config["tie_word_embeddings"]  # the factors of an embedding and of logits are in the matrices
    return name in VARIANTS or hasattr(GOLDEN[name], "GGUF_ARCHITECTURE")
