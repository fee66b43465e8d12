"""minicpm: factors of embeddings, of each half and of logits, as the publisher's configs state them, tied. transformers has
no such class; the reference is its Granite with the same factors, in double precision."""
from families import VOCAB, llama, shared

CONFIG = {
    "architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "hidden_size": 64, "intermediate_size": 88,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": VOCAB,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 8000.0, "hidden_act": "silu", "scale_emb": 12,
    "scale_depth": 1.4, "dim_model_base": 32, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": 256,
    "eos_token_id": 257,
}
SEED = 75
GGUF_ARCHITECTURE = "minicpm"


shapes = shared.llama_shapes


def centre(_):
    return 1


def factors(config):
    """Of the embedding, of each half's output, and the divisor of the logits."""
    return (config["scale_emb"], config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
            config["hidden_size"] / config["dim_model_base"])


def reference(config, weights, ids):
    import torch
    import transformers
    embedding, residual, logits = factors(config)
    own = ("architectures", "model_type", "scale_emb", "scale_depth", "dim_model_base", "torch_dtype")
    granite = transformers.GraniteConfig(**{key: value for key, value in config.items() if key not in own},
                                         embedding_multiplier=float(embedding), residual_multiplier=residual,
                                         logits_scaling=logits, attention_multiplier=config["head_dim"] ** -0.5)
    model = transformers.GraniteForCausalLM._from_config(granite, dtype=torch.float64, attn_implementation="eager").eval()
    state = {name: torch.tensor(array, dtype=torch.float64) for name, array in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and missing == ["lm_head.weight"]
    model.tie_weights()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def gguf_metadata(config, writer):
    embedding, residual, logits = factors(config)
    writer.add_embedding_scale(embedding)
    writer.add_residual_scale(residual)
    writer.add_logit_scale(logits)


def gguf_tensors(config, tensors):
    return {shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
