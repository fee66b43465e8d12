#!/usr/bin/env python3
"""Makes the tiny vision checkpoints of tests/golden/towers and records the answers of Hugging Face transformers for images.

usage: tower_folders.py [--greedy] DIRECTORY [FAMILY ...]

For each family of towers/ (or those named) a folder with config.json and model.safetensors, its weights random, in BF16,
multiples of a power of two with seven bits, under the names that transformers saves. Computed in F32 on the CPU:

pixels.u8     the images, [tiles, height, width, 3] each, one after the other
features.f32  the tower's features, a row for each placeholder token; deepstack parts follow the first part
scene.txt     "normal" mean and deviation; for each image a line "image tiles width height features", and where its tiles form a mosaic
              "mosaic" with its six sizes (worker/plan/model_vision.h); for each prompt
              "prompt tokens", then a line for each token: its id, the feature row or -1, its three positions
logits.f32    of every token of every prompt
greedy.txt    for each prompt "greedy tokens", then a line for each of the tokens that follow the prompt by the largest logit of tokens that
              prompts have as text, calculated from the whole sequence for each: its id, its three positions, and by how much its logit
              exceeds the next one

With --greedy only greedy.txt is written, and the script checks that the folder's weights are those that it draws.

Prompts have one, two and three images, with text between them. The script checks transformers against itself: an image
encoded alone gives the same features to 1e-5. Needs torch, transformers and numpy.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

from checkpoint_folders import bf16, write_safetensors
from towers import VOCAB, all_families

PROMPTS = [[0], [1, 0], [0, 2, 1]]  # numbers of the images in each prompt
TEXT = (3, 80)                      # tokens of text
GREEDY = 24


def random_weights(family, model, source):
    """Sets the model's weights; returns {saved name: array}."""
    centre = getattr(family, "centre", lambda name: 0 if name.endswith("bias") else 1)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            values = centre(name) + source.integers(-32, 33, weight.shape) / 128
        else:
            values = source.integers(-127, 128, weight.shape) / 512
        weight.data = torch.tensor(values, dtype=torch.float32)
    if hasattr(family, "buffer"):
        for name, buffer in model.named_buffers():
            values = family.buffer(name, buffer.shape, source)
            if values is not None:
                buffer.copy_(torch.tensor(values, dtype=torch.float32))
    model.tie_weights()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        from safetensors.numpy import load_file
        return load_file(pathlib.Path(folder) / "model.safetensors")


def close(a, b):
    return ((a - b).abs().max() / b.abs().max()).item() <= 1e-5


def prompt_ids(family, numbers, source):
    """(ids, feature rows) of a prompt: text, then each image followed by text. `starts`: the first feature row of each image."""
    ids, rows, starts = source.integers(*TEXT, 4).tolist(), [-1] * 4, []
    for image in family.IMAGES:
        starts.append((starts[-1] + family.count(family, family.IMAGES[len(starts) - 1])) if starts else 0)
    for number in numbers:
        count = family.count(family, family.IMAGES[number])
        text = source.integers(*TEXT, 5).tolist()
        begin, end = ([token] for token in family.EDGES) if hasattr(family, "EDGES") else ([], [])
        ids += begin + [family.IMAGE_TOKEN] * count + end + text
        rows += [-1] * len(begin) + [starts[number] + i for i in range(count)] + [-1] * len(end + text)
    return ids, rows


def made(family):
    """(source of random numbers, at the prompts; model; weights as published; images)"""
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.CONFIG)
    model_class = family.model_class(family) if hasattr(family, "model_class") else getattr(transformers, family.CLASS)
    model = model_class._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    weights = random_weights(family, model, source)
    weights = family.stored(weights) if hasattr(family, "stored") else weights
    images = [source.integers(0, 256, (tiles, height, width, 3)).astype(np.uint8) for tiles, width, height in family.IMAGES]
    family.SOURCES = {id(image): size for image, size in zip(images, getattr(family, "SIZES", [None] * len(images)))}
    return source, model, weights, images


def logits_of(family, model, ids, given):
    extra = family.extra(family, ids) if hasattr(family, "extra") else {}
    logits = model(torch.tensor([ids]), **given, **extra).logits[0] * getattr(family, "LOGIT_SCALE", 1)
    assert logits.shape == (len(ids), VOCAB)
    return logits


def positions_of(family, model, ids, given):
    """[tokens, 3]"""
    if hasattr(family, "positions"):
        return family.positions(family, model, ids, given).T.tolist()
    return torch.arange(len(ids)).expand(3, -1).T.tolist()


def record_greedy(family, folder):
    source, model, weights, images = made(family)
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in stored.items()} == {name: array.shape for name, array in weights.items()}
    for name, array in weights.items():
        assert np.array_equal(stored[name].float().numpy(), np.asarray(array, np.float32)), name
    lines, margins = [], []
    with torch.no_grad():
        for numbers in PROMPTS:
            ids, _ = prompt_ids(family, numbers, source)
            given = family.inputs(family, [images[number] for number in numbers])
            first = len(ids)
            for _ in range(GREEDY):
                best = logits_of(family, model, ids, given)[-1, TEXT[0]:TEXT[1]].topk(2)
                margins.append((best.values[0] - best.values[1]).item())
                ids.append(TEXT[0] + best.indices[0].item())
            lines.append(f"greedy {GREEDY}")
            lines += [f"{token} {at[0]} {at[1]} {at[2]} {margin:.6f}" for token, at, margin in
                      zip(ids[first:], positions_of(family, model, ids, given)[first:], margins[-GREEDY:])]
    (folder / "greedy.txt").write_text("\n".join(lines) + "\n")
    print(folder.name, "greedy", min(margins), transformers.__version__, torch.__version__)


def record(family, folder):
    source, model, weights, images = made(family)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(getattr(family, "PUBLISHED", family.CONFIG), indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {name: ("BF16", w.shape, bf16(w)) for name, w in weights.items()})
    lines = ["normal " + " ".join(f"{value:.9g}" for value in (*family.MEAN, *family.STD))]
    all_logits = []
    with torch.no_grad():
        features = family.features(family, model, family.inputs(family, images))
        at = 0
        for image, pixels in zip(family.IMAGES, images):
            count = family.count(family, image)
            alone = family.features(family, model, family.inputs(family, [pixels]))
            assert alone.shape[0] == count and close(alone, features[at:at + count]), (alone.shape, count)
            lines.append(f"image {image[0]} {image[1]} {image[2]} {count}")
            if hasattr(family, "mosaic") and image[0] > 1:
                sizes = family.mosaic(family, image, family.SOURCES[id(pixels)])
                lines.append("mosaic " + " ".join(str(size) for size in sizes))
            at += count
        assert at == features.shape[0]
        for numbers in PROMPTS:
            ids, rows = prompt_ids(family, numbers, source)
            given = family.inputs(family, [images[number] for number in numbers])
            logits = logits_of(family, model, ids, given)
            where = positions_of(family, model, ids, given)
            lines.append(f"prompt {len(ids)}")
            lines += [f"{token} {row} {at[0]} {at[1]} {at[2]}" for token, row, at in zip(ids, rows, where)]
            all_logits.append(logits.float().numpy())
    (folder / "scene.txt").write_text("\n".join(lines) + "\n")
    (folder / "pixels.u8").write_bytes(b"".join(image.tobytes() for image in images))
    (folder / "features.f32").write_bytes(features.float().numpy().astype("<f4").tobytes())
    (folder / "logits.f32").write_bytes(np.concatenate(all_logits).astype("<f4").tobytes())
    print(folder.name, features.std().item(), np.concatenate(all_logits).std(), transformers.__version__, torch.__version__)


def main():
    torch.set_num_threads(1)
    words = sys.argv[1:]
    only_greedy = words[:1] == ["--greedy"]
    words = words[only_greedy:]
    if not words:
        sys.exit(__doc__)
    families = all_families()
    for name in words[1:] or families:
        folder = pathlib.Path(words[0]) / name
        if not only_greedy:
            record(families[name], folder)
        record_greedy(families[name], folder)


if __name__ == "__main__":
    main()
