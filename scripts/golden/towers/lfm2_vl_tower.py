"""lfm2_vl: SigLIP 2's tower, a table of five by five positions that one axis of an image has more of and another fewer, tiles of one image;
layer norm before the projection, lfm2's text, tied."""
from towers import VOCAB
from towers.square_common import MEAN, STD, normalized  # noqa: F401

CLASS = "Lfm2VlForConditionalGeneration"
SEED = 131
IMAGE_TOKEN = 91
IMAGES = [(1, 24, 8), (3, 16, 16), (1, 8, 48)]
CONFIG = {
    "architectures": [CLASS], "model_type": "lfm2_vl", "image_token_id": IMAGE_TOKEN, "projector_hidden_size": 56, "downsample_factor": 2,
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "lfm2", "hidden_size": 32, "intermediate_size": 48, "block_auto_adjust_ff_dim": False, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "conv_L_cache": 3, "layer_types": ["conv", "full_attention", "conv"],
        "vocab_size": VOCAB, "max_position_embeddings": 512, "norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    },
    "vision_config": {
        "model_type": "siglip2_vision_model", "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2,
        "patch_size": 4, "num_patches": 25, "vision_use_head": False,
    },
}


def inputs(family, images):
    import torch
    from transformers.models.lfm2_vl.image_processing_lfm2_vl import convert_image_to_patches, pad_along_first_dim
    side, rows, masks, shapes = family.CONFIG["vision_config"]["patch_size"], [], [], []
    most = max(tile[1] // side * (tile[2] // side) for tile in family.IMAGES)
    for image in images:
        patches, mask = pad_along_first_dim(convert_image_to_patches(normalized(family, [image]), side), most)
        rows.append(patches)
        masks += [mask] * len(image)
        shapes += [[image.shape[1] // side, image.shape[2] // side]] * len(image)
    return {"pixel_values": torch.cat(rows), "pixel_attention_mask": torch.stack(masks), "spatial_shapes": torch.tensor(shapes)}


def features(family, model, given):
    import torch
    return torch.cat(list(model.model.get_image_features(**given).pooler_output))


def count(family, image):
    side = family.CONFIG["vision_config"]["patch_size"] * family.CONFIG["downsample_factor"]
    tiles, width, height = image
    return tiles * (width // side) * (height // side)
