"""starcoder2: layer norms, biases of all matrices, no gate, gelu, a window of 9 in all layers, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_size": 80, "intermediate_size": 112,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "norm_epsilon": 1e-5, "rope_theta": 9000.0, "hidden_act": "gelu_pytorch_tanh",
    "sliding_window": 9, "use_bias": True, "mlp_type": "default", "norm_type": "layer_norm", "residual_dropout": 0.1,
    "embedding_dropout": 0.1, "attention_dropout": 0.1, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
    "pad_token_id": 257,
}
SEED = 71
GGUF_ARCHITECTURE = "starcoder2"
MATRICES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
            "self_attn.o_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def shapes(config):
    hidden, wide, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = (config[name] * head_dim for name in ("num_attention_heads", "num_key_value_heads"))
    rows = dict(zip(MATRICES, (queries, keys, keys, hidden, wide, hidden)))
    columns = dict(zip(MATRICES, (hidden, hidden, hidden, queries, hidden, wide)))
    found = shared.whole_shapes(config) | {"model.norm.bias": (hidden,)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name in MATRICES:
            found |= {f"{at}{name}.weight": (rows[name], columns[name]), f"{at}{name}.bias": (rows[name],)}
        for name in NORMS:
            found |= {f"{at}{name}.weight": (hidden,), f"{at}{name}.bias": (hidden,)}
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    writer.add_layer_norm_eps(config["norm_epsilon"])
    writer.add_sliding_window(config["sliding_window"])


def gguf_tensors(config, tensors):
    return {"output_norm.bias" if name == "model.norm.bias" else shared.gguf_name(name, MATRICES | NORMS): array
            for name, array in tensors.items()}
