"""Writes LoRA adapters: PEFT folders, and the GGUF files that llama.cpp's convert_lora_to_gguf.py makes of them."""

import json
import struct

import gguf
import numpy as np

CONFIG = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "lora_alpha": 16, "r": 8, "use_rslora": False,
          "target_modules": ["q_proj"], "modules_to_save": None, "rank_pattern": {}, "alpha_pattern": {}}
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down"}


def write_safetensors(path, tensors):
    """tensors: {name: F32 array}."""
    header, data = {}, b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_peft(folder, tensors, **members):
    """tensors: {"layers.0.self_attn.q_proj.lora_A": array}."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG | members))
    write_safetensors(folder / "adapter_model.safetensors",
                      {f"base_model.model.model.{name}.weight": values for name, values in tensors.items()})
    return folder


def draw_pairs(shapes, layers, rank, draw, size=0.5):
    """Pairs for each module of {module: (rows, columns)} in every layer."""
    tensors = {}
    for layer in range(layers):
        for module, (rows, columns) in shapes.items():
            place = f"layers.{layer}.{module}"
            tensors[f"{place}.lora_A"] = draw.standard_normal((rank, columns)).astype("f4") * size / columns ** 0.5
            tensors[f"{place}.lora_B"] = draw.standard_normal((rows, rank)).astype("f4") * size / rank ** 0.5
    return tensors


def permute(rows, heads):
    """Rows of a query or key projection in the order of GGUF's llama: the halves of a head become adjacent pairs."""
    return rows.reshape(heads, 2, -1, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path, tensors, alpha, heads, kv_heads, architecture="llama"):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, values in tensors.items():
        _, layer, module = name.split(".", 2)
        module, half = module.rsplit(".", 1)
        if half == "lora_B" and module in ("self_attn.q_proj", "self_attn.k_proj"):
            values = permute(values, heads if "q_proj" in module else kv_heads)
        writer.add_tensor(f"blk.{layer}.{GGUF_NAMES[module]}.weight.{half.lower()}", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
