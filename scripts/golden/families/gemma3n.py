"""gemma3n: four streams mixed and corrected in each layer, low-rank residuals, cut gates, a per-layer embedding without rows for
the last tokens, the last two layers sharing keys, capped logits."""
import statistics

import numpy as np

from families import VOCAB, gemma4, shared
from families.gemma4 import GLOBAL, SLIDING

CONFIG = {
    "architectures": ["Gemma3nForCausalLM"], "model_type": "gemma3n_text", "hidden_size": 64, "intermediate_size": [64] * 5,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "vocab_size_per_layer_input": 200, "hidden_size_per_layer_input": 16, "max_position_embeddings": 512, "sliding_window": 8,
    "layer_types": [SLIDING, SLIDING, GLOBAL, SLIDING, GLOBAL], "num_kv_shared_layers": 2, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "rope_scaling": None, "altup_num_inputs": 4,
    "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": True, "laurel_rank": 8,
    "activation_sparsity_pattern": [0.9, 0.4, 0.0, 0.0, 0.0], "final_logit_softcapping": 2.5,
    "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 0,
}
SEED = 43
GGUF_ARCHITECTURE = "gemma3n"
GGUF_SHARED_SETTINGS = False
GGUF_LAYER = gemma4.GGUF_LAYER | {
    "altup.correction_coefs": "altup_correct_coef", "altup.prediction_coefs": "altup_predict_coef",
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l",
    "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm",
}


def shapes(config):
    hidden, columns, streams = config["hidden_size"], config["hidden_size_per_layer_input"], config["altup_num_inputs"]
    every = config["num_hidden_layers"] * columns
    found = shared.whole_shapes(config) | {
        "model.embed_tokens_per_layer.weight": (config["vocab_size_per_layer_input"], every),
        "model.per_layer_model_projection.weight": (every, hidden), "model.per_layer_projection_norm.weight": (columns,),
    }
    for stream in range(streams - 1):
        found |= {f"model.altup_{name}projections.{stream}.weight": (hidden, hidden) for name in ("", "unembed_")}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config | {"intermediate_size": config["intermediate_size"][layer]}, at)
        found |= {at + f"{name}.weight": (hidden,) for name in (
            "pre_feedforward_layernorm", "post_feedforward_layernorm", "post_per_layer_input_norm", "altup.router_norm",
            "laurel.post_laurel_norm")}
        found |= {at + f"self_attn.{name}_norm.weight": (config["head_dim"],) for name in "qk"}
        found |= {
            at + "per_layer_input_gate.weight": (columns, hidden), at + "per_layer_projection.weight": (hidden, columns),
            at + "altup.correct_output_scale": (hidden,), at + "altup.correction_coefs.weight": (streams, streams),
            at + "altup.prediction_coefs.weight": (streams ** 2, streams),
            at + "altup.modality_router.weight": (streams, hidden), at + "laurel.linear_left.weight": (config["laurel_rank"], hidden),
            at + "laurel.linear_right.weight": (hidden, config["laurel_rank"]),
        }
        if gemma4.shares(config, layer):
            for name in ("k_proj", "v_proj", "k_norm"):
                del found[at + f"self_attn.{name}.weight"]
    return found


def centre(name):
    """Keeps scores small, as in gemma4."""
    return 0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1


def weight(name, shape, source):
    """Makes the router's norm so large that it still matters after division by the hidden size."""
    return 8 + source.integers(-32, 33, shape) / 8 if name.endswith("router_norm.weight") else None


def gguf_metadata(config, writer):
    layers = range(config["num_hidden_layers"])
    writer.add_block_count(len(layers))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_array("gemma3n.attention.sliding_window_pattern", [kind == SLIDING for kind in config["layer_types"]])
    writer.add_uint32("gemma3n.attention.shared_kv_layers", config["num_kv_shared_layers"])
    writer.add_uint32("gemma3n.embedding_length_per_layer_input", config["hidden_size_per_layer_input"])
    writer.add_uint32("gemma3n.altup.active_idx", config["altup_active_idx"])
    writer.add_uint32("gemma3n.altup.num_inputs", config["altup_num_inputs"])
    writer.add_array("gemma3n.activation_sparsity_scale",
                     [statistics.NormalDist().inv_cdf(part) if part else float("-inf")
                      for part in config["activation_sparsity_pattern"]])
    writer.add_float32("gemma3n.final_logit_softcapping", config["final_logit_softcapping"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_float32("gemma3n.rope.freq_base_swa", config["rope_local_base_freq"])


def gguf_name(name):
    if name.endswith(".altup.correct_output_scale"):
        return f"blk.{name.split('.')[2]}.altup_correct_scale.weight"
    return gemma4.GGUF_WHOLE.get(name.removeprefix("model.").removesuffix(".weight"), "") + ".weight" \
        if name.startswith(("model.embed_tokens_per_layer", "model.per_layer_")) else shared.gguf_name(name, GGUF_LAYER)


def gguf_tensors(config, tensors):
    """The streams' projections are stacks. llama.cpp pads the per-layer table with zeros; here it is not padded, since tokens
    without a row read its first row."""
    stacks = {f"altup_{short}.weight": np.stack([tensors[f"model.altup_{name}.{stream}.weight"]
                                                 for stream in range(config["altup_num_inputs"] - 1)])
              for short, name in (("proj", "projections"), ("unembd_proj", "unembed_projections"))}
    return stacks | {gguf_name(name): array for name, array in tensors.items() if "projections." not in name}
