#!/usr/bin/env python3
"""Makes tests/golden/adapters: LoRA adapters as PEFT saves them, of tiny checkpoints in tests/golden, with the logits.

usage: lora_adapters.py GOLDEN [NAME ...]

A folder has what PeftModel.save_pretrained() writes (adapter_config.json, adapter_model.safetensors), base.txt (the
checkpoint's folder below GOLDEN), ids.txt, logits.f32 (F32, little-endian, of every position, computed in F32 on the CPU by
transformers with the adapter) and greedy.txt (24 tokens that follow ids.txt, by argmax). Ranks, targets and weights are
drawn from the seed in CASES. Needs torch, transformers, peft and numpy.
"""
import json
import pathlib
import random
import sys

import numpy as np
import peft
import torch
import transformers

POSITIONS = 24
GREEDY = 24
LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# name: (checkpoint, modules that may be targets, seed, type, members of LoraConfig)
CASES = {
    "llama_plain": ("features/llama_biases-a", LLAMA, 11, torch.float32, {}),
    "llama_rslora": ("features/llama_biases-b", LLAMA, 12, torch.float32, {"use_rslora": True}),
    "llama_patterns": ("features/llama_biases-a", LLAMA, 13, torch.float32, {
        "rank_pattern": {"layers.1.self_attn.q_proj": 5, "down_proj": 3}, "alpha_pattern": {"down_proj": 2.5, "q_proj": 17}}),
    "llama_some_layers": ("features/llama_biases-b", LLAMA, 14, torch.float32, {"layers_to_transform": [1]}),
    "llama_wide": ("features/llama_biases-a", LLAMA, 15, torch.bfloat16, {"r": 256, "lora_alpha": 64}),
    "qwen3_half": ("features/qwen3_biases-a", LLAMA, 16, torch.float16, {}),
    "cohere2_plain": ("features/cohere2_biases-b", LLAMA, 17, torch.float32, {}),
    "olmo2_plain": ("features/olmo2_biases-a", LLAMA, 18, torch.float32, {}),
    "phi3_joined": ("checkpoints/phi3", ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], 19, torch.float32, {}),
}


def make(golden, name):
    base_name, targets, seed, kind, members = CASES[name]
    draw = random.Random(seed)
    torch.manual_seed(seed)
    members = {"r": draw.choice([1, 2, 4, 7, 16, 33]), "lora_alpha": draw.choice([1, 8, 12.5, 32]),
               "target_modules": sorted(draw.sample(targets, draw.randint(2, len(targets))))} | members
    if "rank_pattern" in members or members["r"] == 256:
        members["target_modules"] = targets
    base = transformers.AutoModelForCausalLM.from_pretrained(golden / base_name, dtype=torch.float32)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **members))
    for parameter_name, parameter in model.named_parameters():
        if "lora_" in parameter_name:
            values = torch.randn(parameter.shape) * 0.6 / parameter.shape[1] ** 0.5
            parameter.data = values.to(kind).to(torch.float32)
    folder = golden / "adapters" / name
    folder.mkdir(parents=True, exist_ok=True)
    model.eval()
    ids = torch.tensor([[draw.randrange(3, base.config.get_text_config().vocab_size) for _ in range(POSITIONS)]])
    with torch.no_grad():
        logits = model(ids).logits[0]
        plain = model.disable_adapter
        with plain():
            change = (model(ids).logits[0] - logits).abs().max() / logits.abs().max()
        assert change > 0.02, change
        row = ids
        for _ in range(GREEDY):
            row = torch.cat([row, model(row).logits[:, -1:].argmax(-1)], 1)
    (folder / "base.txt").write_text(base_name + "\n")
    (folder / "ids.txt").write_text(" ".join(map(str, ids[0].tolist())) + "\n")
    (folder / "greedy.txt").write_text(" ".join(map(str, row[0, POSITIONS:].tolist())) + "\n")
    logits.numpy().astype("<f4").tofile(folder / "logits.f32")
    model.to(kind).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base_name
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    print(name, config["r"], config["lora_alpha"], config["target_modules"], f"{float(change):.3f}")


def main():
    golden = pathlib.Path(sys.argv[1])
    print(f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, numpy {np.__version__}")
    for name in sys.argv[2:] or CASES:
        make(golden, name)


if __name__ == "__main__":
    main()
