"""mistral3: Pixtral's tower over images of any size, gelu gates, squares joined channel by channel; mistral's text, tied by default."""
import torch

from towers import VOCAB
from towers.square_common import normalized

CLASS = "Mistral3ForConditionalGeneration"
SEED = 91
IMAGE_TOKEN = 91
IMAGES = [(1, 40, 24), (1, 16, 32), (1, 8, 16)]
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
CONFIG = {
    "architectures": [CLASS], "model_type": "mistral3", "image_token_index": IMAGE_TOKEN, "projector_hidden_act": "gelu",
    "vision_feature_layer": -1, "spatial_merge_size": 2, "multimodal_projector_bias": False, "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "mistral", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-3,
        "rope_theta": 5000.0, "sliding_window": None, "bos_token_id": 1, "eos_token_id": 2,
    },
    "vision_config": {
        "model_type": "pixtral", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
        "head_dim": 16, "image_size": 64, "patch_size": 4, "hidden_act": "gelu", "rope_theta": 10000.0,
    },
}


def inputs(family, images):
    """Pixels of all images, padded at the right and bottom to one size, and the sizes before."""
    parts = [normalized(family, [image])[0] for image in images]
    high, wide = max(part.shape[1] for part in parts), max(part.shape[2] for part in parts)
    padded = [torch.nn.functional.pad(part, (0, wide - part.shape[2], 0, high - part.shape[1])) for part in parts]
    return {"pixel_values": torch.stack(padded), "image_sizes": torch.tensor([part.shape[1:] for part in parts])}


def features(family, model, given):
    return torch.cat(list(model.model.get_image_features(**given).pooler_output))


def count(family, image):
    unit = family.CONFIG["vision_config"]["patch_size"] * family.CONFIG.get("spatial_merge_size", 1)
    return (image[1] // unit) * (image[2] // unit)
