"""aya_vision: SigLIP's tower without its last norm, a normed and gated projection of squares; cohere2's text, tied."""
from towers import VOCAB
from towers.square_common import normalized

CLASS = "AyaVisionForConditionalGeneration"
SEED = 86
IMAGE_TOKEN = 91
LOGIT_SCALE = 0.25  # Cohere2ForCausalLM multiplies by it, AyaVisionForConditionalGeneration of transformers 5 does not
IMAGES = [(1, 24, 24), (3, 24, 24), (2, 24, 24)]
MEAN = STD = (0.5, 0.5, 0.5)
CONFIG = {
    "architectures": [CLASS], "model_type": "aya_vision", "image_token_index": IMAGE_TOKEN, "downsample_factor": 2,
    "adapter_layer_norm_eps": 1e-5, "alignment_intermediate_size": 88, "torch_dtype": "bfloat16", "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
    "text_config": {
        "model_type": "cohere2", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 5, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB, "max_position_embeddings": 512, "layer_norm_eps": 1e-5,
        "rope_theta": 5000.0, "sliding_window": 20, "logit_scale": 0.25, "bos_token_id": 1, "eos_token_id": 2,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 24, "patch_size": 4, "vision_use_head": False,
    },
}


def inputs(family, images):
    return {"pixel_values": normalized(family, images)}


def features(family, model, given):
    rows = model.model.get_image_features(given["pixel_values"]).pooler_output
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    side = family.CONFIG["vision_config"]["image_size"] // family.CONFIG["vision_config"]["patch_size"]
    return (side // family.CONFIG["downsample_factor"]) ** 2 * image[0]
