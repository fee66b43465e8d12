"""llava: CLIP's tower up to its last but one layer, a class row that is dropped, llama's text."""
from towers import VOCAB
from towers.square_common import normalized

CLASS = "LlavaForConditionalGeneration"
SEED = 81
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 24), (1, 24, 24), (1, 24, 24)]
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
CONFIG = {
    "architectures": [CLASS], "model_type": "llava", "image_token_index": IMAGE_TOKEN, "projector_hidden_act": "gelu",
    "vision_feature_layer": -2, "vision_feature_select_strategy": "default", "torch_dtype": "bfloat16",
    "image_seq_length": 36,
    "text_config": {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "bos_token_id": 1, "eos_token_id": 2,
    },
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 2, "image_size": 24, "patch_size": 4, "projection_dim": 16, "vocab_size": VOCAB,
    },
}


def inputs(family, images):
    return {"pixel_values": normalized(family, images)}


def features(family, model, given):
    import torch
    rows = torch.cat(list(model.model.get_image_features(given["pixel_values"]).pooler_output))
    return rows.reshape(-1, rows.shape[-1])


def count(family, image):
    return 36
