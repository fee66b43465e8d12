#!/usr/bin/env python3
"""Makes tiny Llama 3.2 Vision checkpoints in tests/golden/towers and records the answers of Hugging Face transformers for images.

usage: mllama_scenes.py DIRECTORY [NAME ...]

The files are those of tower_folders.py, but an image is its canvas, features.f32 has for each row of the tower's features, those of empty
squares included, the key and the value that it has in each layer that attends to features, and a prompt names an image by the first feature
row at its token. An image's line says with "seen" how many of its rows belong to squares with pixels. Prompts: text alone; text before and
after an image; an image first; two images with text between; two without, and a third. Needs torch, transformers and numpy.
"""
import json

import numpy as np
import torch
import transformers

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import GREEDY, TEXT, random_weights

CLASS = "MllamaForConditionalGeneration"
PROMPTS = ["ttttt", "ttt0ttttt", "1tttt", "tt1tt2ttt", "tt02ttt1tt"]
SPARE = 8


class Family:
    """PUBLISHED: tensors have the names of the published files, which transformers changes when it reads them."""

    def __init__(self, seed, canvases, published, text, vision):
        self.SEED = seed
        self.CANVASES = canvases  # [rows, columns] of squares
        self.PUBLISHED = published
        self.TILES = vision.get("max_num_tiles", 4)
        rope = {"rope_theta": 20000.0, "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32}
        self.CONFIG = {
            "architectures": [CLASS], "model_type": "mllama", "image_token_index": 88, "torch_dtype": "bfloat16",
            "text_config": {"model_type": "mllama_text_model", "vocab_size": 88, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
                            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": False,
                            "rope_theta": rope["rope_theta"], "rope_scaling": {k: v for k, v in rope.items() if k != "rope_theta"}, **text},
            "vision_config": {"model_type": "mllama_vision_model", "num_channels": 3, **vision},
        }
        self.STATED = {**self.CONFIG, "text_config": {**self.CONFIG["text_config"], "rope_parameters": rope}}

    def centre(self, name):
        """Norms have weights around 1; gates lie around 0.5, so that every part is seen."""
        return 0.5 if name.endswith(("gate", "gate_attn", "gate_ffn")) else 0 if name.endswith(("bias", "class_embedding")) else 1


FAMILIES = {
    "mllama": Family(
        331, [(1, 2), (2, 2), (1, 1)], False,
        {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
         "cross_attention_layers": [1, 2]},
        {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_global_layers": 2, "attention_heads": 2, "image_size": 12,
         "patch_size": 4, "max_num_tiles": 4, "intermediate_layers_indices": [0, 2], "vision_output_dim": 72, "norm_eps": 1e-5,
         "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}),
    "mllama_wide": Family(
        332, [(2, 1), (1, 1), (1, 2)], True,
        {"hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
         "cross_attention_layers": [0, 2]},
        {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_global_layers": 1, "attention_heads": 4, "image_size": 20,
         "patch_size": 5, "max_num_tiles": 2, "intermediate_layers_indices": [1], "vision_output_dim": 64, "norm_eps": 1e-6,
         "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]]}),
}


def squares(family, image):
    """An image's canvas [height, width, 3], in bytes, as [tiles, 3, side, side]: squares with pixels, then empty ones."""
    side = family.CONFIG["vision_config"]["image_size"]
    rows, columns = image.shape[0] // side, image.shape[1] // side
    cut = torch.tensor(image).float().reshape(rows, side, columns, side, 3).permute(0, 2, 4, 1, 3).reshape(rows * columns, 3, side, side)
    full = torch.zeros(family.TILES, 3, side, side)
    full[:rows * columns] = (cut / 255 - 0.5) / 0.5
    return full, (rows, columns)


def vision_inputs(family, images):
    """What the processor gives the model for the images of one prompt."""
    all_canvases = [(rows, columns) for rows in range(1, family.TILES + 1) for columns in range(1, family.TILES // rows + 1)]
    cut = [squares(family, image) for image in images]
    mask = torch.zeros(1, len(images), family.TILES, dtype=torch.long)
    for i, (_, (rows, columns)) in enumerate(cut):
        mask[0, i, :rows * columns] = 1
    return {"pixel_values": torch.stack([pixels for pixels, _ in cut])[None], "aspect_ratio_mask": mask,
            "aspect_ratio_ids": torch.tensor([[1 + all_canvases.index(canvas) for _, canvas in cut]])}


def prompt_inputs(family, ids, images, numbers):
    """The inputs of the model for a prompt and the tokens that follow it."""
    if not images:
        return {}
    from transformers.models.mllama.processing_mllama import convert_sparse_cross_attention_mask_to_dense, get_cross_attention_token_mask
    given = vision_inputs(family, [images[number] for number in numbers])
    token_mask = [get_cross_attention_token_mask(ids, family.CONFIG["image_token_index"])]
    tiles = [given["aspect_ratio_mask"][0].sum(-1).tolist()]
    mask = convert_sparse_cross_attention_mask_to_dense(token_mask, tiles, family.TILES, len(ids))
    return {**given, "cross_attention_mask": torch.tensor(mask)}


def features_of(family, model, image):
    """[rows of features, 2 * crossed layers * key columns] of one image."""
    rows = model.model.vision_model(**vision_inputs(family, [image])).last_hidden_state
    rows = model.model.multi_modal_projector(rows).reshape(-1, family.CONFIG["text_config"]["hidden_size"])
    found = []
    for layer in model.model.language_model.layers:
        if hasattr(layer, "cross_attn"):
            attention = layer.cross_attn
            keys = attention.k_norm(attention.k_proj(rows).reshape(len(rows), -1, attention.head_dim)).flatten(1)
            found += [keys, attention.v_proj(rows)]
    return torch.cat(found, -1)


def stored(family, weights):
    """Tensors by the names that the folder has."""
    if family.PUBLISHED:
        assert all(name.startswith(("language_model.", "vision_model.", "multi_modal_projector.")) for name in weights), sorted(weights)[:3]
        return weights
    renamed = {}
    for name, weight in weights.items():
        renamed[name.removeprefix("language_model.") if name.startswith("language_model.lm_head") else
                name.replace("language_model.model.", "model.language_model.", 1) if name.startswith("language_model.") else
                "model." + name] = weight
    return renamed


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.STATED)
    model = getattr(transformers, CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    weights = stored(family, random_weights(family, model, source))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    vision, text = family.CONFIG["vision_config"], family.CONFIG["text_config"]
    side, image_token = vision["image_size"], family.CONFIG["image_token_index"]
    tile_rows = (side // vision["patch_size"]) ** 2 + 1
    rows = tile_rows * family.TILES
    images = [source.integers(0, 256, (side * high, side * wide, 3)).astype(np.uint8) for high, wide in family.CANVASES]
    lines, following = ["normal 0.5 0.5 0.5 0.5 0.5 0.5"], []
    lines += [f"image 1 {side * wide} {side * high} {rows} seen {tile_rows * high * wide}" for high, wide in family.CANVASES]
    all_logits, margins = [], []
    with torch.no_grad():
        features = torch.cat([features_of(family, model, image) for image in images])
        for prompt in PROMPTS:
            numbers = [int(letter) for letter in prompt if letter != "t"]
            ids = [int(source.integers(*TEXT)) if letter == "t" else image_token for letter in prompt]
            logits = model(torch.tensor([ids]), **prompt_inputs(family, ids, images if numbers else [], numbers)).logits[0]
            # The tokens that are embedded alone have no logits; none is above the least of the others.
            all_logits.append(torch.cat([logits, torch.full((len(ids), SPARE), -1e30)], -1).numpy())
            lines.append(f"prompt {len(ids)}")
            places = iter(numbers)
            lines += [f"{token} {next(places) * rows if token == image_token else -1} {at} {at} {at}" for at, token in enumerate(ids)]
            following.append(f"greedy {GREEDY}")
            for _ in range(GREEDY):
                logits = model(torch.tensor([ids]), **prompt_inputs(family, ids, images if numbers else [], numbers)).logits[0]
                best = logits[-1, TEXT[0]:TEXT[1]].topk(2)
                margins.append((best.values[0] - best.values[1]).item())
                at = len(ids)
                ids.append(TEXT[0] + best.indices[0].item())
                following.append(f"{ids[-1]} {at} {at} {at} {margins[-1]:.6f}")
    (folder / "greedy.txt").write_text("\n".join(following) + "\n")
    scene_files.write(folder, name, lines, b"".join(image.tobytes() for image in images), features, all_logits)
    print(name, "smallest margin", min(margins), "text", text["hidden_size"])


if __name__ == "__main__":
    scene_files.main(__doc__, FAMILIES, record)
