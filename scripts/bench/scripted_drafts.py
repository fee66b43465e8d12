"""Drafted beside plain decoding of random checkpoints in the shapes of published models, with drafts that are right as often as asked.

Called by scripts/bench/speculation --scripted. Each row of a table is a number of streams; build/draft_bench explains the columns. The shares of right
drafts, of those whose predecessors are right, are 0.8, 0.65 / 0.8 and 0.5 / 0.65 for layers that predict a further token (that is 0.8, 0.65, 0.5 of all), and
0.85 at each place for a DFlash drafter with blocks of 8 tokens. Needs build/draft_bench and, for the sizes of a device, 16 GB, then 21 GB
of disk.
"""

import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from random_shapes import PRESETS  # noqa: E402

LAYER_SHARES, BLOCK_SHARES = "0.8,0.8125,0.7692", "0.85"
TILE_BYTES, BLOCK = 1 << 24, 8
ONE = b"\x80\x3f"
DRAFTERS = {"": dict(heads=32, kv_heads=8, head_dim=128, layers=5, targets=[1, 16, 31, 46, 61]),
            "-tiny": dict(heads=4, kv_heads=2, head_dim=16, layers=2, targets=[0, 1, 2])}


def drafter_shapes(hidden, wide, shape):
    """Names and sizes of a DFlash drafter's tensors."""
    queries, keys = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    found = {"fc.weight": (hidden, len(shape["targets"]) * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,)}
    for layer in range(shape["layers"]):
        own = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden),
               "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
               "self_attn.q_norm": (shape["head_dim"],), "self_attn.k_norm": (shape["head_dim"],), "mlp.gate_proj": (wide, hidden),
               "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide)}
        found |= {f"layers.{layer}.{name}.weight": size for name, size in own.items()}
    return found


def write_drafter(folder, preset):
    """BF16 weights of 0.008 to 0.03 with random signs; norms of 1."""
    model = PRESETS[preset]
    shape = DRAFTERS["-tiny" if preset.endswith("-tiny") else ""]
    hidden, wide = model.shape.hidden, model.shape.feed_forward
    config = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": hidden,
              "intermediate_size": wide, "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
              "num_key_value_heads": shape["kv_heads"], "head_dim": shape["head_dim"], "rms_norm_eps": 1e-6, "vocab_size": model.vocab,
              "max_position_embeddings": model.context, "rope_theta": 1e7, "attention_bias": False, "tie_word_embeddings": False,
              "block_size": BLOCK, "num_target_layers": model.shape.layers,
              "dflash_config": {"mask_token_id": model.vocab - 1, "target_layer_ids": shape["targets"]}}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    source = random.Random(1)
    tile = bytearray(source.randbytes(TILE_BYTES))
    tile[1::2] = tile[1::2].translate(bytes(0x3C | byte & 0x80 for byte in range(256)))
    header, at = {}, 0
    shapes = drafter_shapes(hidden, wide, shape)
    for name, size in shapes.items():
        count = 2 * math.prod(size)
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for size in shapes.values():
            left = 2 * math.prod(size)
            if len(size) == 1:
                file.write(ONE * size[0])
                continue
            while left > 0:
                begin = 2 * source.randrange(TILE_BYTES // 4)
                count = min(left, TILE_BYTES - begin)
                file.write(memoryview(tile)[begin:begin + count])
                left -= count


def bench(model, arguments, cache, *words):
    command = [ROOT / "build/draft_bench", "--model", model, "--device", arguments.device, "--tokens", str(arguments.tokens),
               "--threads", str(arguments.threads), "--pipeline-cache", cache, *words]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(done.stdout, f"({time.monotonic() - began:.0f} s)", flush=True)
    return done.returncode


def measure(preset, folder, arguments):
    """Exit code of the first run that failed, or 0."""
    model, cache, began = folder / "model.gguf", str(folder / "pipelines"), time.monotonic()
    (folder / "pipelines").mkdir()
    subprocess.run([ROOT / "scripts/make_random_gguf", model, "--preset", preset, "--like", "none"], check=True, stdout=subprocess.DEVNULL)
    print(f"{preset}: {os.path.getsize(model) / 1e9:.1f} GB, written in {time.monotonic() - began:.0f} s", flush=True)
    print(f"layer that predicts a further token, shares {LAYER_SHARES}:", flush=True)
    result = bench(model, arguments, cache, "--shares", LAYER_SHARES, "--streams", "1,8,64")
    if result == 0 and "27b" in preset:
        write_drafter(folder / "drafter", preset)
        print(f"DFlash, blocks of {BLOCK}, shares {BLOCK_SHARES}:", flush=True)
        result = bench(model, arguments, cache, "--drafter", folder / "drafter", "--shares", BLOCK_SHARES, "--streams", "1,8")
    return result


def main(arguments):
    for name in ("27b", "35b-a3b"):
        preset = f"qwen3.5-{name}" + ("-tiny" if arguments.tiny else "")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="drafts-", dir=arguments.folder))
        try:
            result = measure(preset, folder, arguments)
        finally:
            shutil.rmtree(folder)
        if result != 0:
            return result
    return 0
