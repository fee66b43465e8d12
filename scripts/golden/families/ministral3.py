"""ministral3: yarn with a magnitude, and queries that grow every 8 positions; its GGUF architecture is mistral3."""
import gguf

from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "sliding_window": None,
    "rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 16.0, "original_max_position_embeddings": 8,
                        "max_position_embeddings": 512, "beta_fast": 1.0, "beta_slow": 0.05, "mscale": 1.0,
                        "mscale_all_dim": 0.75, "llama_4_scaling_beta": 0.125},
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 256, "eos_token_id": 257,
}
SEED = 15
GGUF_ARCHITECTURE = "mistral3"
shapes = llama.shapes
centre = llama.centre


def gguf_metadata(config, writer):
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_float32("mistral3.rope.scaling.yarn_beta_fast", rope["beta_fast"])
    writer.add_float32("mistral3.rope.scaling.yarn_beta_slow", rope["beta_slow"])
    writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
    writer.add_float32("mistral3.attention.temperature_scale", rope["llama_4_scaling_beta"])


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
