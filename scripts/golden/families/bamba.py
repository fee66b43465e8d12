"""bamba: one layer of four attends, with half of each head rotated. Without GGUF: converters permute whole heads there."""
from families import VOCAB, mamba2, shared

CONFIG = {
    "architectures": ["BambaForCausalLM"], "model_type": "bamba", "hidden_size": 48, "intermediate_size": 72,
    "num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 1, "vocab_size": VOCAB, "attn_layer_indices": [2],
    "mamba_n_heads": 6, "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 24, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_chunk_size": 8, "mamba_conv_bias": True, "mamba_proj_bias": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
    "rope_theta": 8000.0, "attn_rotary_emb": 8, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 73
centre = mamba2.centre


def shapes(config):
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads = config["mamba_n_heads"]
    found = {name.replace("model.norm", "model.final_layernorm"): shape for name, shape in shared.whole_shapes(config).items()}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        attends = layer in config["attn_layer_indices"]
        own = shared.layer_shapes(config | {"head_dim": hidden // config["num_attention_heads"]}, at)
        found |= {name: shape for name, shape in own.items() if ".self_attn." in name and attends or "input_layernorm" in name}
        found |= {at + "pre_ff_layernorm.weight": (hidden,)} | shared.gated_shapes(at + "feed_forward.", hidden, wide)
        if not attends:
            found |= mamba2.mixer_shapes(at + "mamba.", hidden, heads, config["mamba_expand"] * hidden // heads,
                                         config["mamba_n_groups"], config["mamba_d_state"], config["mamba_d_conv"], False)
    return found
