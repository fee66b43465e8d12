"""cohere2_vision: SigLIP's tower with its last norm and its pooling head, a gated projection of squares; cohere2's text, tied."""
from towers import aya_vision_tower
from towers.aya_vision_tower import count, features, inputs  # noqa: F401

CLASS = "Cohere2VisionForConditionalGeneration"
SEED = 88
IMAGE_TOKEN = 91
LOGIT_SCALE = 0.25  # as in aya_vision
IMAGES = [(2, 24, 24), (1, 24, 24), (3, 24, 24)]
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
CONFIG = {
    "architectures": [CLASS], "model_type": "cohere2_vision", "image_token_id": IMAGE_TOKEN, "downsample_factor": 2,
    "alignment_intermediate_size": 104, "torch_dtype": "bfloat16", "text_config": aya_vision_tower.CONFIG["text_config"],
    "vision_config": {name: value for name, value in aya_vision_tower.CONFIG["vision_config"].items() if name != "vision_use_head"},
}
