#!/usr/bin/env python3
"""Writes the tiny vision checkpoints of tests/golden/towers as GGUF: the text, and the tower in a projector file.

usage: mmproj_files.py SOURCE TARGET

For each family that GGUF can state: TARGET/<family>/text.gguf and mmproj.gguf in F32, mmproj-f16.gguf, and for projectors
that older converters wrote mmproj-swapped.gguf, in which ffn_up and ffn_down have each other's names. Keys, tensor names and
permutations are those of llama.cpp's conversion scripts (ernie.py, gemma.py, glm.py, internvl.py, kimi_vl.py, lfm2.py, llava.py, pixtral.py, qwenvl.py, qwen3vl.py, smolvlm.py) as of
2026-11, and for mlp of tools/mtmd/legacy-models; keys that its base class writes for every tower are in write_sizes(). Layers that a folder does not use are left out
where the file cannot say so. TARGET is written under a temporary name first. Needs gguf and
numpy.
"""
import json
import os
import pathlib
import shutil
import sys

import gguf
import numpy as np

from checkpoint_variants import add_settings, read_safetensors, stored
from families import deepseek_v3, ernie4_5, gemma3, gemma4, gemma4_moe, glm4, glm4_moe, hunyuan_v1_dense, lfm2, llama, ministral3, mistral, qwen2, qwen3, qwen3_5, qwen3_5_moe, shared

TEXT_PREFIXES = ("model.language_model.", "language_model.model.", "model.text_model.")
TOWER_PREFIXES = ("model.visual.", "visual.", "vit.", "model.vision_tower.", "vision_tower.", "model.vision_model.", "vision_model.vision_tower.")
SIGLIP_LAYER = {
    "layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
}
SIGLIP = {"embeddings.patch_embedding": "v.patch_embd", "embeddings.position_embedding": "v.position_embd",
          "post_layernorm": "v.post_ln"}
CLIP = SIGLIP | {"pre_layrnorm": "v.pre_ln"}
QWEN_LAYER = {"norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out", "mlp.fc1": "ffn_up",
              "mlp.fc2": "ffn_down", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down"}
INTERNVL_LAYER = {
    "layernorm_before": "ln1", "layernorm_after": "ln2", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k",
    "attention.v_proj": "attn_v", "attention.projection_layer": "attn_out", "attention.q_norm": "attn_q_norm",
    "attention.k_norm": "attn_k_norm", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
}
GEMMA4_LAYER = {
    "input_layernorm": "ln1", "post_attention_layernorm": "attn_post_norm", "pre_feedforward_layernorm": "ln2",
    "post_feedforward_layernorm": "ffn_post_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_out", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
PIXTRAL_LAYER = {
    "attention_norm": "ln1", "ffn_norm": "ln2", "attention.q_proj": "attn_q", "attention.k_proj": "attn_k",
    "attention.v_proj": "attn_v", "attention.o_proj": "attn_out", "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
}
BREAK_TOKEN = 89  # of Pixtral's lines


# --- the text -----------------------------------------------------------------------------------

def text_metadata(kind, config, writer):
    if kind in ("gemma4", "gemma4_moe", "qwen3_5", "qwen3_5_moe"):
        TEXTS[kind][1].gguf_metadata(config, writer)
        if "pad_token_id" in config:
            writer.add_pad_token_id(config["pad_token_id"])
        return
    if kind.startswith("kimi"):
        absent = {"routed_scaling_factor": 2.5, "norm_topk_prob": True, "n_shared_experts": 1, "rope_scaling": None}
        deepseek_v3.gguf_metadata(absent | config | config["rope_parameters"], writer)
        writer.add_vocab_size(config["vocab_size"])
        return
    if kind == "lfm2_vl":
        lfm2.gguf_metadata(config | {"block_ffn_dim_multiplier": 1.5, "block_multiple_of": 1}, writer)
        return
    if kind.startswith("hunyuan"):
        hunyuan_metadata(config, writer)
        return
    ahead = int(kind == "glm_ocr")  # a layer that predicts several tokens is counted too
    add_settings(writer, config | {"num_hidden_layers": config["num_hidden_layers"] + ahead})
    if kind in ("mistral3_wide", "llava_siglip", "llava_next_wide"):
        TEXTS[kind][1].gguf_metadata(config, writer)
    if kind == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])
        writer.add_float32("gemma3.attention.scale", config["query_pre_attn_scalar"] ** -0.5)
        writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
    if TEXTS[kind][1] in (glm4, glm4_moe):
        TEXTS[kind][1].gguf_metadata(config | (config.get("rope_scaling") or config["rope_parameters"]), writer)
    if ahead:
        writer.add_nextn_predict_layers(ahead)
    if kind.endswith("_vl") or TEXTS[kind][1] in (glm4, glm4_moe, ernie4_5):
        rope = config.get("rope_scaling") or config.get("rope_parameters")
        if "rope_theta" not in config:
            writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_dimension_sections(rope["mrope_section"] + [0])
    if kind == "qwen3_vl":
        writer.add_uint32("qwen3vl.n_deepstack_layers", len(config["deepstack"]))


def hunyuan_metadata(config, writer):
    """Alpha is a key of its own here."""
    rope = config.get("rope_scaling") or config["rope_parameters"]
    base = config.get("rope_theta") or rope["rope_theta"]
    add_settings(writer, config | {"rope_theta": base})
    if "alpha" in rope:
        writer.add_rope_scaling_alpha(rope["alpha"])
        writer.add_string("hunyuan_vl.rope.scaling.type", "none")
        writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_dimension_sections(rope.get("xdrope_section") or rope["mrope_section"])


def with_stacks(tensors):
    """Experts that are stored one by one become stacks, gate and up in one."""
    found = {name: array for name, array in tensors.items() if ".experts." not in name}
    single = {name: array for name, array in tensors.items() if ".experts." in name}
    for at in sorted({name.split(".experts.")[0] for name in single}):
        parts = {part: [single[f"{at}.experts.{i}.{part}_proj.weight"]
                        for i in range(sum(name.startswith(at + ".") and part + "_proj" in name for name in single))]
                 for part in ("gate", "up", "down")}
        found[at + ".experts.gate_up_proj"] = np.concatenate([np.stack(parts["gate"]), np.stack(parts["up"])], axis=1)
        found[at + ".experts.down_proj"] = np.stack(parts["down"])
    return found


def pairs_to_halves(array, heads, rotated):
    """In each head's first `rotated` rows, those of even number before those of odd number."""
    rows = array.reshape(heads, array.shape[0] // heads, -1)
    return np.concatenate([rows[:, :rotated:2], rows[:, 1:rotated:2], rows[:, rotated:]], axis=1).reshape(array.shape)


def glm_tensors(kind, config, tensors):
    """GLM-OCR's file has the layer that predicts several tokens as its last block, here with the weights of the one before."""
    rope = config.get("rope_scaling") or config["rope_parameters"]
    rotated = int(config["head_dim"] * rope["partial_rotary_factor"])
    found = {}
    for name, array in tensors.items():
        if ".layers.16." in name:
            continue
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:
                array = pairs_to_halves(array, config[heads], rotated)
        found |= glm4.gguf_tensors(config, {name: array})
    if kind == "glm_ocr":
        last, hidden = config["num_hidden_layers"], config["hidden_size"]
        found |= {name.replace(f"blk.{last - 1}.", f"blk.{last}."): array for name, array in found.items() if f"blk.{last - 1}." in name}
        found[f"blk.{last}.nextn.eh_proj.weight"] = np.ones((hidden, 2 * hidden), np.float32)
        found |= {f"blk.{last}.nextn.{norm}.weight": np.ones(hidden, np.float32) for norm in ("enorm", "hnorm", "shared_head_norm")}
    return found


def text_tensors(kind, config, tensors):
    if kind == "qwen3_5_moe":
        tensors = with_stacks(tensors)
    if TEXTS[kind][1] is glm4:
        return glm_tensors(kind, config, tensors)
    if TEXTS[kind][1] is llama:
        return {llama.shared.gguf_name(name): llama.permuted(config, name, array) for name, array in tensors.items()}
    return TEXTS[kind][1].gguf_tensors(config, tensors)


# family: (GGUF architecture, the family of scripts/golden/families with its tensors)
TEXTS = {
    "gemma3": ("gemma3", gemma3), "gemma4": ("gemma4", gemma4), "gemma4_moe": ("gemma4", gemma4_moe),
    "qwen2_vl": ("qwen2vl", qwen2), "qwen2_5_vl": ("qwen2vl", qwen2), "qwen3_vl": ("qwen3vl", qwen3),
    "qwen3_5": ("qwen35", qwen3_5), "qwen3_5_moe": ("qwen35moe", qwen3_5_moe), "smolvlm": ("llama", llama),
    "mistral3": ("llama", llama), "mistral3_wide": ("mistral3", ministral3), "pixtral": ("llama", llama),
    "pixtral_wide": ("llama", llama), "llava": ("llama", llama), "llava_siglip": ("llama", mistral),
    "glm4v": ("glm4", glm4), "glm4v_wide": ("glm4", glm4), "glm_ocr": ("glm4", glm4), "glm_ocr_wide": ("glm4", glm4),
    "glm4v_moe": ("glm4moe", glm4_moe), "glm4v_moe_wide": ("glm4moe", glm4_moe),
    "hunyuan_vl": ("hunyuan_vl", hunyuan_v1_dense), "hunyuan_vl_wide": ("hunyuan_vl", hunyuan_v1_dense),
    "paddleocr_vl": ("paddleocr", ernie4_5), "paddleocr_vl_wide": ("paddleocr", ernie4_5),
    "llava_next": ("llama", llama), "llava_next_wide": ("llama", mistral),
    "kimi_vl": ("deepseek2", deepseek_v3), "kimi_k25": ("deepseek2", deepseek_v3),
    "janus": ("llama", llama), "multi_modality": ("llama", llama),
    "lfm2_vl": ("lfm2", lfm2), "internvl": ("qwen2", qwen2), "internvl_wide": ("qwen3", qwen3),
}


def split_names(tensors):
    """({text name: array}, {tower name without its prefix: array}, {projection name: array})"""
    text, tower, rest = {}, {}, {}
    for name, array in tensors.items():
        if name.startswith(("model.vqmodel.", "model.generation_", "gen_")):  # what Janus makes images with
            continue
        prefix = next((p for p in TOWER_PREFIXES if name.startswith(p)), None)
        text_prefix = next((p for p in TEXT_PREFIXES if name.startswith(p)), None)
        if prefix:
            tower[name.removeprefix(prefix)] = array
        elif text_prefix:
            text["model." + name.removeprefix(text_prefix)] = array
        elif name.endswith("lm_head.weight"):
            text["lm_head.weight"] = array
        elif "aligner" in name or "connector" in name or "projector" in name or "mlp_AR" in name or name.endswith("image_newline") or "embed_vision" in name:
            rest[name] = array
        else:
            text[name] = array
    return text, tower, rest


# --- the tower ----------------------------------------------------------------------------------

def layer_name(name, at, names):
    """blocks.3.attn.proj.bias -> v.blk.3.attn_out.bias"""
    layer, rest = name.removeprefix(at).split(".", 1)
    stem, ending = rest.rsplit(".", 1)
    return f"v.blk.{layer}.{names[stem]}.{ending}"


def used_layers(config):
    """Of the tower, if one before its last gives the features."""
    return config["vision_config"]["num_hidden_layers"] + 1 + config.get("vision_feature_layer", -1)


def siglip_tensors(tower):
    found = {}
    for name, array in tower.items():
        if name.startswith("encoder.layers."):
            found[layer_name(name, "encoder.layers.", SIGLIP_LAYER)] = array
        else:
            stem, ending = name.rsplit(".", 1)
            found[f"{SIGLIP[stem]}.{ending}"] = array
    return found


def lfm2_tensors(config, tower, rest):
    rename = {"layer_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2"}
    found = siglip_tensors(tower)
    side = config["vision_config"]["patch_size"]
    found["v.patch_embd.weight"] = found["v.patch_embd.weight"].reshape(-1, side, side, 3).transpose(0, 3, 1, 2)
    for name, array in rest.items():
        stem, ending = name.split("multi_modal_projector.")[1].rsplit(".", 1)
        found[f"{rename[stem]}.{ending}"] = array
    return found


def gemma3_tensors(config, tower, rest):
    rest = {name.split("multi_modal_projector.")[1]: array for name, array in rest.items()}
    return siglip_tensors(tower) | {"mm.input_projection.weight": rest["mm_input_projection_weight"],
                                    "mm.soft_emb_norm.weight": rest["mm_soft_emb_norm.weight"] + 1}


def idefics3_tensors(config, tower, rest):
    (array,) = rest.values()
    return siglip_tensors(tower) | {"mm.model.fc.weight": array}


def gemma4_tensors(config, tower, rest):
    found = {}
    for name, array in tower.items():
        name = name.replace(".linear.weight", ".weight")
        if name.startswith("encoder.layers."):
            found[layer_name(name, "encoder.layers.", GEMMA4_LAYER)] = array.reshape(1) if array.ndim == 0 else array
        elif name.endswith("input_proj.weight"):
            side = config["vision_config"]["patch_size"]
            found["v.patch_embd.weight"] = array.reshape(-1, side, side, 3).transpose(0, 3, 1, 2)
        elif name.endswith("position_embedding_table"):
            found["v.position_embd.weight"] = array
        else:
            found[f"v.{name}"] = array
    (array,) = rest.values()
    return found | {"mm.input_projection.weight": array}


def qwen_tensors(config, tower, rest):
    joined = "pos_embed.weight" in tower  # qwen3: q, k and v stay one matrix
    found = {}
    for name, array in tower.items():
        if name.startswith("blocks.") and ".qkv." in name and not joined:
            for part, piece in zip("qkv", np.split(array, 3)):
                found[layer_name(name, "blocks.", QWEN_LAYER).replace("attn_qkv", f"attn_{part}")] = piece
        elif name.startswith("blocks."):
            found[layer_name(name, "blocks.", QWEN_LAYER)] = array
        elif name == "patch_embed.proj.weight":
            found |= {"v.patch_embd.weight": array[:, :, 0], "v.patch_embd.weight.1": array[:, :, 1]}
        elif name == "patch_embed.proj.bias":
            found["v.patch_embd.bias"] = array
        elif name == "pos_embed.weight":
            found["v.position_embd.weight"] = array
        elif name.startswith("deepstack_merger_list."):
            number, rest_name = name.split(".", 1)[1].split(".", 1)
            layer = config["vision_config"]["deepstack_visual_indexes"][int(number)]
            found[f"v.deepstack.{layer}." + rest_name.replace("linear_", "")] = array
        else:
            rename = {"merger.ln_q": "v.post_ln", "merger.norm": "v.post_ln", "merger.mlp.0": "mm.0", "merger.mlp.2": "mm.2",
                      "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2"}
            stem, ending = name.rsplit(".", 1)
            found[f"{rename[stem]}.{ending}"] = array
    return found


def internvl_tensors(config, tower, rest):
    whole = {"embeddings.cls_token": "v.class_embd", "embeddings.position_embeddings": "v.position_embd.weight",
             "embeddings.patch_embeddings.projection.weight": "v.patch_embd.weight",
             "embeddings.patch_embeddings.projection.bias": "v.patch_embd.bias"}
    rename = {"layer_norm": "mm.model.mlp.0", "linear_1": "mm.model.mlp.1", "linear_2": "mm.model.mlp.3"}
    found = {}
    for name, array in tower.items():
        if name in whole:
            found[whole[name]] = array.reshape(-1, array.shape[-1]).squeeze() if array.ndim == 3 else array
        elif ".lambda_" in name:
            found[f"v.blk.{name.split('.')[2]}.ls{name[-1]}.weight"] = array
        else:
            found[layer_name(name, "encoder.layer.", INTERNVL_LAYER)] = array
    for name, array in rest.items():
        stem, ending = name.split("multi_modal_projector.")[1].rsplit(".", 1)
        found[f"{rename[stem]}.{ending}"] = array
    return found


def glm_tower_tensors(config, tower, rest):
    rename = {"merger.proj": "mm.model.fc", "merger.post_projection_norm": "mm.post_norm", "merger.up_proj": "mm.up",
              "merger.gate_proj": "mm.gate", "merger.down_proj": "mm.down", "downsample": "mm.patch_merger",
              "post_conv_layernorm": "v.norm_embd", "post_layernorm": "v.post_ln", "embeddings.position_embedding": "v.position_embd"}
    layers = QWEN_LAYER | {"attn.q_norm": "attn_q_norm", "attn.k_norm": "attn_k_norm"}
    found = {}
    for name, array in tower.items():
        stem, ending = name.rsplit(".", 1)
        if name.startswith("blocks."):
            found[layer_name(name, "blocks.", layers)] = array
        elif name == "patch_embed.proj.weight":
            found |= {"v.patch_embd.weight": array[:, :, 0], "v.patch_embd.weight.1": array[:, :, 1]}
        elif name == "patch_embed.proj.bias":
            found["v.patch_embd.bias"] = array
        else:
            found[f"{rename[stem]}.{ending}"] = array
    return found


def paddle_tensors(config, tower, rest):
    rename = {"pre_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2"}
    tower = {name.removeprefix("vision_model."): array for name, array in tower.items()}
    found = siglip_tensors({name: array for name, array in tower.items() if not name.startswith("head.") and "packing" not in name})
    for name, array in rest.items():
        stem, ending = name.removeprefix("mlp_AR.").rsplit(".", 1)
        found[f"{rename[stem]}.{ending}"] = array
    return found


def janus_tensors(config, tower, rest):
    """The publisher's names are those of transformers first."""
    names = {"patch_embed.proj": "embeddings.patch_embedding", "norm": "post_layernorm"}
    layer = SIGLIP_LAYER | {"self_attn.projection_layer": "attn_out", "norm1": "ln1", "norm2": "ln2", "attn.proj": "attn_out"}
    found = {}
    for name, array in tower.items():
        if name.startswith("attn_pool."):
            continue
        stem, ending = name.rsplit(".", 1) if "." in name else (name, "")
        if ".attn.qkv" in name:
            at = f"v.blk.{name.split('.')[1]}.attn_"
            found |= {f"{at}{part}.{ending}": piece for part, piece in zip("qkv", np.split(array, 3))}
        elif stem.startswith(("blocks.", "encoder.layers.")):
            found[layer_name(name, "blocks." if stem.startswith("blocks.") else "encoder.layers.", layer)] = array
        elif name == "pos_embed":
            found["v.position_embd.weight"] = array[0]
        else:
            found[f"{SIGLIP[names.get(stem, stem)]}.{ending}"] = array
    for name, array in rest.items():
        stem, ending = name.split("aligner.")[1].rsplit(".", 1)
        found[f"mm.{int(stem not in ('fc1', 'layers.0'))}.{ending}"] = array
    return found


def hunyuan_tensors(config, tower, rest):
    """hunyuanvl: without the row before the table of positions."""
    rename = {"embeddings.patch_embedding": "v.patch_embd", "perceive.before_rms": "mm.pre_norm", "perceive.proj.0": "mm.0", "perceive.proj.2": "mm.2",
              "perceive.mlp": "mm.model.fc", "perceive.after_rms": "mm.post_norm"}
    single = {"perceive.image_newline": "v.image_newline", "perceive.image_begin": "mm.image_begin", "perceive.image_end": "mm.image_end",
              "perceive.image_sep": "v.view_seperator"}
    layer = {"input_layernorm": "ln1", "post_attention_layernorm": "ln2", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_out", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
    modules = {"patch_merger.proj_conv": "perceive.proj.0", "patch_merger.proj_out": "perceive.proj.2", "patch_merger": "perceive", "mlp.fc1": "mlp.dense_h_to_4h",
               "mlp.fc2": "mlp.dense_4h_to_h", "layer_norm1": "input_layernorm", "layer_norm2": "post_attention_layernorm"}
    found = {}
    for name, array in tower.items():
        for old, new in modules.items():
            name = name.replace(old, new)
        stem, ending = name.rsplit(".", 1)
        if name in single:
            found[single[name]] = array
        elif name == "embeddings.position_embedding.weight":
            found["v.position_embd.weight"] = array[1:]
        elif name.startswith("layers."):
            found[layer_name(name, "layers.", layer)] = array
        else:
            found[f"{rename[stem]}.{ending}"] = array
    return found


def columns_first(array, heads):
    """In each head, whose adjacent pairs are of columns and lines in turn, those of columns before those of lines."""
    rows = array.reshape(heads, -1, 2, 2, *array.shape[1:])
    return rows.swapaxes(1, 2).reshape(array.shape)


def kimi_tensors(config, tower, rest):
    """kimivl: q, k and v, and a list of positions. kimik25: one matrix, its queries and keys reordered, and a square of positions."""
    rename = {"pre_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2", "proj.0": "mm.1", "proj.2": "mm.2",
              "patch_embed.proj": "v.patch_embd", "encoder.final_layernorm": "v.post_ln"}
    layer = {"norm0": "ln1", "norm1": "ln2", "wqkv": "attn_qkv", "wo": "attn_out", "mlp.fc0": "ffn_up", "mlp.fc1": "ffn_down"}
    parts, found = config["model_type"] == "kimi_vl", {}
    for name, array in tower.items():
        if name == "patch_embed.pos_emb.weight":
            found["v.position_embd.weight"] = array.reshape(-1, array.shape[-1]) if parts else array
        elif not name.startswith("encoder.blocks."):
            stem, ending = name.rsplit(".", 1)
            found[f"{rename[stem]}.{ending}"] = array
        elif ".wqkv." not in name:
            found[layer_name(name, "encoder.blocks.", layer)] = array
        else:
            name, pieces = layer_name(name, "encoder.blocks.", layer), np.split(array, 3)
            if parts:
                found |= {name.replace("attn_qkv", f"attn_{part}"): piece for part, piece in zip("qkv", pieces)}
            else:
                heads = config["vision_config"]["vt_num_attention_heads"]
                found[name] = np.concatenate([columns_first(piece, heads) for piece in pieces[:2]] + pieces[2:])
    for name, array in rest.items():
        stem, ending = name.split("projector.")[1].rsplit(".", 1)
        found[f"{rename[stem]}.{ending}"] = array
    return found


def mlp_tensors(config, tower, rest):
    """CLIP's or SigLIP's layers; the class row is stored without its one dimension more."""
    used, found = used_layers(config), {}
    tower = {name.removeprefix("vision_model."): array for name, array in tower.items()}
    for name, array in tower.items():
        stem, ending = name.rsplit(".", 1)
        if name.startswith(("post_layernorm", "head.")) or "position_ids" in name:
            continue
        if name.startswith("encoder.layers."):
            if int(name.split(".")[2]) < used:
                found[layer_name(name, "encoder.layers.", SIGLIP_LAYER)] = array
        elif stem == "embeddings":
            found["v.class_embd"] = array
        else:
            found[f"{CLIP[stem]}.{ending}"] = array
    for name, array in rest.items():
        name = name.removeprefix("model.").replace("multi_modal_projector.linear_1", "mm.0")
        name = name.replace("multi_modal_projector.linear_2", "mm.2")
        found["model.image_newline" if name == "image_newline" else name] = array
    return found


def pixtral_tensors(config, tower, rest):
    heads, used = config["vision_config"]["num_attention_heads"], used_layers(config)
    whole = {"patch_conv": "v.patch_embd", "ln_pre": "v.pre_ln"}
    rename = {"norm": "mm.input_norm", "patch_merger.merging_layer": "mm.patch_merger", "linear_1": "mm.1", "linear_2": "mm.2"}
    found = {}
    for name, array in tower.items():
        stem, ending = name.rsplit(".", 1)
        if stem in whole:
            found[f"{whole[stem]}.{ending}"] = array
        elif int(name.split(".")[2]) < used:
            pairs = stem.endswith(("q_proj", "k_proj"))
            found[layer_name(name, "transformer.layers.", PIXTRAL_LAYER)] = shared.halves_to_pairs(array, heads) if pairs else array
    for name, array in rest.items():
        stem, ending = name.split("multi_modal_projector.")[1].rsplit(".", 1)
        found[f"{rename[stem]}.{ending}"] = array
    return found


PROJECTORS = {
    "glm4v": ("glm4v", glm_tower_tensors), "glm4v_wide": ("glm4v", glm_tower_tensors), "glm_ocr": ("glm4v", glm_tower_tensors),
    "glm_ocr_wide": ("glm4v", glm_tower_tensors), "glm4v_moe": ("glm4v", glm_tower_tensors), "glm4v_moe_wide": ("glm4v", glm_tower_tensors),
    "janus": ("janus_pro", janus_tensors), "multi_modality": ("janus_pro", janus_tensors),
    "hunyuan_vl": ("hunyuanvl", hunyuan_tensors), "hunyuan_vl_wide": ("hunyuanvl", hunyuan_tensors),
    "paddleocr_vl": ("paddleocr", paddle_tensors),
    "paddleocr_vl_wide": ("paddleocr", paddle_tensors),
    "llava": ("mlp", mlp_tensors), "llava_siglip": ("mlp", mlp_tensors), "llava_next": ("mlp", mlp_tensors),
    "llava_next_wide": ("mlp", mlp_tensors),
    "mistral3": ("pixtral", pixtral_tensors), "mistral3_wide": ("pixtral", pixtral_tensors),
    "pixtral": ("pixtral", pixtral_tensors), "pixtral_wide": ("pixtral", pixtral_tensors),
    "kimi_vl": ("kimivl", kimi_tensors), "kimi_k25": ("kimik25", kimi_tensors), "lfm2_vl": ("lfm2", lfm2_tensors), "internvl": ("internvl", internvl_tensors), "internvl_wide": ("internvl", internvl_tensors),
    "gemma3": ("gemma3", gemma3_tensors), "gemma4": ("gemma4v", gemma4_tensors), "gemma4_moe": ("gemma4v", gemma4_tensors),
    "qwen2_vl": ("qwen2vl_merger", qwen_tensors), "qwen2_5_vl": ("qwen2.5vl_merger", qwen_tensors),
    "qwen3_vl": ("qwen3vl_merger", qwen_tensors), "qwen3_5": ("qwen3vl_merger", qwen_tensors),
    "qwen3_5_moe": ("qwen3vl_merger", qwen_tensors), "smolvlm": ("idefics3", idefics3_tensors),
}
OLD = ("gemma3", "qwen2_vl", "smolvlm", "llava")  # without gates, in files of older converters too


def write_sizes(writer, vision, text, mean, std):
    """What MmprojModel writes, after the families' classes have renamed members of config.json."""
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_clip_has_vision_encoder(True)
    writer.add_vision_projection_dim(text["hidden_size"])
    side = {name: vision[name][0] if isinstance(vision[name], list) else vision[name] for name in ("image_size", "patch_size")}
    writer.add_vision_image_size(side["image_size"])
    writer.add_vision_patch_size(side["patch_size"])
    writer.add_vision_embedding_length(vision["hidden_size"])
    writer.add_vision_feed_forward_length(vision["intermediate_size"])
    writer.add_vision_block_count(vision["num_hidden_layers"])
    writer.add_vision_head_count(vision["num_attention_heads"])
    writer.add_vision_image_mean(mean)
    writer.add_vision_image_std(std)


def pixtral_metadata(config, writer):
    """The base is a key of the class for Mistral's own layout alone."""
    vision = config["vision_config"]
    writer.add_vision_attention_layernorm_eps(1e-5)
    (writer.add_vision_use_silu if vision["hidden_act"] == "silu" else writer.add_vision_use_gelu)(True)
    if "spatial_merge_size" in config:
        writer.add_vision_spatial_merge_size(config["spatial_merge_size"])
    if "rope_parameters" in vision:
        writer.add_rope_freq_base(vision["rope_parameters"]["rope_theta"])


def mlp_metadata(config, writer):
    vision = config["vision_config"]
    clip = vision["model_type"] == "clip_vision_model"
    writer.add_bool("clip.has_llava_projector", True)
    writer.add_vision_attention_layernorm_eps(vision.get("layer_norm_eps", 1e-5 if clip else 1e-6))
    writer.add_vision_use_gelu(vision.get("hidden_act", "quick_gelu" if clip else "") == "gelu")
    if "image_grid_pinpoints" in config:
        writer.add_array("clip.vision.image_grid_pinpoints", [side for size in config["image_grid_pinpoints"] for side in size])
        writer.add_string("clip.vision.mm_patch_merge_type", "spatial_unpad")
    writer.add_array("clip.vision.feature_layer", [used_layers(config)])


def glm_metadata(config, writer):
    """Squares of three by three have a key that the published models, of two by two, lack."""
    vision = config["vision_config"]
    writer.add_vision_use_silu(True)
    writer.add_vision_attention_layernorm_eps(vision["rms_norm_eps"])
    if vision["spatial_merge_size"] != 2:
        writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])


def paddle_metadata(config, writer):
    writer.add_vision_max_pixels(4096)
    writer.add_vision_min_pixels(64)
    writer.add_vision_use_gelu(True)
    writer.add_vision_attention_layernorm_eps(config["vision_config"]["layer_norm_eps"])


def kimi_metadata(kind, config, writer):
    vision = config["vision_config"]
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(vision["merge_kernel_size"][0])
    writer.add_vision_attention_layernorm_eps(1e-5)
    if kind == "kimi_k25":
        for name in ("height", "width", "time"):
            writer.add_uint32(f"vision.pos_emb_{name}", vision[f"init_pos_emb_{name}"])
        writer.add_vision_min_pixels(8 * vision["patch_size"] ** 2)
        writer.add_vision_max_pixels(64 * vision["patch_size"] ** 2)


def hunyuan_tower_metadata(config, writer):
    vision = config["vision_config"]
    writer.add_vision_use_gelu(True)
    writer.add_vision_attention_layernorm_eps(vision["rms_norm_eps"])
    writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
    writer.add_vision_min_pixels(64)
    writer.add_vision_max_pixels(4096)


def tower_metadata(kind, config, text, writer):
    vision, projector = dict(config["vision_config"]), PROJECTORS[kind][0]
    if kind.startswith("kimi"):
        vision = {name.removeprefix("vt_"): value for name, value in vision.items()}
        vision["image_size"] = vision["init_pos_emb_height"] * vision["patch_size"]
    clip = kind.startswith("qwen2") or projector in ("pixtral", "mlp", "glm4v", "paddleocr", "hunyuanvl")
    mean, std = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]) if clip else ([0.5] * 3, [0.5] * 3)
    if kind.startswith("internvl"):
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    if kind == "lfm2_vl":
        vision["image_size"] = 256
    if projector == "janus_pro":
        vision["image_size"] = vision.get("image_size") or vision["params"]["image_size"]
        vision["intermediate_size"] = int(vision["hidden_size"] * vision["mlp_ratio"])
        mean, std = ([0.5] * 3, [0.5] * 3) if kind == "janus" else ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
    if projector == "hunyuanvl":
        vision["image_size"] = vision["max_image_size"]
    if kind.startswith("gemma4"):
        mean, std = [0.0] * 3, [1.0] * 3
        vision["image_size"] = 224
    if kind.startswith(("qwen", "glm")):
        vision |= {"num_hidden_layers": vision["depth"], "num_attention_heads": vision["num_heads"]}
        vision["image_size"] = vision["image_size"] if kind.startswith("glm") else 560
    if kind == "qwen2_vl":
        vision |= {"intermediate_size": vision["hidden_size"], "hidden_size": vision["embed_dim"]}
    if projector == "qwen3vl_merger":
        vision["image_size"] = int(vision["num_position_embeddings"] ** 0.5 * vision["patch_size"])
    if projector in ("pixtral", "mlp"):
        vision["num_hidden_layers"] = used_layers(config)
    joint = {"hidden_size": vision.get("projection_dim", 0)}  # CLIP's own
    write_sizes(writer, vision, joint if projector == "mlp" else text, mean, std)
    if kind.startswith("gemma4"):
        writer.add_clip_vision_projector_type(projector)
    else:
        writer.add_clip_projector_type(projector)
    if projector in ("pixtral", "mlp"):
        (pixtral_metadata if projector == "pixtral" else mlp_metadata)(config, writer)
        return
    if kind.startswith("kimi"):
        kimi_metadata(kind, config, writer)
        return
    if projector == "hunyuanvl":
        hunyuan_tower_metadata(config, writer)
        return
    if projector in ("glm4v", "paddleocr"):
        (glm_metadata if projector == "glm4v" else paddle_metadata)(config, writer)
        return
    epsilon = text["rms_norm_eps"] if kind.startswith("qwen") else vision.get("layer_norm_eps", 1e-6)
    writer.add_vision_attention_layernorm_eps(epsilon)
    if kind == "qwen2_5_vl":
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(vision["fullatt_block_indexes"][0] + 1)
        writer.add_uint32("clip.vision.window_size", vision["window_size"])
    elif kind != "qwen2_vl" and not kind.startswith("gemma4"):
        writer.add_vision_use_gelu(True)
    if projector == "qwen3vl_merger":
        writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
        deep = vision.get("deepstack_visual_indexes", [])
        writer.add_vision_is_deepstack_layers([layer in deep for layer in range(vision["num_hidden_layers"])])
    if kind.startswith("internvl"):
        writer.add_vision_projector_scale_factor(int(1 / config["downsample_ratio"]))
    if kind == "lfm2_vl":
        writer.add_vision_projector_scale_factor(config["downsample_factor"])
    if kind == "gemma3":
        across = int(config["mm_tokens_per_image"] ** 0.5)
        writer.add_vision_projector_scale_factor(vision["image_size"] // vision["patch_size"] // across)
    if kind == "smolvlm":
        writer.add_vision_projector_scale_factor(config["scale_factor"])
        writer.add_vision_preproc_image_size(4 * vision["image_size"])
    if kind.startswith("gemma4") and vision["pooling_kernel_size"] != 3:
        writer.add_vision_projector_scale_factor(vision["pooling_kernel_size"])


def add_tensors(writer, tensors, kind):
    for name, array in tensors.items():
        keep = array.ndim < 2 or "position_embd" in name
        writer.add_tensor(name, np.ascontiguousarray(stored(array, "F32" if keep else kind)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def swapped(name):
    return name.replace("ffn_up", "ffn_?").replace("ffn_down", "ffn_up").replace("ffn_?", "ffn_down")


def text_config(config):
    text = dict(config.get("text_config") or config.get("language_config") or config)
    text.setdefault("head_dim", text["hidden_size"] // text["num_attention_heads"])
    text["deepstack"] = config["vision_config"].get("deepstack_visual_indexes", [])
    return text


def write_text(kind, config, tensors, path, add_more=lambda writer: None):
    writer = gguf.GGUFWriter(str(path), TEXTS[kind][0])
    text = text_config(config)
    text_metadata(kind, text, writer)
    add_more(writer)
    add_tensors(writer, text_tensors(kind, text, split_names(tensors)[0]), "F32")


def write_tower(kind, config, tensors, path, type_name="F32", old=False):
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_type("mmproj")
    tower_metadata(kind, config, text_config(config), writer)
    words, tower, rest = split_names(tensors)
    found = PROJECTORS[kind][1](config, tower, rest)
    if PROJECTORS[kind][0] == "pixtral":
        found["v.token_embd.img_break"] = words["model.embed_tokens.weight"][BREAK_TOKEN]
    add_tensors(writer, {swapped(name) if old else name: array for name, array in found.items()}, type_name)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    fresh = target.with_name(f"{target.name}.{os.getpid()}.part")
    for kind in TEXTS:
        folder = fresh / kind
        folder.mkdir(parents=True)
        config = json.loads((source / kind / "config.json").read_text())
        tensors = read_safetensors(source / kind / "model.safetensors")
        write_text(kind, config, tensors, folder / "text.gguf")
        write_tower(kind, config, tensors, folder / "mmproj.gguf")
        write_tower(kind, config, tensors, folder / "mmproj-f16.gguf", "F16")
        if kind in OLD:
            write_tower(kind, config, tensors, folder / "mmproj-swapped.gguf", old=True)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


if __name__ == "__main__":
    main()
