#!/usr/bin/env python3
"""Records what Hugging Face transformers makes of the ten clips of tests/api/video_clips.py, for families whose videos have times as text.

usage: video_families.py FILE

Writes JSON: for each model of video_clips.TIMED, clip and form ("file": frames are sampled, "list": all are shown, at two a second) the
token ids that the family's processor makes of the rendered chat, and the log-probabilities of the next token, computed in F32 with
the positions of get_rope_index. A clip that the processor refuses is left out. Needs torch, transformers, tokenizers, num2words and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import tokenizers
import torch
import transformers
from transformers.video_utils import VideoMetadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
import video_clips  # noqa: E402
from tower_folders import random_weights  # noqa: E402
from towers import all_families  # noqa: E402
from vision_folder import CHARACTERS, SPECIAL, tokenizer  # noqa: E402

NAMES = {
    "glm4v": {"image_token": "<|image|>", "video_token": "<|video|>"},
    "smolvlm": {"image_token": "<image>", "fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>"},
    "gemma4": {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
               "boa_token": "<|audio>", "eoa_token": "<audio|>"},
}
UNUSED = {"<|audio|>": 81, "<|audio>": 82, "<audio|>": 83}


def processor_of(family, form, settings):
    special = SPECIAL | form["special"] | (UNUSED if family == "gemma4" else {})
    content = tokenizer(special, CHARACTERS + form.get("characters", ""))
    content["model"]["vocab"] |= special  # else their ids would be others
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(content)),
                                                extra_special_tokens=NAMES[family], pad_token="<|endoftext|>")
    if family == "glm4v":
        images = transformers.Glm4vImageProcessor(patch_size=settings["patch_size"], merge_size=settings["merge_size"])
        return transformers.Glm4vProcessor(images, made, transformers.Glm4vVideoProcessor(**settings))
    if family == "smolvlm":
        side = video_clips.SMOL_SIDE
        images = transformers.SmolVLMImageProcessor(size={"longest_edge": 48}, max_image_size={"longest_edge": side})
        return transformers.SmolVLMProcessor(images, made, transformers.SmolVLMVideoProcessor(**settings), image_seq_len=(side // 8) ** 2)
    images = transformers.Gemma4ImageProcessor(patch_size=4, pooling_kernel_size=settings["pooling_kernel_size"], max_soft_tokens=70)
    return transformers.Gemma4Processor(transformers.Gemma4AudioFeatureExtractor(), images, made,
                                        transformers.Gemma4VideoProcessor(**settings))


def model_of(name):
    """With the weights of its folder, which tower_folders.py drew."""
    family = all_families()[name]
    assert family.CONFIG.get("video_token_id", 92) == 92
    model = getattr(transformers, family.CLASS)._from_config(transformers.AutoConfig.for_model(**family.CONFIG), dtype=torch.float32,
                                                             attn_implementation="eager").eval()
    random_weights(family, model, np.random.default_rng(family.SEED))
    if "audio_token_id" in family.CONFIG:  # another token has that id in the chats
        model.config.audio_token_id = model.model.config.audio_token_id = UNUSED["<|audio|>"]
    return model


def answer(model, processor, form, number, kind):
    frames = video_clips.frames(number)
    rate = 1000 / video_clips.CLIPS[number][3] if kind == "file" else 2.0
    duration = len(frames) / rate if kind == "file" else None
    metadata = VideoMetadata(total_num_frames=len(frames), fps=rate, frames_indices=list(range(len(frames))), duration=duration)
    text = f"<|im_start|>user:{form['video_marker']}{video_clips.QUESTION}<|im_end|><|im_start|>assistant:"
    made = processor(text=[text], videos=[torch.tensor(frames).permute(0, 3, 1, 2)], return_tensors="pt", videos_kwargs={
        "video_metadata": [metadata], "do_sample_frames": kind == "file"})
    made = {name: value for name, value in made.items() if torch.is_tensor(value)}
    with torch.no_grad():
        logits = model(**made).logits[0, -1]
    return {"ids": made["input_ids"][0].tolist(), "logprobs": [round(value, 5) for value in torch.log_softmax(logits.float(), 0).tolist()]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    recorded = {}
    for name, (family, form, settings) in video_clips.TIMED.items():
        model, processor, recorded[name] = model_of(name), processor_of(family, form, settings), {}
        for number in range(len(video_clips.CLIPS)):
            for kind in ("file", "list"):
                try:
                    made = answer(model, processor, form, number, kind)
                except (ValueError, IndexError) as reason:
                    print(name, number, kind, reason)
                    continue
                if len(made["ids"]) < 450:
                    recorded[name].setdefault(str(number), {})[kind] = made
        print(name, {number: [len(made["ids"]) for made in forms.values()] for number, forms in recorded[name].items()}, transformers.__version__)
    pathlib.Path(sys.argv[1]).write_text(json.dumps(recorded, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
