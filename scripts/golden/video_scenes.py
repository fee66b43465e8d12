#!/usr/bin/env python3
"""Records the answers of Hugging Face transformers for videos, with the tiny checkpoints of tests/golden/towers.

usage: video_scenes.py DIRECTORY [FAMILY ...]       writes DIRECTORY/FAMILY_video
       video_scenes.py --check DIRECTORY [FAMILY ...]  only compares the positions in them

The files are those of tower_folders.py without config.json and model.safetensors: scene.txt begins with "of" and the
folder whose checkpoint it is, and a line "image" of a temporal patch ends with "frames" and their number. Each temporal
patch of a video is an image of its own; its pixels are [frames, height, width, 3].

transformers' video processors cut the frames into patches, its models give features and logits in F32. Positions are
Qwen2-VL's rule, written out here: text follows the largest position of a video, as in transformers up to 4.57, and a
video's time is in float, as from 5.0 on. `--check` holds the positions against get_rope_index of the transformers that runs
it, where that one has the rule: 4.57.3 for all videos at whole seconds, 5.24 for those that are not longer than wide or high.
Needs torch, transformers and numpy.
"""
import importlib
import pathlib
import sys

import numpy as np
import torch
import transformers


# frames, width, height in pixels, frames a second; the last frame of an odd number is repeated
CLIPS = [(6, 24, 16, 2.0), (3, 16, 24, 0.7), (8, 8, 8, 1.0)]
IMAGE = (40, 24)
STILL = "image"
PROMPTS = [[0], [1, STILL], [2, 0, STILL, 1]]
FAMILIES = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"]
START, END, VIDEO_TOKEN = 89, 90, 92


def grid_of(family, clip):
    """Temporal patches, lines and columns of features."""
    frames, width, height, _ = clip
    vision = family.CONFIG["vision_config"]
    side = vision["patch_size"] * vision["spatial_merge_size"]
    return -(-frames // 2), height // side, width // side


def is_timed(family):
    """Whether the temporal patches have text between them."""
    return family.CONFIG["model_type"] in ("qwen3_vl", "qwen3_5")


def times_of(family, clip):
    """The position in time of each temporal patch after the first one."""
    each = np.float32(1)
    if family.CONFIG["model_type"] == "qwen2_5_vl":
        each = np.float32(np.float32(2 / clip[3]) * family.CONFIG["vision_config"]["tokens_per_second"])
    return [int(np.float32(at) * each) for at in range(grid_of(family, clip)[0])]


def prompt_of(family, parts, starts, source):
    """(ids, feature rows, positions, types) of a prompt: text, then each part followed by text."""
    ids, rows, where, types = [], [], [], []

    def text(tokens):
        position = max((max(at) for at in where), default=-1) + 1
        for token in tokens:
            ids.append(token), rows.append(-1), types.append(0), where.append((position,) * 3)
            position += 1

    def grid(lines, columns, time, start, row, token):
        for y in range(lines):
            for x in range(columns):
                ids.append(token), rows.append(row + y * columns + x), types.append(2 if token == VIDEO_TOKEN else 1)
                where.append((start + time, start + y, start + x))

    text(source.integers(3, 80, 4).tolist())
    for part in parts:
        clip = (1, *IMAGE, 1.0) if part == STILL else CLIPS[part]
        _, lines, columns = grid_of(family, clip)
        timed = part != STILL and is_timed(family)
        token = family.IMAGE_TOKEN if part == STILL else VIDEO_TOKEN
        for at, time in enumerate([0] if part == STILL else times_of(family, clip)):
            if at == 0 or timed:
                text((source.integers(3, 80, 3).tolist() if timed else []) + [START])
                start = max(max(at) for at in where) + 1
            grid(lines, columns, 0 if timed else time, start, starts[part] + at * lines * columns, token)
            if timed:
                text([END])
        if not timed:
            text([END])
        text(source.integers(3, 80, 5).tolist())
    return ids, rows, where, types


def processors(family):
    from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor
    vision = family.CONFIG["vision_config"]
    sizes = {"do_resize": False, "do_convert_rgb": False, "patch_size": vision["patch_size"], "image_mean": list(family.MEAN),
             "image_std": list(family.STD), "temporal_patch_size": 2, "merge_size": vision["spatial_merge_size"]}
    return Qwen2VLImageProcessor(**sizes), Qwen2VLVideoProcessor(**sizes, do_sample_frames=False)


def rope_index(family, model, ids, types, grids):
    """transformers' own positions: [3, tokens]."""
    given = {"image_grid_thw": grids.get(1), "video_grid_thw": grids.get(2)}
    if family.CONFIG["model_type"] == "qwen2_5_vl" and grids.get(2) is not None:
        given["second_per_grid_ts"] = torch.tensor([2 / clip[3] for clip in grids["clips"]])
    if int(transformers.__version__.split(".")[0]) >= 5:
        given["mm_token_type_ids"] = torch.tensor([types])
    return model.get_rope_index(torch.tensor([ids]), **given)[0][:, 0].T.tolist()


def agrees(family, parts):
    """Whether this transformers has the rule for these parts."""
    clips = [CLIPS[part] for part in parts if part != STILL]
    if int(transformers.__version__.split(".")[0]) < 5:
        whole = all(2 / clip[3] == int(2 / clip[3]) for clip in clips)
        return whole or family.CONFIG["model_type"] != "qwen2_5_vl"
    return is_timed(family) or all(times_of(family, clip)[-1] < max(grid_of(family, clip)[1:]) for clip in clips)


def grids_of(family, parts):
    side = family.CONFIG["vision_config"]["spatial_merge_size"]
    clips = [CLIPS[part] for part in parts if part != STILL]
    made = {"clips": clips}
    if STILL in parts:
        _, lines, columns = grid_of(family, (1, *IMAGE, 1.0))
        made[1] = torch.tensor([[1, lines * side, columns * side]])
    if clips:
        made[2] = torch.tensor([[t, lines * side, columns * side] for t, lines, columns in (grid_of(family, c) for c in clips)])
    return made


def starts_of(family):
    starts, at = {}, 0
    for number, clip in enumerate(CLIPS):
        starts[number] = at
        at += int(np.prod(grid_of(family, clip)))
    starts[STILL] = at
    return starts


def check(family, folder):
    """Positions only, with a model of no layers."""
    from transformers import Qwen2_5_VLModel, Qwen2VLModel, Qwen3VLModel
    kind = family.CONFIG["model_type"]
    if kind == "qwen3_5":
        return
    made = {"qwen2_vl": Qwen2VLModel, "qwen2_5_vl": Qwen2_5_VLModel, "qwen3_vl": Qwen3VLModel}[kind]
    model = made.__new__(made)
    torch.nn.Module.__init__(model)
    model.config = transformers.AutoConfig.for_model(kind, **{k: v for k, v in family.CONFIG.items() if k != "model_type"})
    prompts = (folder / "scene.txt").read_text().split("prompt ")[1:]
    for parts, prompt in zip(PROMPTS, prompts):
        lines = [list(map(int, line.split())) for line in prompt.strip().split("\n")[1:]]
        ids = [line[0] for line in lines]
        types = [0 if line[1] < 0 else 2 if line[0] == VIDEO_TOKEN else 1 for line in lines]
        same = rope_index(family, model, ids, types, grids_of(family, parts)) == [line[2:] for line in lines]
        print(folder.name, parts, transformers.__version__, "the same" if same else "differs",
              "" if agrees(family, parts) else "(has another rule)")
        assert same or not agrees(family, parts)


def record(family, towers, folder):
    source = np.random.default_rng(family.SEED + 2000)
    model = getattr(transformers, family.CLASS).from_pretrained(towers, dtype=torch.float32, attn_implementation="eager").eval()
    images, videos = processors(family)
    clips = [source.integers(0, 256, (frames, height, width, 3)).astype(np.uint8) for frames, width, height, _ in CLIPS]
    still = source.integers(0, 256, (IMAGE[1], IMAGE[0], 3)).astype(np.uint8)
    lines = ["of " + towers.name, "normal " + " ".join(f"{value:.9g}" for value in (*family.MEAN, *family.STD))]
    pixels = []
    for clip, shown in zip(CLIPS, clips):
        patches, high, wide = grid_of(family, clip)
        shown = np.concatenate([shown, shown[-1:]]) if len(shown) % 2 else shown
        lines += [f"image 1 {clip[1]} {clip[2]} {high * wide} frames 2"] * patches
        pixels.append(shown)
    _, high, wide = grid_of(family, (1, *IMAGE, 1.0))
    lines.append(f"image 1 {IMAGE[0]} {IMAGE[1]} {high * wide}")
    pixels.append(still)

    def shown_video(numbers):
        made = videos([torch.tensor(clips[number]).permute(0, 3, 1, 2) for number in numbers], return_tensors="pt")
        return {"pixel_values_videos": made["pixel_values_videos"], "video_grid_thw": made["video_grid_thw"]}

    def shown_image():
        made = images([still], return_tensors="pt", input_data_format="channels_last")
        return {"pixel_values": made["pixel_values"], "image_grid_thw": made["image_grid_thw"]}

    logits, starts = [], starts_of(family)
    with torch.no_grad():
        features = torch.cat([family.features(family, model, {"pixel_values": made[0], "image_grid_thw": made[1]})
                              for made in (tuple(shown_video(range(len(CLIPS))).values()), tuple(shown_image().values()))])
        for parts in PROMPTS:
            ids, rows, where, types = prompt_of(family, parts, starts, source)
            given = shown_video([part for part in parts if part != STILL])
            given |= shown_image() if STILL in parts else {}
            grids = {"clips": [CLIPS[part] for part in parts if part != STILL],
                     1: given.get("image_grid_thw"), 2: given["video_grid_thw"]}
            if agrees(family, parts):
                assert rope_index(family, model.model, ids, types, grids) == [list(at) for at in where]
            found = model(torch.tensor([ids]), **given, position_ids=torch.tensor(where).T[:, None],
                          mm_token_type_ids=torch.tensor([types])).logits[0]
            lines.append(f"prompt {len(ids)}")
            lines += [f"{token} {row} {at[0]} {at[1]} {at[2]}" for token, row, at in zip(ids, rows, where)]
            logits.append(found.float().numpy())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.txt").write_text("\n".join(lines) + "\n")
    (folder / "pixels.u8").write_bytes(b"".join(part.tobytes() for part in pixels))
    (folder / "features.f32").write_bytes(features.float().numpy().astype("<f4").tobytes())
    (folder / "logits.f32").write_bytes(np.concatenate(logits).astype("<f4").tobytes())
    print(folder.name, tuple(features.shape), np.concatenate(logits).std(), transformers.__version__, torch.__version__)


def main():
    only_checks = sys.argv[1:2] == ["--check"]
    arguments = sys.argv[2 if only_checks else 1:]
    if not arguments:
        sys.exit(__doc__)
    towers = pathlib.Path(arguments[0])
    for name in arguments[1:] or FAMILIES:
        family, folder = importlib.import_module(f"towers.{name}_tower"), towers / f"{name}_video"
        check(family, folder) if only_checks else record(family, towers / name, folder)


if __name__ == "__main__":
    main()
