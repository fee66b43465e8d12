"""ernie4_5: adjacent pairs, biases of every matrix in the layers, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "hidden_size": 64, "intermediate_size": 104,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu", "use_bias": True,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 99
GGUF_ARCHITECTURE = "ernie4_5"


def shapes(config):
    found = shared.llama_shapes(config)
    return found | {name[:-6] + "bias": shape[:1] for name, shape in found.items() if "_proj." in name}


def centre(name):
    return 0 if name.endswith(".bias") else 1


def gguf_metadata(config, writer):
    writer.add_rope_dimension_count(config["head_dim"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): array for name, array in tensors.items()}
