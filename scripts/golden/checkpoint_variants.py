#!/usr/bin/env python3
"""Writes the tiny checkpoints of tests/golden/checkpoints in every form that Shoal reads; all hold the same numbers.

usage: checkpoint_variants.py SOURCE TARGET

For each family: <family>-f32, -f16 and -bf16 (folders with one file), <family>-<type>-sharded (three files and an index),
and <family>-<type>.gguf. TARGET is written under a temporary name first, so it is whole or absent. Needs gguf and numpy.
"""
import json
import os
import pathlib
import shutil
import struct
import sys

import gguf
import numpy as np

NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
WHOLE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}
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
    """No padding: a header of any length, so that data lies at any address."""
    header, at, pieces = {}, 0, []
    for name, array in tensors.items():
        data = stored(array, kind).tobytes()
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


def gguf_name(name, gemma):
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    rest = rest.removesuffix(".weight")
    if rest == "post_attention_layernorm":
        return f"blk.{layer}.{'post_attention_norm' if gemma else 'ffn_norm'}.weight"
    return f"blk.{layer}.{NAMES[rest]}.weight"


def permuted(array, heads):
    """Rows of a head from halves to pairs, as GGUF's llama has them."""
    rows, columns = array.shape
    return array.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def llama3_divisors(config):
    scaling = config["rope_scaling"]
    frequencies = config["rope_theta"] ** (-np.arange(0, config["head_dim"], 2) / config["head_dim"])
    lengths = 2 * np.pi / frequencies
    context, low, high = (scaling[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    smooth = (context / lengths - low) / (high - low)
    between = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    divisors = np.where(lengths < context / high, 1, np.where(lengths > context / low, scaling["factor"], between))
    return divisors.astype(np.float32)


def add_settings(writer, config, family):
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if family == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
        writer.add_float32("gemma3.attention.scale", config["query_pre_attn_scalar"] ** -0.5)
        writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config["rope_scaling"]["factor"])


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


def write_gguf(source, target, tensors, kind):
    config = json.loads((source / "config.json").read_text())
    family = source.name
    writer = gguf.GGUFWriter(str(target), family)
    add_settings(writer, config, family)
    add_texts(writer, source)
    for name, array in tensors.items():
        if family == "gemma3" and array.ndim == 1:
            array = array + 1
        if family == "llama" and ("q_proj" in name or "k_proj" in name):
            array = permuted(array, config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"])
        type_here = "F32" if array.ndim == 1 else kind
        data = np.ascontiguousarray(stored(array, type_here))
        if type_here == "BF16":
            data = data.view(np.uint8)  # the last dimension in bytes, as the writer wants raw types
        writer.add_tensor(gguf_name(name, family == "gemma3"), data, raw_dtype=GGUF_TYPES[type_here])
    if family == "llama":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    fresh = target.with_name(f"{target.name}.{os.getpid()}.part")
    fresh.mkdir(parents=True)
    for family in ("llama", "gemma3"):
        tensors = read_safetensors(source / family / "model.safetensors")
        for kind in GGUF_TYPES:
            name = f"{family}-{kind.lower()}"
            write_folder(source / family, fresh / name, tensors, kind, 1)
            write_folder(source / family, fresh / f"{name}-sharded", tensors, kind, 3)
            write_gguf(source / family, fresh / f"{name}.gguf", tensors, kind)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


if __name__ == "__main__":
    main()
