#!/usr/bin/env python3
"""Records what Hugging Face transformers makes of the ten clips of tests/api/video_clips.py, for chats with the tiny vision models.

usage: video_requests.py DIRECTORY [--media]

Writes DIRECTORY/requests.json: for each family, clip and form ("file": frames are sampled, "list": all are shown) the frames that
its video processor shows, their size, and of the prompt the token ids and the log-probabilities of the next token, computed in F32.
Positions are the rule of video_scenes.py. Qwen3-VL's times stand in place of the placeholder and the marks around it, as in
transformers up to 4.57 (5.24 leaves the marks, so that they are doubled).

The rates of files are those of the clips; of a list two frames a second (qwen-vl-utils), and clips of one frame are shown as
two, because the processors refuse them. With --media also DIRECTORY/N.gif and N.webp, which Pillow writes without loss; clip 5
has frames of different durations in them. Needs torch, transformers, numpy and Pillow.
"""
import importlib
import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from PIL import Image
from transformers.video_utils import VideoMetadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
import video_clips  # noqa: E402
from vision_folder import CHARACTERS, FIRST_CHARACTER, SPECIAL  # noqa: E402

START, END, VIDEO_TOKEN = 89, 90, 92
CHARACTER_IDS = {character: FIRST_CHARACTER + i for i, character in enumerate(CHARACTERS)}
UNEVEN = [30, 30, 200, 300, 100, 40, 60, 500, 120, 30, 30, 120]  # milliseconds: as long as 12 of 130


def text_ids(text):
    return [CHARACTER_IDS[character] for character in text]


def processor_of(family):
    made = transformers.Qwen3VLVideoProcessor if is_timed(family) else transformers.Qwen2VLVideoProcessor
    return made(**video_clips.settings(family.CONFIG["model_type"]))


def is_timed(family):
    return family.CONFIG["model_type"] in ("qwen3_vl", "qwen3_5")


def shown(family, number, form):
    """(processor's output, frames shown, rate of the source)"""
    frames = video_clips.frames(number)
    rate = 1000 / video_clips.CLIPS[number][3] if form == "file" else 2.0
    metadata = VideoMetadata(total_num_frames=len(frames), fps=rate, frames_indices=list(range(len(frames))))
    if len(frames) == 1:
        frames = np.concatenate([frames, frames])
    sampled = form == "file" and len(video_clips.frames(number)) > 1
    video = torch.tensor(frames).permute(0, 3, 1, 2)
    made = processor_of(family)([video], video_metadata=[metadata], do_sample_frames=sampled, return_tensors="pt",
                                return_metadata=True)
    return made, [int(index) for index in made["video_metadata"][0].frames_indices], rate


def prompt_of(family, grid, indices, rate, source):
    """(ids, positions, types)"""
    patches, lines, columns = grid[0], grid[1] // 2, grid[2] // 2
    ids, where, types = [], [], []

    def text(tokens):
        position = max((max(at) for at in where), default=-1) + 1
        for token in tokens:
            ids.append(token), where.append((position,) * 3), types.append(0)
            position += 1

    padded = indices + indices[-1:] * (2 * patches - len(indices))
    seconds = [(padded[2 * at] / rate + padded[2 * at + 1] / rate) / 2 for at in range(patches)]
    each = np.float32(1)
    if family.CONFIG["model_type"] == "qwen2_5_vl":
        each = np.float32(np.float32(2 / (len(indices) / source * rate)) * family.CONFIG["vision_config"]["tokens_per_second"])
    text([SPECIAL["<|im_start|>"]] + text_ids("user:"))
    start = 0
    for at in range(patches):
        if at == 0 or is_timed(family):
            text((text_ids(f"<{seconds[at]:.1f} seconds>") if is_timed(family) else []) + [START])
            start = max(max(one) for one in where) + 1
        time = 0 if is_timed(family) else int(np.float32(at) * each)
        for y in range(lines):
            for x in range(columns):
                ids.append(VIDEO_TOKEN), types.append(2), where.append((start + time, start + y, start + x))
        if at == patches - 1 or is_timed(family):
            text([END])
    text(text_ids(video_clips.QUESTION) + [SPECIAL["<|im_end|>"], SPECIAL["<|im_start|>"]] + text_ids("assistant:"))
    return ids, where, types


def answer(family, model, number, form):
    made, indices, rate = shown(family, number, form)
    grid = made["video_grid_thw"][0].tolist()
    source = len(video_clips.frames(number))
    ids, where, types = prompt_of(family, grid, indices, rate, source)
    with torch.no_grad():
        logits = model(torch.tensor([ids]), pixel_values_videos=made["pixel_values_videos"], video_grid_thw=made["video_grid_thw"],
                       position_ids=torch.tensor(where).T[:, None], mm_token_type_ids=torch.tensor([types])).logits[0, -1]
    return {"frames": indices, "width": grid[2] * 4, "height": grid[1] * 4, "ids": ids,
            "logprobs": [round(value, 5) for value in torch.log_softmax(logits.float(), 0).tolist()]}


def write_media(folder):
    """The clips as GIF and WebP. Colours are indices into a palette of 216, so that nothing is lost."""
    steps = [51 * i for i in range(6)]
    palette = [value for r in steps for g in steps for b in steps for value in (r, g, b)]
    for number, (count, *_, delay) in enumerate(video_clips.CLIPS):
        frames = video_clips.frames(number)
        delays = UNEVEN if number == 5 else [delay] * count
        images = []
        for frame in frames // 51:
            image = Image.fromarray((frame[..., 0] * 36 + frame[..., 1] * 6 + frame[..., 2]).astype(np.uint8), "P")
            image.putpalette(palette)
            images.append(image)
        images[0].save(folder / f"{number}.gif", save_all=True, append_images=images[1:], duration=delays, loop=0)
        colours = [Image.fromarray(frame) for frame in frames]
        colours[0].save(folder / f"{number}.webp", save_all=True, append_images=colours[1:], duration=delays, lossless=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    recorded = {}
    for name in video_clips.FAMILIES:
        family = importlib.import_module(f"towers.{name}_tower")
        model = getattr(transformers, family.CLASS).from_pretrained(ROOT / "tests/golden/towers" / name, dtype=torch.float32,
                                                                   attn_implementation="eager").eval()
        recorded[name] = {}
        for number, clip in enumerate(video_clips.CLIPS):
            recorded[name][number] = {form: answer(family, model, number, form) for form in ("file", "list") if
                                      form == "file" or clip[0] <= video_clips.MAX_FRAMES}
            for form, made in recorded[name][number].items():
                print(name, number, form, len(made["frames"]), made["width"], made["height"], len(made["ids"]))
    lines = json.dumps(recorded, separators=(",", ":")).replace('"file"', '\n"file"').replace('"list"', '\n"list"')
    (folder / "requests.json").write_text(lines + "\n")
    if "--media" in sys.argv:
        write_media(folder)


if __name__ == "__main__":
    main()
