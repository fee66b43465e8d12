#!/usr/bin/env python3
"""Scores the sequences that llama.cpp answered with Hugging Face transformers, in F32, for the agreement tests.

usage: transformers_reference.py MODEL.gguf RECORDED.txt OUT.txt [--tokens N] [--text N] [--alternatives N]

MODEL.gguf is any file of the checkpoint: transformers writes its weights out as F32, as
scripts/golden/dequantize_gguf.py does. RECORDED.txt, of llama_cpp_reference.py or of this script, is read for its token ids
alone. OUT.txt has transformers' log-probabilities for the same positions in the same format: those of the token and of the
most probable tokens (2, or --alternatives). --tokens and --text limit the tokens that are kept of each answer and each text.

Needs the packages torch, transformers and gguf.
"""
import argparse
import pathlib
import sys

import torch
import transformers


def read_sequences(path):
    """(name, prompt ids, answer ids) of each."""
    name, prompt, tokens = None, [], []
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[0] == "sequence" and name:
            yield name, prompt, tokens
        if words[0] == "sequence":
            name, tokens = words[1], []
        elif words[0] == "prompt":
            prompt = [int(word) for word in words[1:]]
        elif words[0] == "token":
            tokens.append(int(words[1]))
    yield name, prompt, tokens


def score(model, prompt, tokens, alternatives):
    """One line for each token."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1]
    logprobs = torch.log_softmax(logits.double(), -1)
    best = logprobs.topk(alternatives)
    for at, token in enumerate(tokens):
        told = zip(best.indices[at].tolist(), best.values[at].tolist())
        yield "token %d %.6f " % (token, logprobs[at, token]) + " ".join("%d %.6f" % pair for pair in told)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("recorded")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--text", type=int)
    parser.add_argument("--alternatives", type=int, default=2)
    given = parser.parse_args()
    file = given.file
    model = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32, attn_implementation="eager")
    lines = ["model %s of transformers %s with torch %s, F32, eager attention" % (
        file.name, transformers.__version__, torch.__version__),
        " ".join(["command transformers_reference.py", *sys.argv[4:]])]
    for name, prompt, tokens in read_sequences(given.recorded):
        tokens = tokens[:given.tokens if name.startswith("greedy") else given.text]
        lines += [f"sequence {name} {len(prompt)} {len(tokens)}", " ".join(["prompt", *map(str, prompt)])]
        lines += score(model, prompt, tokens, given.alternatives)
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
