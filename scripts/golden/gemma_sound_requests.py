#!/usr/bin/env python3
"""Records what Hugging Face transformers makes of chats with the clips of tests/golden/audio/mels, for Gemma's tiny models that hear.

usage: gemma_sound_requests.py FILE

Writes JSON as audio_requests.py, for the settings of tests/api/vision_folder.py; "image" is clip 8 after a red image. Mel rows are those of
the publisher's feature extractors. Needs torch, transformers and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
from conformer_scenes import FAMILIES  # noqa: E402
from vision_folder import CHARACTERS, FIRST_CHARACTER, GEMMA3N_SOUND, GEMMA4_SOUND, GEMMA4_SOUND_WIDE, SPECIAL  # noqa: E402

GEMMA4 = {"extractor": "Gemma4AudioFeatureExtractor", "edges": ("", "<|audio>", "<audio|>", "")}
FORMS = {
    "gemma3n_sound": GEMMA3N_SOUND | {"extractor": "Gemma3nAudioFeatureExtractor",
                                      "edges": ("\n\n", "<start_of_audio>", "<end_of_audio>", "\n\n")},
    "gemma4_sound": GEMMA4_SOUND | GEMMA4,
    "gemma4_sound_wide": GEMMA4_SOUND_WIDE | GEMMA4,
}
QUESTION = "What sounds?"
CHARACTER_IDS = {character: FIRST_CHARACTER + i for i, character in enumerate(CHARACTERS + GEMMA3N_SOUND["characters"])}
CLIPS = {"gemma3n_sound": (4, 5, 6, 7, 8, 9), "gemma4_sound": (2, 5, 6, 7, 8, 9), "gemma4_sound_wide": (7, 9)}
RED = (200, 30, 30)  # of an image of 36 x 24 pixels


def text_ids(text):
    return [CHARACTER_IDS[character] for character in text]


def mel_rows(extractor, clip):
    samples = np.fromfile(ROOT / f"tests/golden/audio/mels/{clip}.s16", "<i2").astype(np.float32) / 32768
    made = extractor([samples], sampling_rate=16000, return_tensors="np")
    return made["input_features"][0][made["input_features_mask"][0]]


def answer(model, family, form, name, clips):
    extractor = getattr(transformers, form["extractor"])(feature_size=family.mels)
    rows = [mel_rows(extractor, clip) for clip in clips]
    ids, images = [SPECIAL["<|im_start|>"]] + text_ids("user:"), {}
    if name == "image":
        settings = {key: value for key, value in form["processor"].items() if key != "image_processor_type"}
        processor = transformers.Gemma4ImageProcessor(**settings)
        images = processor([np.full((24, 36, 3), RED, np.uint8)], return_tensors="pt", input_data_format="channels_last")
        count = images.pop("num_soft_tokens_per_image")[0]
        ids += [form["special"]["<|image>"]] + [family.TOKENS["image"]] * count + [form["special"]["<image|>"]]
    for made in rows:
        before, begin, end, after = form["edges"]
        ids += text_ids(before) + [form["special"][begin]] + [family.TOKENS["sound"]] * family.tokens(len(made))
        ids += [form["special"][end]] + text_ids(after)
    ids += text_ids(QUESTION) + [SPECIAL["<|im_end|>"], SPECIAL["<|im_start|>"]] + text_ids("assistant:")
    with torch.no_grad():
        logits = model(torch.tensor([ids]), **family.given(model, ids, rows, []), **images).logits[0, -1]
    return {"ids": ids, "logprobs": [round(value, 5) for value in torch.log_softmax(logits.float(), 0).tolist()]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    recorded = {}
    for name, form in FORMS.items():
        family = FAMILIES[name]
        model = family.made()
        stored = safetensors.torch.load_file(ROOT / "tests/golden/towers" / name / "model.safetensors")
        missing = set(model.state_dict()) - set(stored) - {"lm_head.weight"}
        model.load_state_dict({key: w.float() for key, w in stored.items()}, strict=False)
        assert not missing, missing
        model.tie_weights()
        prompts = {str(clip): [clip] for clip in CLIPS[name]} | {"two": [7, 9]} | ({"image": [8]} if name == "gemma4_sound" else {})
        recorded[name] = {prompt: answer(model, family, form, prompt, clips) for prompt, clips in prompts.items()}
        print(name, {prompt: made["ids"].count(family.TOKENS["sound"]) for prompt, made in recorded[name].items()}, transformers.__version__)
    pathlib.Path(sys.argv[1]).write_text(json.dumps(recorded, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
