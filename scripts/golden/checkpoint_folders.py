#!/usr/bin/env python3
"""Makes the tiny Hugging Face checkpoints of tests/golden/checkpoints and records Hugging Face transformers' answers.

usage: checkpoint_folders.py DIRECTORY [FAMILY ...]

Writes for each family of families/ (or those named) a folder with everything that a published checkpoint has. Weights are
random, in BF16, multiples of a power of two with seven bits, so that F32, F16 and BF16 hold the same numbers. logits.f32
are the logits (F32, little-endian) of every position of the sequence ids.txt, computed in F32 on the CPU by transformers
or by the family's own reference(). layers.txt helps to find a wrong layer: the mean magnitude of the last position's
hidden state after the embedding, after each layer but the last, and (the last line) after the last norm. Needs torch,
transformers, gguf and numpy.
"""
import inspect
import json
import pathlib
import shutil
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers

from families import VOCAB, all_families, random_weights

POSITIONS = 24
SPECIALS = ["<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"]  # 256 to 259
MERGES = [("h", "e"), ("l", "l"), ("he", "ll")]  # 260 to 262
TEMPLATE = ("{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def write_safetensors(path, tensors):
    """tensors: {name: (type, shape, bytes)}"""
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def bf16(array):
    bits = array.view(np.uint32)
    assert not (bits & 0xffff).any()
    return (bits >> 16).astype(np.uint16).tobytes()


def byte_alphabet():
    """GPT-2's spelling of the 256 bytes."""
    plain = [byte for byte in range(256) if 32 < byte < 127 or 160 < byte != 173]
    return [chr(byte) if byte in plain else chr(256 + sum(b not in plain for b in range(byte))) for byte in range(256)]


def write_texts(folder, config):
    """The template is a file of its own in llama's folder and part of the settings in the others."""
    added = [{"id": 256 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(SPECIALS)]
    vocabulary = {text: i for i, text in enumerate(byte_alphabet())}
    vocabulary |= {left + right: 260 + i for i, (left, right) in enumerate(MERGES)}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(merge) for merge in MERGES]},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>",
                "eos_token": {"content": "<|end|>"}, "add_bos_token": True, "model_max_length": 512}
    if folder.name != "llama":
        settings["chat_template"] = [{"name": "tool_use", "template": "wrong"}, {"name": "default", "template": TEMPLATE}]
    else:
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    generation = {"bos_token_id": 256, "eos_token_id": [257, 259, 258], "do_sample": True, "temperature": 0.6,
                  "top_k": 50, "top_p": 0.875}
    for name, value in (("tokenizer", tokenizer), ("tokenizer_config", settings), ("generation_config", generation),
                        ("config", config)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def reference_logits(folder, weights, ids, table_changes):
    """Logits of all positions at once; token by token and in a batch of two, transformers must give the same."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        write_safetensors(pathlib.Path(copy) / "model.safetensors",
                          {name: ("F32", w.shape, w.tobytes()) for name, w in weights.items()})
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(
            copy, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    if loading["missing_keys"] or loading["mismatched_keys"] or loading["unexpected_keys"]:
        sys.exit(f"{folder}: not this family's tensors: {loading}")
    model.eval()
    with torch.no_grad():
        ids = torch.tensor([ids])
        whole = model(ids, output_hidden_states=True)
        both = model(torch.cat([ids, ids.flip(1)])).logits[0]
        cache, single = None, []
        name = "cache" if hasattr(whole, "cache") else "past_key_values"
        counts = "position_ids" in inspect.signature(model.forward).parameters  # bamba does not count them by itself
        for position in range(ids.shape[1]):
            places = {"position_ids": torch.tensor([[position]])} if counts else {}
            step = model(ids[:, position:position + 1], use_cache=True, **{name: cache}, **places)
            cache = getattr(step, name)
            single.append(step.logits[0, 0])
    logits = whole.logits[0]
    for other in (both,) if table_changes else (both, torch.stack(single)):
        difference = ((logits - other).abs().max() / logits.abs().max()).item()
        if difference > 1e-5:
            sys.exit(f"{folder}: transformers itself differs by {difference} between batches or chunks")
    magnitudes = [states[0, -1].abs().mean().item() for states in whole.hidden_states]
    (folder / "layers.txt").write_text("".join(f"{value:.7g}\n" for value in magnitudes))
    return logits.float().numpy()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    families = all_families()
    for name in sys.argv[2:] or families:
        family = families[name]
        source = np.random.default_rng(family.SEED)
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        weights = random_weights(family, family.CONFIG, source)
        write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
        write_texts(folder, family.CONFIG)
        ids = source.integers(0, VOCAB, POSITIONS).tolist()
        (folder / "ids.txt").write_text(" ".join(map(str, ids)) + "\n")
        if hasattr(family, "reference"):
            logits = family.reference(family.CONFIG, weights, ids).astype(np.float32)
        else:
            logits = reference_logits(folder, weights, ids, getattr(family, "TABLE_CHANGES", False))
        assert logits.shape == (POSITIONS, VOCAB)
        (folder / "logits.f32").write_bytes(logits.tobytes())
        print(name, logits.std(), np.abs(logits).max(), transformers.__version__, torch.__version__)


if __name__ == "__main__":
    main()
