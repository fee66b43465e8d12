"""mistral: a window of 7 in every layer, heads of 24; its GGUF architecture is llama."""
from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "hidden_act": "silu", "sliding_window": 7,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 13
GGUF_ARCHITECTURE = "llama"
shapes = llama.shapes
centre = llama.centre


def gguf_metadata(config, writer):
    writer.add_sliding_window(config["sliding_window"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
