"""pixtral: Pixtral's tower in class llava, silu gates, patches projected one by one; mistral's text."""
from towers import VOCAB, mistral3_tower
from towers.mistral3_tower import MEAN, STD, count, features, inputs  # noqa: F401

CLASS = "LlavaForConditionalGeneration"
SEED = 93
IMAGE_TOKEN = 91
IMAGES = [(1, 20, 12), (1, 4, 28), (1, 16, 16)]
CONFIG = {
    "architectures": [CLASS], "model_type": "llava", "image_token_index": IMAGE_TOKEN, "projector_hidden_act": "gelu",
    "vision_feature_layer": -1, "vision_feature_select_strategy": "full", "torch_dtype": "bfloat16",
    "text_config": mistral3_tower.CONFIG["text_config"] | {"rms_norm_eps": 1e-5},
    "vision_config": mistral3_tower.CONFIG["vision_config"] | {"hidden_act": "silu"},
}
