"""cohere2: attention beside the feed-forward, norms with a mean, a window of 8 and adjacent pairs rotated in two of three
layers, no rotation in the third, scaled logits, tied."""
import gguf

from families import VOCAB, shared

CONFIG = {
    "architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "hidden_size": 80, "intermediate_size": 104,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "layer_norm_eps": 1e-5, "rope_theta": 50000.0, "hidden_act": "silu",
    "sliding_window": 8, "sliding_window_pattern": 3, "logit_scale": 0.25, "rotary_pct": 1.0, "use_qk_norm": False,
    "attention_bias": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 13
GGUF_ARCHITECTURE = "cohere2"


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at)
        del found[at + "post_attention_layernorm.weight"]
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    """Writes no key for the pattern, as converters do not: readers assume the published models' period."""
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_logit_scale(config["logit_scale"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_uint32("cohere2.attention.sliding_window_pattern", config["sliding_window_pattern"])
    writer.add_rope_dimension_count(int(config["rotary_pct"] * config["head_dim"]))
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): array for name, array in tensors.items()}
