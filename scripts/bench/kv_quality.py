#!/usr/bin/env python3
"""Perplexity under quantized KV caches: this engine's beside that of a plain numpy codec in Hugging Face's model.

usage: kv_quality.py ENGINE MODEL.gguf RECORDED.txt   (prints one line a setting)
       kv_quality.py --reference MODEL.gguf RECORDED.txt

ENGINE is build/step_bench, RECORDED.txt a file of tests/golden/llama_cpp, whose sequence `text` is scored. With --reference the same figures come from
transformers and torch (which the first form does not need): keys after rotary embedding, and values, of the layers that
are quantized go through scripts/golden/kv_codec.py and back, everything else is F32.
"""
import pathlib
import re
import subprocess
import sys

SETTINGS = [None, ("uniform", 8), ("uniform", 4), ("turboquant", 4), ("turboquant", 3.5), ("turboquant", 3)]


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
    import numpy as np

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


def reference_figures(model_path, ids):
    import numpy as np
    import torch
    from transformers import AttentionInterface, AutoModelForCausalLM
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
    from kv_codec import sides_of

    path = pathlib.Path(model_path)
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32).eval()
    config = model.config
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    quantized = {i for i, kind in enumerate(kinds) if kind == "full_attention" and i != len(kinds) - 1}
    sides = {}

    def attention(module, query, key, value, mask, **more):
        if sides and module.layer_idx in quantized:
            key = torch.from_numpy(there_and_back(sides["key"], key.numpy())).float()
            value = torch.from_numpy(there_and_back(sides["value"], value.numpy())).float()
        return sdpa_attention_forward(module, query, key, value, mask, **more)

    AttentionInterface.register("quantized_cache", attention)
    model.set_attn_implementation("quantized_cache")
    tokens = torch.tensor([ids])
    for setting in SETTINGS:
        sides.clear()
        if setting:
            scheme, bits = setting
            dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            pair = (bits // 1, bits // 1 + 1) if bits % 1 else (bits, bits)
            sides["key"], sides["value"] = sides_of(scheme, dim, *(int(b) for b in pair), 64)
        count = len(ids)
        causal = torch.full((count, count), -torch.inf).triu(1)[None, None]
        with torch.no_grad():
            logits = model(tokens, attention_mask={"full_attention": causal, "sliding_attention": sliding(causal, config)}
                           if "sliding_attention" in kinds else causal, use_cache=False).logits[0]
        told = torch.log_softmax(logits[:-1].double(), -1)[torch.arange(count - 1), tokens[0, 1:]]
        yield setting, float(np.exp(-told.mean().item()))


def sliding(causal, config):
    import torch

    count = causal.shape[-1]
    far = torch.arange(count)[:, None] - torch.arange(count)[None] >= config.sliding_window
    return causal.masked_fill(far[None, None], -torch.inf)


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
    arguments = sys.argv[1:]
    reference = arguments[0] == "--reference"
    ids = text_ids(arguments[2])
    figures = reference_figures(arguments[1], [int(i) for i in ids]) if reference \
        else engine_figures(arguments[0], arguments[1], ",".join(ids))
    full = None
    for setting, perplexity in figures:
        full = full or perplexity
        print(f"{name(setting):16} {perplexity:9.4f} {100 * (perplexity / full - 1):+7.2f} %", flush=True)


if __name__ == "__main__":
    main()
