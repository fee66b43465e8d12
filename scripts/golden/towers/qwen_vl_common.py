"""Shared by the Qwen-VL families: the image processor, and positions in three dimensions."""
import numpy as np
import torch
from transformers import Qwen2VLImageProcessor

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
TOKENS = {"image_token_id": 91, "video_token_id": 92, "vision_start_token_id": 89, "vision_end_token_id": 90}


def inputs(family, images):
    vision = family.CONFIG["vision_config"]
    processor = Qwen2VLImageProcessor(
        do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(family.MEAN),
        image_std=list(family.STD), temporal_patch_size=vision["temporal_patch_size"], merge_size=vision["spatial_merge_size"])
    made = processor([np.ascontiguousarray(image[0]) for image in images], return_tensors="pt",
                     input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def extra(family, ids):
    return {"mm_token_type_ids": torch.tensor([[int(token == family.IMAGE_TOKEN) for token in ids]])}


def count(family, image):
    vision = family.CONFIG["vision_config"]
    side = vision["patch_size"] * vision["spatial_merge_size"]
    _, width, height = image
    return (width // side) * (height // side)


def positions(family, model, ids, given):
    found, _ = model.model.get_rope_index(torch.tensor([ids]), **extra(family, ids), image_grid_thw=given["image_grid_thw"])
    return found[:, 0]


def features(family, model, given):
    """Deepstack parts, if the tower has some, follow the first part."""
    out = model.model.get_image_features(given["pixel_values"], given["image_grid_thw"])
    parts = [getattr(out, "pooler_output", out), *(getattr(out, "deepstack_features", None) or [])]
    return torch.cat([torch.cat(list(part)) if isinstance(part, (list, tuple)) else part for part in parts], dim=1)
