"""hunyuan_v1_dense: norms of heads after the rotation, whose base alpha stretches, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["HunYuanDenseV1ForCausalLM"], "model_type": "hunyuan_v1_dense", "hidden_size": 64, "intermediate_size": 88,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False,
    "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0}, "use_qk_norm": True, "num_experts": 1,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 86
GGUF_ARCHITECTURE = "hunyuan-dense"
GGUF_SHARED_SETTINGS = False
GGUF_LAYER = shared.GGUF_LAYER | {"self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm"}


def norm_shapes(config, at):
    return {f"{at}self_attn.{which}_layernorm.weight": (config["head_dim"],) for which in ("query", "key")}


def shapes(config):
    found = shared.whole_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= shared.layer_shapes(config, at) | norm_shapes(config, at)
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    """The converter puts alpha into the base."""
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    dims, alpha = config["head_dim"], config["rope_scaling"]["alpha"]
    writer.add_rope_freq_base(config["rope_theta"] * alpha ** (dims / (dims - 2)))
    writer.add_string(f"{writer.arch}.rope.scaling.type", "none")
    writer.add_rope_scaling_factor(1.0)


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name, GGUF_LAYER): array for name, array in tensors.items()}
