#!/usr/bin/env python3
"""Writes the seeds of the fuzz target fuzz_ahead: whole checkpoints of a few kilobytes with a layer that predicts a further token (MTP).

usage: ahead_seeds.py FOLDER

FOLDER is tests/fuzz/corpus; the seeds go to its folder ahead. <family>.gguf is a file of GGUF; <family>.folder is a config.json, a
NUL and a safetensors file; <drafter>.pair is a GGUF file of a model and a folder of a drafter that reads its inner states. Weights are zeros in F16 (GGUF) and BF16; they have no tokenizer. The same bytes every time. Needs gguf
and numpy.
"""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np

from checkpoint_variants import add_settings, stored, write_safetensors, write_typed
from families import deepseek_v3, glm4_moe, llama, qwen3_5, qwen3_5_moe

SMALL = {"vocab_size": 8, "hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64}
DELTA = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1,
         "linear_num_value_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 2}
EXPERTS = {"moe_intermediate_size": 8, "num_experts_per_tok": 1}
ROUTED = EXPERTS | {"num_hidden_layers": 2, "intermediate_size": 8, "n_routed_experts": 2, "n_group": 1, "topk_group": 1,
                    "first_k_dense_replace": 1, "num_nextn_predict_layers": 1}
LATENT = {"num_key_value_heads": 2, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
CASES = {
    "qwen3_5": (qwen3_5, SMALL | DELTA | {"intermediate_size": 8}),
    "qwen3_5_moe": (qwen3_5_moe, SMALL | DELTA | EXPERTS | {"num_experts": 2, "shared_expert_intermediate_size": 8}),
    "glm4_moe": (glm4_moe, SMALL | ROUTED),
    "deepseek_v3": (deepseek_v3, SMALL | ROUTED | LATENT),
}


LAYER = SMALL | {"model_type": "llama", "intermediate_size": 8, "num_hidden_layers": 1, "attention_bias": False}
HALF = {f"mlp.{name}_proj.weight": (8, 16) for name in ("gate", "up")} | {"mlp.down_proj.weight": (16, 8), "self_attn.o_proj.weight": (16, 32),
        "post_attention_layernorm.weight": (16,), "input_layernorm.weight": (16,)}
HEAD = HALF | {"hidden_norm.weight": (16,), "self_attn.q_proj.weight": (32, 32)} | {f"self_attn.{name}_proj.weight": (16, 32) for name in "kv"}
BLOCK = HALF | {f"self_attn.{name}_norm.weight": (16,) for name in "qk"} | {"self_attn.q_proj.weight": (32, 16), "self_attn.k_proj.weight": (16, 16),
                                                                        "self_attn.v_proj.weight": (16, 16)}
DRAFTERS = {
    "eagle3": (LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 4, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}},
               {"fc.weight": (16, 48), "norm.weight": (16,), "lm_head.weight": (4, 16)} | {f"midlayer.{name}": shape for name, shape in HEAD.items()}),
    "eagle3_speculator": ({"speculators_model_type": "eagle3", "draft_vocab_size": 8, "transformer_layer_config": LAYER, "norm_before_fc": True,
                           "norm_before_residual": True, "eagle_aux_hidden_state_layer_ids": [1, 2, 3]},
                          {"fc.weight": (16, 48), "norm.weight": (16,), "lm_head.weight": (8, 16), "embed_tokens.weight": (8, 16),
                           "input_norm.weight": (48,)} | {f"layers.0.{name}": shape for name, shape in HEAD.items()}),
    "dflash": (LAYER | {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": 4, "num_hidden_layers": 2,
                        "dflash_config": {"mask_token_id": 7, "target_layer_ids": [0, 2]}},
               {"fc.weight": (16, 32), "norm.weight": (16,), "hidden_norm.weight": (16,)} |
               {f"layers.{layer}.{name}": shape for layer in range(2) for name, shape in BLOCK.items()}),
}


def shapes_after_last(family, config):
    """The layer after the last one."""
    number, hidden = config["num_hidden_layers"], config["hidden_size"]
    longer, at = family.shapes(config | {"num_hidden_layers": number + 1}), f"model.layers.{number}."
    norms = {at + name: (hidden,) for name in ("enorm.weight", "hnorm.weight", "shared_head.norm.weight")}
    copies = {at + name: (config["vocab_size"], hidden) for name in ("embed_tokens.weight", "shared_head.head.weight")}
    return {name: shape for name, shape in longer.items() if name.startswith(at)} | norms | copies | {
        at + "eh_proj.weight": (hidden, 2 * hidden)}


def mtp_shapes(family, config, shapes):
    """Of qwen3_5 and its mixture: the model's attention layer and what joins its inputs."""
    if "layer_types" not in config:
        return shapes_after_last(family, config)
    hidden, attends = config["hidden_size"], config["layer_types"].index("full_attention")
    at = f"model.layers.{attends}."
    found = {"mtp.layers.0." + name[len(at):]: shape for name, shape in shapes.items() if name.startswith(at)}
    norms = {f"mtp.{name}.weight": (hidden,) for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")}
    return found | norms | {"mtp.fc.weight": (hidden, 2 * hidden)}


def checkpoint(family, changes):
    config = family.CONFIG | changes
    shapes = family.shapes(config)
    return config, {name: np.zeros(shape, np.float32) for name, shape in (shapes | mtp_shapes(family, config, shapes)).items()}


def gguf_bytes(family, config, tensors):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(str(path), family.GGUF_ARCHITECTURE)
        if getattr(family, "GGUF_SHARED_SETTINGS", True):
            add_settings(writer, config)
        family.gguf_metadata(config, writer)
        for name, array in family.gguf_tensors(config, tensors).items():
            writer.add_tensor(name, array.astype(np.float32 if array.ndim == 1 else np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def folder_bytes(config, tensors):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        write_safetensors(path, tensors, "BF16")
        return json.dumps(config).encode() + b"\0" + path.read_bytes()


def drafter_bytes(config, shapes):
    tensors = {name: ("BF16", stored(np.ones(shape, np.float32), "BF16")) for name, shape in shapes.items()}
    if config.get("draft_vocab_size") == 4:
        tensors |= {"d2t": ("I64", np.arange(4, dtype=np.int64)), "t2d": ("BOOL", np.arange(8) % 2 == 0)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        write_typed(path, tensors)
        return json.dumps(config).encode() + b"\0" + path.read_bytes()


def target_bytes():
    config = json.loads((pathlib.Path(__file__).parents[2] / "tests/golden/checkpoints/llama/config.json").read_text())
    config |= SMALL | {"num_hidden_layers": 4, "intermediate_size": 8}
    return gguf_bytes(llama, config, {name: np.zeros(shape, np.float32) for name, shape in llama.shapes(config).items()})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[1]) / "ahead"
    target.mkdir(exist_ok=True)
    for name, (family, changes) in CASES.items():
        config, tensors = checkpoint(family, changes)
        (target / f"{name}.folder").write_bytes(folder_bytes(config, tensors))
        (target / f"{name}.gguf").write_bytes(gguf_bytes(family, config, tensors))
    model = target_bytes()
    for name, (config, shapes) in DRAFTERS.items():
        (target / f"{name}.pair").write_bytes(b"DRAFTER\0" + len(model).to_bytes(4, "little") + model + drafter_bytes(config, shapes))


if __name__ == "__main__":
    main()
