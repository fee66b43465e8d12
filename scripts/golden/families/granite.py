"""granite: factors of embeddings, residual, scores and logits, tied."""
from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_size": 64, "intermediate_size": 88,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu",
    "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.2, "logits_scaling": 3.0,
    "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 257,
}
SEED = 34
GGUF_ARCHITECTURE = "granite"


shapes = shared.llama_shapes


def centre(_):
    return 1


def gguf_metadata(config, writer):
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
