"""janus: SigLIP's tower without its pooling head, exact gelu, llama's tied text; two tensors of the part that makes images, which nothing uses."""
from towers import VOCAB
from towers.square_common import normalized

CLASS = "JanusForConditionalGeneration"
SEED = 171
IMAGE_TOKEN = 91
IMAGES = [(1, 20, 20), (1, 20, 20), (1, 20, 20)]
MEAN = STD = (0.5, 0.5, 0.5)
TEXT = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 5000.0, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}
VISION = {
    "model_type": "janus_vision_model", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 1.5, "image_size": 20,
    "patch_size": 4, "projection_dim": 32, "layer_norm_eps": 1e-6, "hidden_act": "gelu", "attention_bias": True, "depth": 2, "num_image_tokens": 25,
}
CONFIG = {
    "architectures": [CLASS], "model_type": "janus", "torch_dtype": "bfloat16", "image_token_id": IMAGE_TOKEN, "tie_word_embeddings": True,
    "text_config": TEXT | {"tie_word_embeddings": True}, "vision_config": VISION,
    "vq_config": {"model_type": "janus_vqgan", "embed_dim": 4, "num_embeddings": 8, "latent_channels": 32, "base_channels": 32, "channel_multiplier": [1],
                  "num_res_blocks": 1, "num_patches": 5, "projection_dim": 32, "image_token_embed_dim": 32},
}
MADE = ("model.vqmodel.", "model.generation_")


def inputs(family, images):
    return {"pixel_values": normalized(family, images)}


def features(family, model, given):
    out = model.model.get_image_features(given["pixel_values"])
    rows = getattr(out, "pooler_output", out)
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    vision = family.CONFIG["vision_config"]
    return (vision["image_size"] // vision["patch_size"]) ** 2


def centre(name):
    return 0 if name.endswith("bias") else 1


def stored(weights):
    kept = {name: array for name, array in weights.items() if not name.startswith(MADE)}
    return kept | {"model.generation_embeddings.weight": weights["model.generation_embeddings.weight"],
                   "model.vqmodel.quantize.embedding.weight": weights["model.vqmodel.quantize.embedding.weight"]}
