"""lfm2: short convolutions of four taps in three of five layers, the last one too, and a feed-forward whose width is computed."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "hidden_size": 64, "intermediate_size": 78,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB,
    "layer_types": ["conv", "full_attention", "conv", "full_attention", "conv"], "conv_L_cache": 4, "conv_bias": False,
    "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.1, "block_multiple_of": 32,
    "max_position_embeddings": 512, "norm_eps": 1e-5, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 41
GGUF_ARCHITECTURE = "lfm2"
GGUF_SHARED_SETTINGS = False  # key-value heads are a list, the width is the computed one
GGUF_LAYER = {
    "operator_norm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "self_attn.out_proj": "attn_output",
    "conv.in_proj": "shortconv.in_proj", "conv.conv": "shortconv.conv", "conv.out_proj": "shortconv.out_proj",
    "ffn_norm": "ffn_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up",
}
GGUF_WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.embedding_norm.weight": "token_embd_norm.weight"}


def feed_forward(config):
    width = int(config["block_ffn_dim_multiplier"] * int(2 * config["intermediate_size"] / 3))
    return -(-width // config["block_multiple_of"]) * config["block_multiple_of"]


def shapes(config):
    hidden, wide, size = config["hidden_size"], feed_forward(config), config["hidden_size"] // config["num_attention_heads"]
    queries, keys = (config[f"num_{kind}_heads"] * size for kind in ("attention", "key_value"))
    found = {"model.embed_tokens.weight": (VOCAB, hidden), "model.embedding_norm.weight": (hidden,)}
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        if kind == "conv":
            found |= {at + "conv.conv.weight": (hidden, 1, config["conv_L_cache"]),
                      at + "conv.in_proj.weight": (3 * hidden, hidden), at + "conv.out_proj.weight": (hidden, hidden)}
        else:
            found |= {at + "self_attn.q_proj.weight": (queries, hidden), at + "self_attn.k_proj.weight": (keys, hidden),
                      at + "self_attn.v_proj.weight": (keys, hidden), at + "self_attn.out_proj.weight": (hidden, queries),
                      at + "self_attn.q_layernorm.weight": (size,), at + "self_attn.k_layernorm.weight": (size,)}
        found |= {at + "feed_forward.w1.weight": (wide, hidden), at + "feed_forward.w2.weight": (hidden, wide),
                  at + "feed_forward.w3.weight": (wide, hidden), at + "operator_norm.weight": (hidden,),
                  at + "ffn_norm.weight": (hidden,)}
    return found


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(feed_forward(config))
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv([config["num_key_value_heads"] if kind != "conv" else 0 for kind in config["layer_types"]])
    writer.add_layer_norm_rms_eps(config["norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_shortconv_l_cache(config["conv_L_cache"])


def gguf_tensors(config, tensors):
    return {GGUF_WHOLE.get(name) or shared.gguf_name(name, GGUF_LAYER): array.squeeze(1) if array.ndim == 3 else array
            for name, array in tensors.items()}


def mlx_tensors(tensors):
    return {name: array.swapaxes(1, 2) if array.ndim == 3 else array for name, array in tensors.items()}
