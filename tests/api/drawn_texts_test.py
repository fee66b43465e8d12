"""Text models whose shape is drawn when the test runs, one of each family: a folder, and its GGUF, give the logits that the formulas in
plain numpy give (plain_causal.py). A failure names the seed, which SHOAL_DRAWN_SEED repeats."""

import json
import os
import random
import shutil
import subprocess

import numpy as np

import drawn_texts
import plain_causal
import plain_gemma
import plain_recurrent
from shoal_server import BUILD, ROOT

from checkpoint_variants import write_gguf, write_safetensors
from families import random_weights

POSITIONS = 24
TEXTS = ROOT / "tests/golden/checkpoints/qwen3"  # whose tokens a GGUF states
PLAIN = plain_causal.FAMILIES | plain_gemma.FAMILIES | plain_recurrent.FAMILIES


def write_case(folder, name, seed):
    """A folder, and beside it one that has the same as GGUF, each with the token ids and the logits of the reference."""
    numbers = np.random.default_rng(seed)
    family, config = drawn_texts.drawn_config(name, random.Random(seed))
    tensors = random_weights(family, config, numbers)
    ids = numbers.integers(0, config["vocab_size"], POSITIONS).tolist()
    logits = PLAIN[name](config, {tensor: array.astype(float) for tensor, array in tensors.items()}).logits(ids)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors, "F32")
    folders = [folder]
    if drawn_texts.stated_in_gguf(name, config):
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(TEXTS / file, folder)
        folders.append(folder.with_name(name + "_gguf"))
        folders[-1].mkdir()
        write_gguf(family, folder, folders[-1] / "model.gguf", tensors, "F32")
    for one in folders:
        (one / "ids.txt").write_text(" ".join(map(str, ids)))
        (one / "logits.f32").write_bytes(logits.astype("<f4").tobytes())


def test_every_family_in_a_drawn_shape(tmp_path):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    for name in PLAIN:
        write_case(tmp_path / name, name, seed)
    done = subprocess.run([BUILD / "tests/model/feature_folders_test", tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"SHOAL_DRAWN_SEED={seed}: {done.stdout}{done.stderr}"
