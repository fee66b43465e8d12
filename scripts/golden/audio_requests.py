#!/usr/bin/env python3
"""Records what Hugging Face transformers makes of chats with the clips of tests/golden/audio/mels, for the tiny audio models.

usage: audio_requests.py FILE

Writes JSON: for each model and clip of at least one token, and for "two" (clips 7 and 9 in one message), the prompt's token ids and the
log-probabilities of the next token, computed in F32. Mel rows are those of WhisperFeatureExtractor with the settings of
tests/api/vision_folder.py. Needs torch, transformers and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
from vision_folder import AUDIO, CHARACTERS, FIRST_CHARACTER, SPECIAL  # noqa: E402

QUESTION = "What sounds?"
CHARACTER_IDS = {character: FIRST_CHARACTER + i for i, character in enumerate(CHARACTERS)}
BEGIN, END, AUDIO_TOKEN = 89, 90, 91
MELS = {"qwen2_audio": 16, "qwen2_audio_wide": 20}
PROMPTS = {str(clip): [clip] for clip in (5, 6, 7, 8, 9)} | {"two": [7, 9]}


def text_ids(text):
    return [CHARACTER_IDS[character] for character in text]


def tokens_of(rows):
    return ((rows - 1) // 2 + 1) // 2


def answer(model, extractor, clips):
    samples = [np.fromfile(ROOT / f"tests/golden/audio/mels/{clip}.s16", "<i2").astype(np.float32) / 32768 for clip in clips]
    made = extractor(samples, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt")
    ids = [SPECIAL["<|im_start|>"]] + text_ids("user:")
    for rows in made["attention_mask"].sum(-1).tolist():
        ids += [BEGIN] + [AUDIO_TOKEN] * tokens_of(rows) + [END]
    ids += text_ids(QUESTION) + [SPECIAL["<|im_end|>"], SPECIAL["<|im_start|>"]] + text_ids("assistant:")
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                       input_features=made["input_features"], feature_attention_mask=made["attention_mask"]).logits[0, -1]
    return {"ids": ids, "logprobs": [round(value, 5) for value in torch.log_softmax(logits.float(), 0).tolist()]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    recorded = {}
    for name, mels in MELS.items():
        model = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(ROOT / "tests/golden/towers" / name, dtype=torch.float32,
                                                                               attn_implementation="eager").eval()
        extractor = transformers.WhisperFeatureExtractor(**AUDIO["processor"] | {"feature_size": mels})
        recorded[name] = {prompt: answer(model, extractor, clips) for prompt, clips in PROMPTS.items()}
        print(name, {prompt: made["ids"].count(AUDIO_TOKEN) for prompt, made in recorded[name].items()}, transformers.__version__)
    pathlib.Path(sys.argv[1]).write_text(json.dumps(recorded, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
