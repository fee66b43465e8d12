"""gemma: heads of 20 beside a hidden size of 64, one key head, the older name of the activation, tied."""
from families import VOCAB, shared

CONFIG = {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 20, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "gelu",
    "hidden_activation": None, "attention_bias": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
    "pad_token_id": 257,
}
SEED = 33
GGUF_ARCHITECTURE = "gemma"


shapes = shared.llama_shapes


def centre(_):
    return 0


def gguf_metadata(config, writer):
    pass


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): array + 1 if array.ndim == 1 else array for name, array in tensors.items()}
