"""What the Qwen-VL families' reference needs alike: their image processor, and positions in three dimensions."""
import numpy as np
import torch
from transformers import Qwen2VLImageProcessor

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def inputs(config, pictures, mean=MEAN, std=STD):
    vision = config["vision_config"]
    processor = Qwen2VLImageProcessor(
        do_resize=False, do_convert_rgb=False, patch_size=vision["patch_size"], image_mean=list(mean), image_std=list(std),
        temporal_patch_size=vision["temporal_patch_size"], merge_size=vision["spatial_merge_size"])
    made = processor([np.ascontiguousarray(picture[0]) for picture in pictures], return_tensors="pt",
                     input_data_format="channels_last")
    return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}


def types(config, ids):
    return torch.tensor([[int(token == config["image_token_id"]) for token in ids]])


def count(config, picture):
    vision = config["vision_config"]
    side = vision["patch_size"] * vision["spatial_merge_size"]
    _, width, height = picture
    return (width // side) * (height // side)


def positions(config, model, ids, given):
    found, _ = model.model.get_rope_index(torch.tensor([ids]), types(config, ids), image_grid_thw=given["image_grid_thw"])
    return found[:, 0]


def pooled(model, given):
    out = model.model.get_image_features(given["pixel_values"], given["image_grid_thw"])
    out = getattr(out, "pooler_output", out)
    return torch.cat(list(out)) if isinstance(out, (list, tuple)) else out
