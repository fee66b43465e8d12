#!/usr/bin/env python3
"""Records greedy answers of Hugging Face transformers to tests/golden/greedy.

usage: greedy_answers.py CHECKPOINTS TARGET FAMILY ...

CHECKPOINTS is build/checkpoints, whose folders <family>-f32 are read. TARGET/<family>.json has two prompts of drawn token ids and the 24
tokens that follow by the largest logit, computed in F32 on the CPU from the whole sequence for each token, without a cache; and the least
difference between the two largest logits. Needs torch and transformers.
"""
import json
import pathlib
import sys

import torch
import transformers

TOKENS = 24
ORDINARY = (11, 256)  # ids of prompts


def answer(model, prompt):
    """The tokens, and the least margin."""
    ids, margin = torch.tensor([prompt]), float("inf")
    for _ in range(TOKENS):
        with torch.no_grad():
            best = model(ids, use_cache=False).logits[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        ids = torch.cat([ids, best.indices[None, :1]], 1)
    return ids[0, len(prompt):].tolist(), margin


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(parents=True, exist_ok=True)
    for family in sys.argv[3:]:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            source / f"{family}-f32", dtype=torch.float32, attn_implementation="eager").eval()
        answers = []
        for seed in (1, 2):
            drawn = torch.Generator().manual_seed(seed)
            prompt = torch.randint(*ORDINARY, (30 + 7 * seed,), generator=drawn).tolist()
            tokens, margin = answer(model, prompt)
            answers.append({"prompt": prompt, "tokens": tokens, "margin": round(margin, 6)})
        (target / f"{family}.json").write_text(json.dumps(answers) + "\n")
        print(family, [entry["margin"] for entry in answers], transformers.__version__, torch.__version__)


if __name__ == "__main__":
    main()
