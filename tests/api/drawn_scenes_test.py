"""Vision models whose shape is drawn when the test runs: features of an image and logits of a prompt with it are those of the formulas in
plain numpy (plain_scenes.py, plain_causal.py). drawn_towers_test.py does the same through a server for other families. A failure names the
seed, which SHOAL_DRAWN_SEED repeats."""

import json
import os
import random
import subprocess

import numpy as np

import drawn_scenes
import plain_causal
import plain_gemma
import plain_recurrent
import plain_scenes
from drawn_scenes import BEGIN, END, IMAGE, KINDS, VOCAB
from shoal_server import BUILD

from checkpoint_variants import write_safetensors
from families import random_weights

PLAIN = plain_causal.FAMILIES | plain_gemma.FAMILIES | plain_recurrent.FAMILIES


def places_of(ids, columns, lines):
    """[rows, 3] by time, line and column."""
    found, at, inside = [], 0, 0
    for token in ids:
        if lines and token == IMAGE:
            found.append([at, at + inside // columns, at + inside % columns])
            inside += 1
            at += max(lines, columns) if inside == lines * columns else 0
        else:
            found.append([at] * 3)
            at += 1
    return np.array(found)


def text_tensors(kind, family, text, numbers):
    """Under their names in the whole."""
    drawn = random_weights(family, text, numbers)
    return {kind.head + ".weight" if name == "lm_head.weight" else kind.at + name.removeprefix("model."): array.astype(float)
            for name, array in drawn.items() if not name.endswith(kind.without)}


def write_scene(folder, name, seed):
    numbers, kind = np.random.default_rng(seed), KINDS[name]
    config, family, (height, width) = drawn_scenes.draw(name, random.Random(seed))
    text, normal = config["text_config"], plain_scenes.NORMAL.get(name, plain_scenes.HALF)
    weights = plain_scenes.Weights(numbers, text_tensors(kind, family, text, numbers))
    pixels = numbers.integers(0, 256, (height, width, 3), np.uint8)
    features = plain_scenes.TOWERS[name](weights, config, (pixels / 255 - normal[0]) / normal[1])
    ids = [*numbers.integers(3, 80, 5), BEGIN, *[IMAGE] * len(features), END, *numbers.integers(3, 80, 9)]
    rows = np.array(ids) == IMAGE
    unit = kind.merge(config) * config["vision_config"]["patch_size"] if kind.merge else 0
    places = places_of(ids, width // unit if unit else 0, height // unit if unit else 0)
    plain = PLAIN[kind.text](text, weights.t)
    plain.at, plain.head = kind.at, kind.head
    plain.scene = plain_causal.Scene(rows, features, places, np.where(rows, 0, -1) if kind.whole else None)
    logits = plain.logits(ids)
    assert logits.shape == (len(ids), VOCAB)

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", weights.t, "F32")
    (folder / "pixels.u8").write_bytes(pixels.tobytes())
    (folder / "features.f32").write_bytes(features.astype("<f4").tobytes())
    (folder / "logits.f32").write_bytes(logits.astype("<f4").tobytes())
    feature = np.where(rows, np.cumsum(rows) - 1, -1)
    lines = ["normal " + " ".join(f"{value:.9g}" for value in normal.ravel()), f"image 1 {width} {height} {len(features)}", f"prompt {len(ids)}"]
    lines += [f"{token} {row} {place[0]} {place[1]} {place[2]}" for token, row, place in zip(ids, feature, places)]
    (folder / "scene.txt").write_text("\n".join(lines) + "\n")


def test_towers_of_drawn_shapes(tmp_path):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    for name in KINDS:
        write_scene(tmp_path / name, name, seed)
    done = subprocess.run([BUILD / "tests/model/towers_test", tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"SHOAL_DRAWN_SEED={seed}: {done.stdout}{done.stderr}"
