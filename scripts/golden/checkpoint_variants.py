#!/usr/bin/env python3
"""Writes the tiny checkpoints of tests/golden/checkpoints in every form that Shoal reads; all hold the same numbers.

usage: checkpoint_variants.py SOURCE TARGET

For each family: <family>-f32, -f16 and -bf16 (folders with one file), <family>-<type>-sharded (three files and an index),
and <family>-<type>.gguf; and <family>-mlx if mlx-lm saves other names or shapes. For llama also a split GGUF (F32); for
llama and qwen3_moe the forms of quantized_forms.py, which hold other numbers. glm4-wide-heads has glm4's F32 weights read
as half as many heads of 48 elements, which a quantized cache can hold: a different model, used to compare backends with
each other. <family>-ahead and <family>-ahead.gguf have the layers of tests/golden/ahead (F32); qwen3_5_images-ahead is the vision checkpoint of tests/golden/towers with such a layer, demo-ahead the demo model with its own, demo-eagle3 and demo-dflash drafters of random weights for it. TARGET is written under a temporary name first, so it is complete or absent. Needs gguf and numpy.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import gguf
import numpy as np

import quantized_forms
from families import all_families

GGUF_TYPES = {"F32": gguf.GGMLQuantizationType.F32, "F16": gguf.GGMLQuantizationType.F16,
              "BF16": gguf.GGMLQuantizationType.BF16}


def read_safetensors(path):
    """{name: F32 array} of a file whose tensors are BF16."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            tensors[name] = bits.view(np.float32).reshape(entry["shape"])
    return tensors


def stored(array, kind):
    if kind == "F32":
        return array.astype(np.float32)
    if kind == "F16":
        assert (array.astype(np.float16).astype(np.float32) == array).all()
        return array.astype(np.float16)
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def write_safetensors(path, tensors, kind):
    write_typed(path, {name: (kind, stored(array, kind)) for name, array in tensors.items()})


def write_typed(path, tensors):
    """Writes no padding: the header has any length, so that data starts at any address."""
    header, at, pieces = {}, 0, []
    for name, (kind, array) in tensors.items():
        data = array.tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        pieces.append(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def write_folder(source, target, tensors, kind, shards):
    target.mkdir()
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, target)
    if shards == 1:
        write_safetensors(target / "model.safetensors", tensors, kind)
        return
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])  # a layer's tensors lie in different files
        write_safetensors(target / name, part, kind)
        weight_map |= {tensor: name for tensor in part}
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_quantized_folder(source, target, form, tensors):
    members, typed, _ = quantized_forms.quantize_folder(source.name, form, tensors)
    target.mkdir()
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, target)
    config = json.loads((source / "config.json").read_text()) | members
    (target / "config.json").write_text(json.dumps(config))
    write_typed(target / "model.safetensors", typed)


def write_wide_heads(source, target, tensors):
    write_folder(source, target, tensors, "F32", 1)
    config = json.loads((source / "config.json").read_text())
    for name in ("num_attention_heads", "num_key_value_heads"):
        config[name] //= 2
    config["head_dim"] *= 2
    (target / "config.json").write_text(json.dumps(config))


def add_settings(writer, config):
    writer.add_block_count(config["num_hidden_layers"] + config.get("num_nextn_predict_layers", 0))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "rope_theta" in config:
        writer.add_rope_freq_base(config["rope_theta"])


def add_texts(writer, source):
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    settings = json.loads((source / "tokenizer_config.json").read_text())
    ids = dict(tokenizer["model"]["vocab"])
    ids |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    special = {token["content"] for token in tokenizer["added_tokens"]}
    tokens = sorted(ids, key=ids.get)
    template = source / "chat_template.jinja"
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(True)
    writer.add_chat_template(template.read_text() if template.exists() else settings["chat_template"][1]["template"])


def write_gguf(family, source, target, tensors, kind, tensors_a_part=0):
    """Writes one file, or parts of so many tensors each, whose names the writer numbers."""
    config = json.loads((source / "config.json").read_text())
    writer = gguf.GGUFWriter(str(target), family.GGUF_ARCHITECTURE, split_max_tensors=tensors_a_part)
    if getattr(family, "GGUF_SHARED_SETTINGS", True):
        add_settings(writer, config)
    family.gguf_metadata(config, writer)
    if hasattr(family, "gguf_tensor_metadata"):
        family.gguf_tensor_metadata(tensors, writer)
    add_texts(writer, source)
    for name, array in family.gguf_tensors(config, tensors).items():
        type_here = "F32" if array.ndim == 1 or getattr(family, "gguf_keeps_f32", str.isspace)(name) else kind
        if type_here not in GGUF_TYPES:
            rows = quantized_forms.quantize_gguf(kind, array)
            writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType[kind])
            continue
        data = np.ascontiguousarray(stored(array, type_here))
        if type_here == "BF16":
            data = data.view(np.uint8)  # the last dimension in bytes, as the writer wants raw types
        writer.add_tensor(name, data, raw_dtype=GGUF_TYPES[type_here])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def draw_weights(shapes):
    """{name: (type, array)} of random weights, the same every time."""
    rng = np.random.default_rng(1)
    drawn = {name: 1 + 0.1 * rng.standard_normal(shape) if len(shape) == 1 else rng.standard_normal(shape) * 1.5 / np.sqrt(shape[-1])
             for name, shape in shapes.items()}
    return {name: ("BF16", stored(array, "BF16")) for name, array in drawn.items()}


def write_demo_drafters(fresh):
    """Drafters that read the states of three layers of the demo model, without an embedding of their own."""
    hidden, tokens, wide, heads = 256, 500, 128, 64
    layer = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,), "self_attn.o_proj.weight": (hidden, heads),
             "mlp.gate_proj.weight": (wide, hidden), "mlp.up_proj.weight": (wide, hidden), "mlp.down_proj.weight": (hidden, wide)}
    config = {"hidden_size": hidden, "intermediate_size": wide, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
              "head_dim": heads // 2, "vocab_size": 4096, "max_position_embeddings": 2048}
    ends = {"fc.weight": (hidden, 3 * hidden), "norm.weight": (hidden,)}
    head = layer | {"hidden_norm.weight": (hidden,)} | {f"self_attn.{name}_proj.weight": (heads, 2 * hidden) for name in "qkv"}
    eagle3 = draw_weights(ends | {"lm_head.weight": (tokens, hidden)} | {f"midlayer.{name}": shape for name, shape in head.items()})
    block = layer | {f"self_attn.{name}_proj.weight": (heads, hidden) for name in "qkv"} | {f"self_attn.{name}_norm.weight": (heads // 2,) for name in "qk"}
    dflash = draw_weights(ends | {"hidden_norm.weight": (hidden,)} | {f"layers.0.{name}": shape for name, shape in block.items()})
    for name, tensors, more in (
            ("eagle3", eagle3 | {"d2t": ("I64", 7 * np.arange(tokens, dtype=np.int64))},
             {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": tokens}),
            ("dflash", dflash, {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 12,
                                "dflash_config": {"mask_token_id": 4000, "target_layer_ids": [0, 2, 4]}})):
        (fresh / f"demo-{name}").mkdir()
        write_typed(fresh / f"demo-{name}/model.safetensors", tensors)
        (fresh / f"demo-{name}/config.json").write_text(json.dumps(config | more))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    fresh = target.with_name(f"{target.name}.{os.getpid()}.part")
    fresh.mkdir(parents=True)
    for name, family in all_families().items():
        tensors = read_safetensors(source / name / "model.safetensors")
        if hasattr(family, "mlx_tensors"):
            write_folder(source / name, fresh / f"{name}-mlx", family.mlx_tensors(tensors), "F32", 1)
        for kind in GGUF_TYPES:
            form = f"{name}-{kind.lower()}"
            write_folder(source / name, fresh / form, tensors, kind, 1)
            write_folder(source / name, fresh / f"{form}-sharded", tensors, kind, 3)
            if hasattr(family, "GGUF_ARCHITECTURE"):
                write_gguf(family, source / name, fresh / f"{form}.gguf", tensors, kind)
    for name in quantized_forms.FAMILIES:
        tensors = read_safetensors(source / name / "model.safetensors")
        for form in quantized_forms.folder_forms(name):
            write_quantized_folder(source / name, fresh / f"{name}-{form}", form, tensors)
    write_wide_heads(source / "glm4", fresh / "glm4-wide-heads", read_safetensors(source / "glm4" / "model.safetensors"))
    for folder in sorted((source.parent / "ahead").iterdir()):  # with a layer that predicts a further token
        name, base = folder.name, source / folder.name
        if name.endswith("_images"):
            base = source.parent / "towers" / name.removesuffix("_images")
        tensors = read_safetensors(base / "model.safetensors") | read_safetensors(folder / "mtp.safetensors")
        made = fresh / f"{name}-ahead"
        write_folder(base, made, tensors, "F32", 1)
        config = json.loads((made / "config.json").read_text())
        if "num_nextn_predict_layers" in config:
            (made / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 1}))
        if base.parent == source:
            write_gguf(all_families()[name], made, fresh / f"{name}-ahead.gguf", tensors, "F32")
    subprocess.run([pathlib.Path(__file__).parent.parent / "demo_model/with_ahead", fresh / "demo-ahead"], check=True)
    write_demo_drafters(fresh)
    name = "llama"
    tensors = read_safetensors(source / name / "model.safetensors")
    write_gguf(all_families()[name], source / name, fresh / f"{name}-split.gguf", tensors, "F32", 8)
    for kind in quantized_forms.GGUF_TYPES:
        write_gguf(all_families()[name], source / name, fresh / f"{name}-{kind.lower()}.gguf", tensors, kind)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


if __name__ == "__main__":
    main()
