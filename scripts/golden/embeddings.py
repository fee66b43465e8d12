#!/usr/bin/env python3
"""Records embeddings of sentence-transformers and vectors of transformers, of the tiny checkpoints in build/checkpoints.

usage: embeddings.py TARGET [NAME...]

NAME: tokens, sentences, dense, encoders or pairs; default: all.

TARGET (tests/golden/embeddings) gets tokens.json, last hidden states of lists of token ids, pooled in double precision, and
sentences.json, what SentenceTransformer.encode() gives for texts in the folders of tests/api/sentence_folder.py; dense.json, the same with
Dense modules of drawn shapes; encoders.json and pairs.json, embeddings and CrossEncoder.predict() of the tiny encoders of
tests/api/encoder_folder.py. Needs torch, transformers and sentence-transformers; `make` has written the checkpoints.
"""
import json
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))

import encoder_folder  # noqa: E402
import sentence_folder  # noqa: E402
import sentence_transformers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

FAMILIES = ["qwen3", "gemma3", "qwen3_5"]
LENGTHS = [1, 2, 17, 64, 65, 300]
TEXTS = ["Paris is in France.", "Gr\u00fc\u00dfe aus K\u00f6ln", "a", "water " * 40]
ENCODER_TEXTS = ["Paris is in France.", "Gr\u00fc\u00dfe aus K\u00f6ln, \u6f22\u5b57!", "a", "water stone rivers " * 12]
QUERY = "Find the River"
VERSIONS = {"transformers": transformers.__version__, "torch": torch.__version__,
            "sentence-transformers": sentence_transformers.__version__, "script": "scripts/golden/embeddings.py"}


def pooled(hidden):
    hidden = hidden.double()
    return {"last": hidden[-1].tolist(), "cls": hidden[0].tolist(), "mean": hidden.mean(0).tolist()}


def tokens(rng):
    cases = []
    for family in FAMILIES:
        model = transformers.AutoModel.from_pretrained(ROOT / f"build/checkpoints/{family}-f32", dtype=torch.float32)
        for length in LENGTHS:
            ids = [rng.randrange(40, 250) for _ in range(length)]
            with torch.no_grad():
                cases.append({"family": family, "ids": ids, **pooled(model(torch.tensor([ids])).last_hidden_state[0])})
    return cases


def sentences(scratch):
    cases = []
    for pooling, normalizes, tail in [("last", True, "<|end|>"), ("mean", False, None), ("cls", True, None)]:
        folder = sentence_folder.make_folder(ROOT / "build/checkpoints/qwen3-f32", scratch / pooling, pooling, normalizes=normalizes, tail=tail)
        model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        case = {"pooling": pooling, "normalizes": normalizes, "tail": tail, "texts": TEXTS}
        case["plain"] = model.encode(TEXTS).tolist()
        case["query"] = model.encode(TEXTS, prompt_name="query").tolist()
        case["cut"] = model.encode(TEXTS, truncate_dim=24, normalize_embeddings=True).tolist()
        cases.append(case)
    return cases


def dense_forms(rng):
    """One module with the default activation, and two with a wide one between (EmbeddingGemma's shape)."""
    identity, tanh = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
    wide, last = rng.randrange(200, 400), rng.randrange(24, 100)
    return [[{"columns": rng.randrange(24, 150), "activation": None, "bias": True, "seed": rng.randrange(1000), "kind": "F32"}],
            [{"columns": wide, "activation": identity, "bias": False, "seed": rng.randrange(1000), "kind": "BF16"},
             {"columns": last, "activation": tanh, "bias": True, "seed": rng.randrange(1000), "kind": "F16"}],
            [{"columns": last, "activation": identity, "bias": True, "seed": rng.randrange(1000), "kind": "F32"}]]


def dense(rng, scratch):
    cases = []
    for i, (forms, pooling) in enumerate(zip(dense_forms(rng), ["mean", "last", "cls"])):
        normalizes, tail = i < 2, "<|end|>" if pooling == "last" else None
        folder = sentence_folder.make_folder(ROOT / "build/checkpoints/qwen3-f32", scratch / f"dense{i}", pooling, normalizes=normalizes,
                                             tail=tail, dense=forms)
        model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        case = {"pooling": pooling, "normalizes": normalizes, "tail": tail, "dense": forms, "texts": TEXTS}
        case["plain"] = model.encode(TEXTS).tolist()
        case["cut"] = model.encode(TEXTS, truncate_dim=16, normalize_embeddings=True).tolist()
        cases.append(case)
    return cases


def encoders(scratch):
    cases = []
    for kind, size, seed, pooling, normalizes in [("bert", "a", 1, "mean", True), ("bert", "b", 2, "cls", False), ("bert", "a", 3, "max", True),
                                                  ("roberta", "a", 4, "cls", True), ("xlm-roberta", "b", 5, "mean", True),
                                                  ("modernbert", "a", 10, "mean", True), ("modernbert", "b", 11, "cls", False)]:
        form = {"kind": kind, "size": size, "seed": seed, "pooling": pooling, "normalizes": normalizes}
        folder = encoder_folder.make_folder(scratch / f"encoder{seed}", **form)
        model = sentence_transformers.SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
        case = {**form, "texts": ENCODER_TEXTS, "plain": model.encode(ENCODER_TEXTS).tolist()}
        case["cut"] = model.encode(ENCODER_TEXTS, truncate_dim=24, normalize_embeddings=True).tolist()
        cases.append(case)
    return cases


def pairs(scratch):
    cases = []
    for kind, size, seed in [("bert", "a", 6), ("bert", "b", 7), ("roberta", "a", 8), ("xlm-roberta", "b", 9), ("modernbert", "a", 12), ("modernbert", "b", 13)]:
        form = {"kind": kind, "size": size, "seed": seed, "labels": 1}
        model = sentence_transformers.CrossEncoder(str(encoder_folder.make_folder(scratch / f"pairs{seed}", **form)), device="cpu")
        both = [(QUERY, text) for text in ENCODER_TEXTS]
        cases.append({**form, "query": QUERY, "texts": ENCODER_TEXTS, "scores": model.predict(both).tolist(),
                      "logits": model.predict(both, activation_fn=torch.nn.Identity()).tolist()})
    return cases


def main():
    target, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        makers = {"tokens": lambda: tokens(random.Random(20261124)), "sentences": lambda: sentences(scratch),
                  "dense": lambda: dense(random.Random(20261127), scratch),
                  "encoders": lambda: encoders(scratch), "pairs": lambda: pairs(scratch)}
        for name in names or makers:
            text = json.dumps({"made_by": VERSIONS, "cases": makers[name]()})
            (target / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
