#!/usr/bin/env python3
"""Makes tiny checkpoints of Qwen2.5-Omni's thinker in tests/golden/towers and records the answers of Hugging Face transformers.

usage: omni_scenes.py DIRECTORY [NAME ...]

The files are those of tower_folders.py and sound_scenes.py. The weights have the published names (thinker.*), beside two tensors of a
talker, which is not served; NAME_wide has those that transformers saves and the thinker's config alone. A sound is one "image" for each
piece of 2 * n_window mel rows, which the publisher's code encodes apart. Prompts have sounds alone, beside images and text, videos, and
videos with their sound interleaved as the publisher's processor does. "greedy" lines follow each prompt: 24 tokens of greedy
generation. Positions are get_rope_index's. Needs torch, transformers and numpy.
"""
import json

import numpy as np
import torch
import transformers
from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import random_weights
from towers import VOCAB
from towers.qwen_vl_common import MEAN, STD

CLASS = "Qwen2_5OmniThinkerForConditionalGeneration"
VISION_START, VISION_END, AUDIO_START, AUDIO_END, AUDIO, IMAGE, VIDEO = 83, 84, 85, 86, 91, 92, 90
TOKENS = {"audio_token_index": AUDIO, "image_token_index": IMAGE, "video_token_index": VIDEO, "audio_start_token_id": AUDIO_START,
          "audio_end_token_id": AUDIO_END, "vision_start_token_id": VISION_START, "vision_end_token_id": VISION_END, "user_token_id": 82}
SOUNDS = [47, 20, 6, 61]  # mel rows
IMAGES = [(24, 16), (16, 40)]  # width, height
VIDEOS = [(8, 16, 16), (5, 16, 24)]  # frames, width, height
GREEDY = 24
# ("text", tokens), ("sound", n), ("image", n), ("video", n), ("film", video, sound): the sound is the video's own
PROMPTS = [
    [("sound", 0)],
    [("sound", 1), ("image", 0), ("sound", 2)],
    [("video", 0), ("sound", 3)],
    [("film", 0, 0), ("image", 1)],
    [("film", 1, 3)],
]


class Family:
    """`times`: positions a second, seconds of a piece, seconds of a temporal patch."""

    def __init__(self, seed, text, audio, vision, published, times):
        self.SEED, self.published, self.seconds = seed, published, times[2]
        self.CONFIG = {
            "architectures": [CLASS], "model_type": "qwen2_5_omni_thinker", "torch_dtype": "bfloat16", **TOKENS,
            "position_id_per_seconds": times[0], "seconds_per_chunk": times[1], "tie_word_embeddings": False,
            "text_config": {"model_type": "qwen2_5_omni_text", "vocab_size": VOCAB, "max_position_embeddings": 512, "bos_token_id": 1,
                            "eos_token_id": 2, "tie_word_embeddings": False, **text},
            "audio_config": {"model_type": "qwen2_5_omni_audio_encoder", "max_source_positions": 20, **audio},
            "vision_config": {"model_type": "qwen2_5_omni_vision_encoder", "hidden_act": "silu", "patch_size": 4, "spatial_merge_size": 2,
                              "temporal_patch_size": 2, "window_size": 16, **vision},
        }


FAMILIES = {
    "qwen2_5_omni": Family(
        231, {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}},
        {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 48, "num_mel_bins": 16, "n_window": 10,
         "output_dim": 32},
        {"depth": 2, "hidden_size": 32, "intermediate_size": 40, "num_heads": 2, "fullatt_block_indexes": [1], "out_hidden_size": 32},
        True, (5, 1, 0.4)),
    "qwen2_5_omni_wide": Family(
        232, {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 3,
              "rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [3, 2, 3]}},
        {"d_model": 40, "encoder_layers": 3, "encoder_attention_heads": 5, "encoder_ffn_dim": 56, "num_mel_bins": 20, "n_window": 8,
         "output_dim": 48},
        {"depth": 3, "hidden_size": 36, "intermediate_size": 56, "num_heads": 3, "fullatt_block_indexes": [0], "out_hidden_size": 48},
        False, (2, 2, 1.0)),
}


def tokens_of(rows):
    return ((rows - 1) // 2 + 1) // 2


def processors():
    sizes = {"do_resize": False, "do_convert_rgb": False, "patch_size": 4, "image_mean": list(MEAN), "image_std": list(STD),
             "temporal_patch_size": 2, "merge_size": 2}
    return Qwen2VLImageProcessor(**sizes), Qwen2VLVideoProcessor(**sizes, do_sample_frames=False)


class Scene:
    """Media of one family, and where their features are."""

    def __init__(self, family, source):
        config = family.CONFIG
        self.window = 2 * config["audio_config"]["n_window"]
        self.mels = config["audio_config"]["num_mel_bins"]
        self.per_second, self.seconds = config["position_id_per_seconds"], family.seconds
        self.chunk = int(self.per_second * config["seconds_per_chunk"])
        assert self.chunk == self.window // 4
        self.sounds = [source.normal(0, 0.5, (rows, self.mels)).astype(np.float32) for rows in SOUNDS]
        self.images = [source.integers(0, 256, (height, width, 3)).astype(np.uint8) for width, height in IMAGES]
        self.videos = [source.integers(0, 256, (frames, height, width, 3)).astype(np.uint8) for frames, width, height in VIDEOS]
        self.starts, self.lines, self.pixels, at = {}, [], [], 0
        for kind, media in (("sound", self.sounds), ("image", self.images), ("video", self.videos)):
            for number, medium in enumerate(media):
                self.starts[kind, number] = at
                for line, count, pixels in getattr(self, kind + "_parts")(medium):
                    self.lines.append(line)
                    self.pixels.append(pixels)
                    at += count
        self.all = at

    def sound_parts(self, sound):
        for first in range(0, len(sound), self.window):
            piece = sound[first:first + self.window]
            if tokens_of(len(piece)) > 0:
                yield (f"image 1 {self.mels} {len(piece)} {tokens_of(len(piece))} sound", tokens_of(len(piece)),
                       piece.astype("<f4").tobytes())

    def image_parts(self, image):
        height, width, _ = image.shape
        count = (height // 8) * (width // 8)
        yield f"image 1 {width} {height} {count}", count, image.tobytes()

    def video_parts(self, video):
        frames, height, width, _ = video.shape
        count = (height // 8) * (width // 8)
        for first in range(0, frames, 2):
            pair = video[[first, min(first + 1, frames - 1)]]
            yield f"image 1 {width} {height} {count} frames 2", count, pair.tobytes()

    def given(self, parts):
        """Arguments of the forward, and whether videos have their sound."""
        def of(kind):
            numbers = []
            for part in parts:
                if part[0] == kind:
                    numbers.append(part[1])
                elif part[0] == "film" and kind in ("video", "sound"):
                    numbers.append(part[1 if kind == "video" else 2])
            return numbers
        images, videos = processors()
        made, sounds = {}, [self.sounds[number] for number in of("sound")]
        if sounds:
            most = max(len(sound) for sound in sounds) + 3
            padded = [np.concatenate([sound, np.full((most - len(sound), self.mels), 0.7, np.float32)]) for sound in sounds]
            made["input_features"] = torch.tensor(np.stack(padded)).transpose(1, 2)
            made["feature_attention_mask"] = torch.tensor([[1] * len(sound) + [0] * (most - len(sound)) for sound in sounds])
        if of("image"):
            found = images([self.images[number] for number in of("image")], return_tensors="pt", input_data_format="channels_last")
            made.update(pixel_values=found["pixel_values"], image_grid_thw=found["image_grid_thw"])
        if of("video"):
            found = [videos([self.videos[number].transpose(0, 3, 1, 2)], return_tensors="pt") for number in of("video")]
            made.update(pixel_values_videos=torch.cat([each["pixel_values_videos"] for each in found]),
                        video_grid_thw=torch.cat([each["video_grid_thw"] for each in found]),
                        video_second_per_grid=torch.tensor([self.seconds] * len(found)))
        if any(part[0] == "film" for part in parts):
            made["use_audio_in_video"] = True
        return made

    def film(self, video, sound):
        """(token, feature row) of a video with its sound, as transformers' processor interleaves them."""
        processor = transformers.models.qwen2_5_omni.processing_qwen2_5_omni.Qwen2_5OmniProcessor
        shape = self.videos[video].shape
        each = (shape[1] // 8) * (shape[2] // 8)
        times = np.repeat(np.arange(-(-shape[0] // 2)), each) * self.seconds * self.per_second
        kinds = []
        for token, kind, number, chunks in (
                (VIDEO, "video", video, processor.get_chunked_index(None, times, self.chunk)),
                (AUDIO, "sound", sound, processor.get_chunked_index(None, np.arange(tokens_of(SOUNDS[sound])), self.chunk))):
            kinds.append([[(token, self.starts[kind, number] + at) for at in range(begin, end)] for begin, end in chunks])
        made = []
        for at in range(max(len(chunks) for chunks in kinds)):
            for chunks in kinds:
                made += chunks[at] if at < len(chunks) else []
        return made

    def prompt(self, parts, source):
        made = [(token, -1) for token in source.integers(3, 80, 3).tolist()]
        for part in parts:
            start, end = ([AUDIO_START], [AUDIO_END]) if part[0] == "sound" else ([VISION_START], [VISION_END])
            if part[0] == "film":
                start, end = [VISION_START, AUDIO_START], [AUDIO_END, VISION_END]
                middle = self.film(*part[1:])
            else:
                kind, number = part
                token = {"sound": AUDIO, "image": IMAGE, "video": VIDEO}[kind]
                media = getattr(self, kind + "s")[number]
                count = sum(count for _, count, _ in getattr(self, kind + "_parts")(media))
                middle = [(token, self.starts[kind, number] + at) for at in range(count)]
            made += [(token, -1) for token in start] + middle + [(token, -1) for token in end + source.integers(3, 80, 4).tolist()]
        return made


def features_of(model, scene):
    every = scene.given([("sound", number) for number in range(len(SOUNDS))] + [("image", number) for number in range(len(IMAGES))] +
                        [("video", number) for number in range(len(VIDEOS))])
    sounds = model.get_audio_features(every["input_features"], every["feature_attention_mask"]).last_hidden_state
    images = model.get_image_features(every["pixel_values"], every["image_grid_thw"]).pooler_output
    videos = model.get_video_features(every["pixel_values_videos"], every["video_grid_thw"]).pooler_output
    return torch.cat([sounds, *images, *videos])


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.CONFIG)
    model = getattr(transformers, CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    model.generation_config.eos_token_id = None
    weights = random_weights(family, model, source)
    config = family.CONFIG
    if family.published:
        weights = {"thinker." + key: w for key, w in weights.items()}
        weights["talker.model.norm.weight"] = np.ones(8, np.float32)
        weights["token2wav.unused.weight"] = np.ones((2, 4), np.float32)
        config = {"architectures": ["Qwen2_5OmniModel"], "model_type": "qwen2_5_omni", "enable_audio_output": True,
                  "thinker_config": family.CONFIG, "talker_config": {"model_type": "qwen2_5_omni_talker"}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    scene = Scene(family, source)
    lines = ["normal " + " ".join(f"{value:.9g}" for value in (*MEAN, *STD)), *scene.lines]
    all_logits = []
    with torch.no_grad():
        features = features_of(model, scene)
        assert features.shape[0] == scene.all, (features.shape, scene.all)
        for parts in PROMPTS:
            prompt = scene.prompt(parts, source)
            ids = torch.tensor([[token for token, _ in prompt]])
            given, mask = scene.given(parts), torch.ones(1, len(prompt), dtype=torch.long)
            model.model.rope_deltas = None
            logits = model(input_ids=ids, attention_mask=mask, **given).logits[0]
            lengths = given["feature_attention_mask"].sum(-1) if "feature_attention_mask" in given else None
            where = model.model.get_rope_index(ids, given.get("image_grid_thw"), given.get("video_grid_thw"), mask,
                                               given.get("use_audio_in_video", False), lengths, given.get("video_second_per_grid"))[0][:, 0]
            model.model.rope_deltas = None
            answer = model.generate(input_ids=ids, attention_mask=mask, **given, do_sample=False,
                                    max_new_tokens=GREEDY)[0, len(prompt):].tolist()
            assert len(answer) == GREEDY
            lines.append(f"prompt {len(prompt)}")
            lines += [f"{token} {row} {at[0]} {at[1]} {at[2]}" for (token, row), at in zip(prompt, where.T.tolist())]
            lines.append("greedy " + " ".join(str(token) for token in answer))
            all_logits.append(logits.float().numpy())
    scene_files.write(folder, name, lines, b"".join(scene.pixels), features, all_logits)


if __name__ == "__main__":
    scene_files.main(__doc__, FAMILIES, record)
