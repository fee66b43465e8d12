#!/usr/bin/env python3
"""Writes a llama GGUF with a byte-level tokenizer as a Hugging Face folder with F16 weights.

usage: gguf_to_folder.py IN.gguf FOLDER

For tests that serve the default model from a folder. The folder is written under a temporary name first, so FOLDER is
complete or absent. Needs the packages gguf and numpy.
"""
import json
import os
import pathlib
import shutil
import struct
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
         "output.weight": "lm_head.weight"}
SPLITS = {  # by tokenizer.ggml.pre
    "gpt-2": [],
    "smollm": [{"type": "Digits", "individual_digits": True}],
}
CONTROL = 3


def value(reader, key, absent=None):
    field = reader.get_field(key)
    return absent if field is None else field.contents()


def config_of(reader, tied):
    key = lambda name: value(reader, f"llama.{name}")
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": key("embedding_length"),
        "intermediate_size": key("feed_forward_length"), "num_hidden_layers": key("block_count"),
        "num_attention_heads": key("attention.head_count"), "num_key_value_heads": key("attention.head_count_kv"),
        "max_position_embeddings": key("context_length"), "rms_norm_eps": key("attention.layer_norm_rms_epsilon"),
        "rope_theta": key("rope.freq_base"), "vocab_size": len(value(reader, "tokenizer.ggml.tokens")),
        "tie_word_embeddings": tied, "eos_token_id": value(reader, "tokenizer.ggml.eos_token_id"),
    }


def tokenizer_of(reader):
    tokens, kinds = value(reader, "tokenizer.ggml.tokens"), value(reader, "tokenizer.ggml.token_type")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "normalizer": None, "post_processor": None, "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": i, "content": text, "special": True} for i, text in enumerate(tokens) if kinds[i] == CONTROL],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": SPLITS[value(reader, "tokenizer.ggml.pre")] + [byte_level]},
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(tokens)},
                  "merges": value(reader, "tokenizer.ggml.merges")},
    }


def stored(tensor, config):
    """Name and F16 array; the rows of query and key heads are permuted back from pairs to halves."""
    if tensor.name in WHOLE:
        name = WHOLE[tensor.name]
    else:
        _, layer, kind, _ = tensor.name.split(".")
        name = f"model.layers.{layer}.{LAYER_NAMES[kind]}.weight"
    array = dequantize(tensor.data, tensor.tensor_type)
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
    if heads:
        rows, columns = array.shape
        array = array.reshape(config[heads], -1, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    return name, array.astype(np.float16)


def write_weights(path, reader, config):
    header, at = {}, 0
    with open(path.with_suffix(".data"), "w+b") as data:
        for tensor in reader.tensors:
            name, array = stored(tensor, config)
            header[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
            data.write(array.tobytes())
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        data.seek(0)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            shutil.copyfileobj(data, file)
    os.remove(path.with_suffix(".data"))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    reader, target = gguf.GGUFReader(sys.argv[1]), pathlib.Path(sys.argv[2])
    fresh = target.with_name(f"{target.name}.{os.getpid()}.part")
    fresh.mkdir(parents=True)
    try:
        tokens = value(reader, "tokenizer.ggml.tokens")
        settings = {f"{word}_token": tokens[value(reader, f"tokenizer.ggml.{word}_token_id")] for word in ("bos", "eos")}
        settings["add_bos_token"] = bool(value(reader, "tokenizer.ggml.add_bos_token", False))
        config = config_of(reader, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
        for name, content in (("config", config), ("tokenizer", tokenizer_of(reader)), ("tokenizer_config", settings)):
            (fresh / f"{name}.json").write_text(json.dumps(content))
        (fresh / "chat_template.jinja").write_text(value(reader, "tokenizer.chat_template"))
        write_weights(fresh / "model.safetensors", reader, config)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


if __name__ == "__main__":
    main()
