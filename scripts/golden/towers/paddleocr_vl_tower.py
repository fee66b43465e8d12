"""paddleocr_vl: a table of five by five positions, which is the size of no image; the flat config and names of published folders, with the
tensors that nothing uses; sections of MRoPE over halves of a head, tied."""
import numpy as np

from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD, TOKENS, count, extra, features, positions  # noqa: F401

CLASS = "PaddleOCRVLForConditionalGeneration"
SEED = 141
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 16), (1, 40, 24), (1, 8, 8)]
TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "use_bias": False, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}
VISION = {
    "model_type": "paddleocr_vl_vision", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
    "image_size": 22, "patch_size": 4, "spatial_merge_size": 2, "layer_norm_eps": 1e-6,
}
CONFIG = {
    "architectures": [CLASS], "model_type": "paddleocr_vl", "torch_dtype": "bfloat16", **TOKENS, "tie_word_embeddings": True,
    "text_config": TEXT | {"model_type": "paddleocr_vl_text", "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [2, 3, 3]}},
    "vision_config": VISION,
}
PUBLISHED = {name: value for name, value in CONFIG.items() if name != "text_config"} | TEXT | {
    "rope_theta": 5000.0, "rope_scaling": {"mrope_section": [2, 3, 3], "rope_type": "default", "type": "default"},
    "vision_config": VISION | {"model_type": "paddleocr_vl", "temporal_patch_size": 2},
}


def inputs(family, images):
    from transformers.models.paddleocr_vl.image_processing_paddleocr_vl import PaddleOCRVLImageProcessor
    vision = family.CONFIG["vision_config"]
    processor = PaddleOCRVLImageProcessor(do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(family.MEAN),
                                          image_std=list(family.STD), merge_size=vision["spatial_merge_size"])
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt", input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def stored(weights):
    renamed = {}
    for name, array in weights.items():
        for old, new in (("model.visual.", "visual."), ("model.projector.", "mlp_AR."), ("model.language_model.", "model.")):
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        renamed[name] = array
    hidden = VISION["hidden_size"]
    return renamed | {"visual.vision_model.embeddings.packing_position_embedding.weight": np.zeros((7, hidden), np.float32),
                      "visual.vision_model.head.probe": np.zeros((1, 1, hidden), np.float32)}
