#!/usr/bin/env python3
"""Makes tiny vision checkpoints of families that transformers does not have: features of mlx-vlm, logits of transformers' text with them.

usage: mlx_scenes.py DIRECTORY [FAMILY ...]

The files are those of tower_folders.py, greedy.txt too, for each family of towers/*_mlx.py or those named. The tower, the projection and the order of rows are
mlx-vlm's, computed in F32 on the CPU; the text is the class of transformers for language_config, whose rope mlx-vlm turns in other pairs, or mlx-vlm's
if transformers has none (MLX_TEXT). Weights are
random, in BF16, multiples of a power of two with seven bits, under the publisher's names. Needs mlx, mlx-vlm, torch, transformers and numpy.
"""
import importlib
import json
import pathlib
import sys
from types import SimpleNamespace

import mlx.core as mx
import mlx.nn as nn
import mlx_vlm
import numpy as np
import torch
import transformers
from mlx.utils import tree_flatten, tree_unflatten
from mlx_vlm.models import deepseek_vl_v2

from checkpoint_folders import bf16, write_safetensors
from tower_folders import GREEDY, PROMPTS, TEXT, prompt_ids


def drawn(name, shape, source):
    if len(shape) == 1:
        centre = 0 if name.endswith("bias") or "image_newline" in name or "view_sep" in name else 1
        return (centre + source.integers(-32, 33, shape) / 128).astype(np.float32)
    return (source.integers(-127, 128, shape) / 512).astype(np.float32)


def as_published(model):
    """mlx-vlm approximates gelu in the tower's layers and has another epsilon in its last norm than the publisher's siglip_vit.py."""
    tower = model.vision.vision_tower
    tower.norm.eps = 1e-6
    for block in tower.blocks:
        block.mlp.activation_fn = nn.GELU()
    return model


def tower_names(values):
    published = {}
    for name, array in values.items():
        name = name.replace("vision.vision_tower.", "vision.").replace("view_separator", "view_seperator")
        published[name] = array.transpose(0, 3, 1, 2) if "patch_embed" in name and array.ndim == 4 else array
    return {name: array for name, array in published.items() if "attn_pool" not in name or name.endswith("latent")}


def made(family):
    """(source of random numbers at the images, mlx-vlm's model, transformers' text, {published name: array})"""
    source = np.random.default_rng(family.SEED)
    vision = family.CONFIG["vision_config"]
    whole = family.CONFIG | {"vision_config": vision | {"intermediate_size": int(vision["width"] * vision["mlp_ratio"])}}
    model = as_published(deepseek_vl_v2.Model(deepseek_vl_v2.ModelConfig.from_dict(json.loads(json.dumps(whole)))))
    parts = {name: array for name, array in tree_flatten(model.parameters()) if not name.startswith("language_model.")}
    values = {name: drawn(name, array.shape, source) for name, array in sorted(parts.items())}
    model.update(tree_unflatten([(name, mx.array(array)) for name, array in values.items()]))
    if hasattr(family, "MLX_TEXT"):
        return source, model, MlxText(model.language_model), tower_names(values) | published_text(model.language_model, source)
    config = transformers.AutoConfig.for_model(**getattr(family, "ORACLE", family.TEXT))
    text = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    published = tower_names(values)
    for name, weight in text.named_parameters():
        weight.data = torch.tensor(drawn(name, tuple(weight.shape), source))
        if ".experts." not in name:
            published["language." + name] = weight.data.numpy()
            continue
        at, stack = name.split(".experts.")  # transformers has them in stacks, gate before up
        for i, matrix in enumerate(weight.data.numpy()):
            pieces = dict(zip(("gate", "up"), np.split(matrix, 2))) if stack == "gate_up_proj" else {"down": matrix}
            published |= {f"language.{at}.experts.{i}.{part}_proj.weight": piece for part, piece in pieces.items()}
    for name, buffer in text.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(torch.tensor(source.integers(-32, 33, tuple(buffer.shape)) / 128))
            published["language." + name] = buffer.numpy()
    return source, model, text, published


def features_of(family, model, pixels, grid):
    """[rows, columns] of an image, in the order of its placeholders."""
    lines, columns = grid
    unit = (pixels.astype(np.float32) / 255 - np.float32(0.5)) / np.float32(0.5)
    side = family.CONFIG["vision_config"]["image_size"]
    whole = np.zeros((len(unit), side, side, 3), np.float32)  # what is left over after the last patch is not read
    whole[:, :unit.shape[1], :unit.shape[2]] = unit
    hidden, *_ = model.vision(mx.array(whole), output_hidden_states=True)
    found = model.projector(hidden)
    across = int(found.shape[1] ** 0.5)
    rows = across * (across + 1) + 1 + lines * across * (columns * across + 1)
    embeds = mx.zeros((1, rows, found.shape[2]))
    placed = model.process_image_features(embeds, found, mx.array([[[columns, lines]]]), np.ones((1, rows), bool), across, across, found.shape[2])
    return np.array(placed[0])


class MlxText:
    """mlx-vlm's text, called as transformers' is."""

    def __init__(self, model):
        self.model = model

    def get_input_embeddings(self):
        return lambda ids: torch.tensor(np.array(self.model.model.embed_tokens(mx.array(ids.numpy()))))

    def __call__(self, inputs_embeds, use_cache):
        ids = mx.zeros(inputs_embeds.shape[:2], mx.int32)
        return SimpleNamespace(logits=torch.tensor(np.array(self.model(ids, inputs_embeds=mx.array(inputs_embeds.numpy())).logits)))


def published_text(text, source):
    """Draws mlx-vlm's text; its tensors, experts one by one."""
    found = {}
    values = {name: drawn(name, array.shape, source) for name, array in sorted(tree_flatten(text.parameters()))}
    text.update(tree_unflatten([(name, mx.array(array)) for name, array in values.items()]))
    for name, array in values.items():
        if ".switch_mlp." not in name:
            found["language." + name] = array
            continue
        at, part = name.split(".switch_mlp.")
        found |= {f"language.{at}.experts.{i}.{part}": matrix for i, matrix in enumerate(array)}
    return found


def logits_of(family, text, ids, features):
    embeds = text.get_input_embeddings()(torch.tensor([ids]))
    embeds[0, [i for i, token in enumerate(ids) if token == family.IMAGE_TOKEN]] = torch.tensor(features)
    return text(inputs_embeds=embeds, use_cache=False).logits[0]


def record(family, folder):
    source, model, text, published = made(family)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {name: ("BF16", array.shape, bf16(array)) for name, array in published.items()})
    images = [source.integers(0, 256, (tiles, height, width, 3)).astype(np.uint8) for tiles, width, height in family.IMAGES]
    features = [features_of(family, model, pixels, grid) for pixels, grid in zip(images, family.GRIDS)]
    family.count = lambda family, image: len(features[family.IMAGES.index(image)])
    lines, all_logits, following = ["normal " + " ".join(f"{value:.9g}" for value in (*family.MEAN, *family.STD))], [], []
    for (tiles, width, height), grid, rows in zip(family.IMAGES, family.GRIDS, features):
        projector, vision = family.CONFIG["projector_config"], family.CONFIG["vision_config"]
        across = -(-(vision["image_size"] // vision["patch_size"]) // projector["downsample_ratio"])
        lines += [f"image {tiles} {width} {height} {len(rows)}",
                  f"mosaic {grid[0]} {grid[1]} " + " ".join(str(across * side) for side in grid + grid)]
    with torch.no_grad():
        for numbers in PROMPTS:
            ids, where = prompt_ids(family, numbers, source)
            own = np.concatenate([features[number] for number in numbers])
            logits = logits_of(family, text, ids, own)
            lines.append(f"prompt {len(ids)}")
            lines += [f"{token} {row} {i} {i} {i}" for i, (token, row) in enumerate(zip(ids, where))]
            all_logits.append(logits.numpy())
            following.append(f"greedy {GREEDY}")
            for _ in range(GREEDY):
                best = logits_of(family, text, ids, own)[-1, TEXT[0]:TEXT[1]].topk(2)
                following.append(f"{TEXT[0] + best.indices[0].item()} {len(ids)} {len(ids)} {len(ids)} {(best.values[0] - best.values[1]).item():.6f}")
                ids.append(TEXT[0] + best.indices[0].item())
    (folder / "scene.txt").write_text("\n".join(lines) + "\n")
    (folder / "greedy.txt").write_text("\n".join(following) + "\n")
    (folder / "pixels.u8").write_bytes(b"".join(image.tobytes() for image in images))
    (folder / "features.f32").write_bytes(np.concatenate(features).astype("<f4").tobytes())
    (folder / "logits.f32").write_bytes(np.concatenate(all_logits).astype("<f4").tobytes())
    print(folder.name, np.concatenate(features).std(), np.concatenate(all_logits).std(), mlx_vlm.__version__, mx.__version__, transformers.__version__)


def main():
    torch.set_num_threads(1)
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    known = sorted(path.stem.removesuffix("_mlx") for path in (pathlib.Path(__file__).parent / "towers").glob("*_mlx.py"))
    for name in sys.argv[2:] or known:
        record(importlib.import_module(f"towers.{name}_mlx"), pathlib.Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
