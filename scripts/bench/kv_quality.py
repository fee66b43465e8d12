#!/usr/bin/env python3
"""Perplexity under quantized KV caches: this engine's beside that of the same algorithm in plain numpy.

usage: kv_quality.py ENGINE MODEL.gguf RECORDED.txt [TRIALS]

ENGINE is build/step_bench. MODEL is a llama or gemma3 file whose tensors are all F32 (made by scripts/golden/dequantize_gguf.py).
RECORDED.txt is a file of tests/golden/llama_cpp; its sequence `text` is scored. numpy computes the whole model in F32; in the quantized
layers, keys after rotary embedding and values are encoded and decoded by the functions of scripts/golden/kv_codec.py. So both columns have
the same weights and text and share no other code.

If a number lies between two codes, rounding of the last bit decides which one it gets, and deeper layers amplify the difference. With
TRIALS (1) above 1 the numpy column is the mean of that many computations, all but the first with embeddings changed by a millionth, and
the last column is their range. Needs numpy and gguf (build/venv has them).
"""
import math
import pathlib
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from kv_codec import sides_of  # noqa: E402

SETTINGS = [None, ("uniform", 8), ("uniform", 4), ("turboquant", 4), ("turboquant", 3.5), ("turboquant", 3)]

SCORED_ROWS = 64


def name(setting):
    return "full" if setting is None else f"{setting[0]} {setting[1]}"


def engine_figures(engine, model, ids):
    for setting in SETTINGS:
        command = [engine, "--model", model, "--kv-cache-type", "f32", "--perplexity", "--batches", "1", "--tokens", ids]
        if setting:
            command += ["--kv-quant-scheme", setting[0], "--kv-bits", str(setting[1])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        yield setting, float(re.search(r"perplexity ([0-9.]+)", done.stdout)[1])


def there_and_back(side, rows):
    """rows [..., dim] as they are read back, with each row's codes found by numpy."""
    flat = rows.reshape(-1, side.dim).astype(np.float64)
    out = np.empty_like(flat)
    if side.scheme == "turboquant":
        norms = np.sqrt((flat * flat).sum(1))
        turned = flat / np.maximum(norms, 1e-6)[:, None] @ side.rotation.T
        for first, count, bits in side.segments:
            levels = side.levels[bits]
            part = turned[:, first:first + count]
            out[:, first:first + count] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, part)]
        out = out @ side.rotation * np.float16(norms).astype(float)[:, None]
        return out.reshape(rows.shape)
    for first, count, bits in side.segments:
        part, most = flat[:, first:first + count], 2**bits - 1
        bias = np.float16(part.min(1)).astype(float)[:, None]
        scale = np.float16((part.max(1) - part.min(1)) / most).astype(float)[:, None]
        codes = np.clip(np.rint((part - bias) / np.where(scale > 0, scale, 1)), 0, most)
        out[:, first:first + count] = codes * scale + bias
    return out.reshape(rows.shape)


# --- two model families in plain numpy

def read_gguf(path):
    """Metadata, and the tensors of a file of F32."""
    import gguf

    reader = gguf.GGUFReader(str(path))
    return {name: field.contents() for name, field in reader.fields.items()}, {t.name: np.asarray(t.data, np.float32) for t in reader.tensors}


def rms_norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def rotate(x, base, neighbours):
    """x [heads, positions, dim]; pairs are neighbours (GGUF's llama) or halves (gemma)."""
    count, dim = x.shape[1:]
    angles = np.arange(count)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
    c, s = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else (x[..., :dim // 2], x[..., dim // 2:])
    turned = a * c - b * s, a * s + b * c
    return np.stack(turned, -1).reshape(x.shape) if neighbours else np.concatenate(turned, -1)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


class Reference:
    """A llama or gemma3 checkpoint, computed in F32, row by row of a whole text at once."""

    def __init__(self, path):
        self.meta, self.tensors = read_gguf(path)
        self.name = self.meta["general.architecture"]
        if self.name not in ("llama", "gemma3"):
            sys.exit(f"{path}: {self.name} is neither llama nor gemma3")
        self.gemma = self.name == "gemma3"
        self.layers = self.key("block_count")
        self.heads, self.kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        self.dim = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")
        self.base = self.key("rope.freq_base", 10000.0)

    def key(self, name, absent=None):
        return self.meta.get(f"{self.name}.{name}", absent)

    def slides(self, layer):
        return self.gemma and (layer + 1) % 6 != 0

    def weight(self, layer, name):
        return self.tensors[f"blk.{layer}.{name}.weight"]

    def heads_of(self, x, layer, name, count):
        y = (x @ self.weight(layer, f"attn_{name}").T).reshape(len(x), count, self.dim).transpose(1, 0, 2)
        if name == "v":
            return y
        if self.gemma:
            y = rms_norm(y, self.weight(layer, f"attn_{name}_norm"), self.epsilon)
        return rotate(y, 10000.0 if self.slides(layer) else self.base, not self.gemma)

    def attend(self, x, layer, sides):
        queries, keys, values = (self.heads_of(x, layer, name, count)
                                 for name, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
        if sides and not self.slides(layer) and layer != self.layers - 1:
            keys = there_and_back(sides[0], keys).astype(np.float32)
            values = there_and_back(sides[1], values).astype(np.float32)
        at = np.arange(len(x))
        hidden = at[None] > at[:, None]
        if self.slides(layer):
            hidden |= at[:, None] - at[None] >= self.key("attention.sliding_window")
        shared, out = self.heads // self.kv_heads, []
        for head in range(self.heads):
            scores = queries[head] @ keys[head // shared].T / np.sqrt(self.dim, dtype=np.float32)
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out.append(weights @ values[head // shared] / weights.sum(-1, keepdims=True))
        return np.concatenate(out, -1) @ self.weight(layer, "attn_output").T

    def mix(self, x, layer):
        gate = x @ self.weight(layer, "ffn_gate").T
        return ((gelu_tanh if self.gemma else silu)(gate) * (x @ self.weight(layer, "ffn_up").T)) @ self.weight(layer, "ffn_down").T

    def after(self, y, layer, name):
        return rms_norm(y, self.weight(layer, name), self.epsilon) if self.gemma else y

    def perplexity(self, ids, sides, trial):
        embedding = self.tensors["token_embd.weight"]
        x = embedding[ids[:-1]] * np.float32(math.sqrt(embedding.shape[1]) if self.gemma else 1)
        if trial > 0:
            x = (x * (1 + 1e-6 * np.random.default_rng(trial).standard_normal(x.shape))).astype(np.float32)
        for layer in range(self.layers):
            normed = rms_norm(x, self.weight(layer, "attn_norm"), self.epsilon)
            x = x + self.after(self.attend(normed, layer, sides), layer, "post_attention_norm")
            normed = rms_norm(x, self.weight(layer, "ffn_norm"), self.epsilon)
            x = x + self.after(self.mix(normed, layer), layer, "post_ffw_norm")
        x = rms_norm(x, self.tensors["output_norm.weight"], self.epsilon)
        head, told = self.tensors.get("output.weight", embedding), 0.0
        for at in range(0, len(x), SCORED_ROWS):  # of a large vocabulary all at once would be gigabytes
            rows = x[at:at + SCORED_ROWS]
            logits = (rows @ head.T).astype(np.float64)
            top = logits.max(-1)
            told += (logits[np.arange(len(rows)), ids[at + 1:at + 1 + len(rows)]] - top).sum()
            told -= np.log(np.exp(logits - top[:, None]).sum(-1)).sum()
        return float(np.exp(-told / len(x)))


def reference_figures(model, ids, trials):
    reference = Reference(model)
    for setting in SETTINGS:
        sides = None
        if setting:
            scheme, bits = setting
            pair = (bits // 1, bits // 1 + 1) if bits % 1 else (bits, bits)
            sides = sides_of(scheme, reference.dim, *(int(b) for b in pair), 64)
        yield [reference.perplexity(ids, sides, trial) for trial in range(trials)]


def text_ids(path):
    """Of the recorded text, as words."""
    ids, inside = [], False
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == "sequence":
            inside = words[1] == "text"
        elif inside:
            ids += words[1:] if words[0] == "prompt" else words[1:2]
    return ids


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    engine, model, recorded = sys.argv[1:4]
    trials = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    ids = text_ids(recorded)
    full = None
    print(f"{'':16} {'engine':>9} {'to full':>9} {'numpy':>9} {'engine to numpy':>16} {'numpy spread':>13}")
    references = reference_figures(model, np.array([int(i) for i in ids]), trials)
    for (setting, perplexity), found in zip(engine_figures(engine, model, ",".join(ids)), references):
        full, expected = full or perplexity, sum(found) / len(found)
        print(f"{name(setting):16} {perplexity:9.4f} {100 * (perplexity / full - 1):+7.2f} % {expected:9.4f} "
              f"{100 * (perplexity / expected - 1):+14.3f} % {100 * (max(found) - min(found)) / expected:11.3f} %", flush=True)


if __name__ == "__main__":
    main()
