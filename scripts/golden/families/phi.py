"""phi: attention beside the feed-forward, layer norms, biases of everything, half of each head rotated, no gate, untied."""
import numpy as np

from families import VOCAB, shared

CONFIG = {
    "architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_size": 80, "intermediate_size": 104,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "layer_norm_eps": 1e-5, "rope_theta": 7000.0, "partial_rotary_factor": 0.4,
    "hidden_act": "gelu_new", "qk_layernorm": False, "resid_pdrop": 0.1, "embd_pdrop": 0.0, "attention_dropout": 0.0,
    "rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
    "pad_token_id": 257,
}
SEED = 72
GGUF_ARCHITECTURE = "phi2"
LAYER = {"self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "input_layernorm": "attn_norm"}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.final_layernorm.weight": "output_norm.weight",
         "model.final_layernorm.bias": "output_norm.bias", "lm_head.weight": "output.weight", "lm_head.bias": "output.bias"}


def shapes(config):
    hidden, wide, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    queries, keys = (config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    matrices = {"self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden),
                "self_attn.dense": (hidden, queries), "mlp.fc1": (wide, hidden), "mlp.fc2": (hidden, wide)}
    found = {"model.embed_tokens.weight": (vocab, hidden), "model.final_layernorm.weight": (hidden,),
             "model.final_layernorm.bias": (hidden,), "lm_head.weight": (vocab, hidden), "lm_head.bias": (vocab,)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, shape in matrices.items():
            found |= {f"{at}{name}.weight": shape, f"{at}{name}.bias": shape[:1]}
        found |= {at + "input_layernorm.weight": (hidden,), at + "input_layernorm.bias": (hidden,)}
    return found


def centre(name):
    return 0 if name.endswith("bias") else 1


def gguf_metadata(config, writer):
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_rope_dimension_count(int(config["partial_rotary_factor"] * config["head_dim"]))


def gguf_tensors(config, tensors):
    """q, k and v in one, as in files made from the publisher's first layout."""
    renamed, joined = {}, {}
    for name, array in tensors.items():
        part = name.split(".")
        if part[-2] in ("q_proj", "k_proj", "v_proj"):
            joined.setdefault((part[2], part[-1]), []).append(array)
        else:
            renamed[WHOLE[name] if name in WHOLE else shared.gguf_name(name, LAYER)] = array
    return renamed | {f"blk.{layer}.attn_qkv.{ending}": np.concatenate(arrays) for (layer, ending), arrays in joined.items()}
