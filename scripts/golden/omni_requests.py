#!/usr/bin/env python3
"""Records what Hugging Face transformers makes of chats with sounds, images and videos, for the tiny models of Qwen2.5-Omni.

usage: omni_requests.py DIRECTORY

Writes DIRECTORY/film.mkv, a film of 20 frames (H.264 without loss, in RGB) with 2.3 seconds of sound (FLAC), both computed by
tests/api/omni_clips.py, and DIRECTORY/requests.json: for each model and chat of omni_clips.CHATS the prompt's token ids, which
Qwen2_5OmniProcessor makes of the rendered chat, positions of get_rope_index and the log-probabilities of the next token, in F32.
The film's frames and samples are given as they are. Needs ffmpeg with libx264, torch, transformers, tokenizers and numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers
import torch
import transformers
from transformers.video_utils import VideoMetadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
import omni_clips  # noqa: E402
from vision_folder import OMNI, SPECIAL, tokenizer  # noqa: E402


def write_film(path):
    frames, samples = omni_clips.film_frames(), omni_clips.film_samples()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "v").write_bytes(frames.tobytes())
        (folder / "a").write_bytes(samples.tobytes())
        size = f"{frames.shape[2]}x{frames.shape[1]}"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(omni_clips.RATE), "-i",
                        folder / "v", "-f", "s16le", "-ar", "16000", "-ac", "1", "-i", folder / "a", "-c:v", "libx264rgb", "-qp", "0",
                        "-c:a", "flac", "-bitexact", path], check=True)


def processor_of(config):
    special = OMNI["special"]
    names = {"image_token": "<|IMAGE|>", "audio_token": "<|AUDIO|>", "video_token": "<|VIDEO|>", "vision_bos_token": "<|vision_bos|>",
             "vision_eos_token": "<|vision_eos|>", "audio_bos_token": "<|audio_bos|>", "audio_eos_token": "<|audio_eos|>"}
    content = tokenizer(SPECIAL | special)
    content["model"]["vocab"] |= SPECIAL | special  # else their ids would be others
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(content)), extra_special_tokens=names)
    settings = OMNI["processor"]
    sizes = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    images = transformers.Qwen2VLImageProcessor(**sizes, size={"shortest_edge": settings["min_pixels"], "longest_edge": settings["max_pixels"]})
    videos = transformers.Qwen2VLVideoProcessor(**OMNI["video"])
    sounds = transformers.WhisperFeatureExtractor(
        feature_size=config["audio_config"]["num_mel_bins"], sampling_rate=16000, hop_length=settings["hop_length"], n_fft=settings["n_fft"],
        chunk_length=settings["chunk_length"])
    return transformers.Qwen2_5OmniProcessor(image_processor=images, video_processor=videos, feature_extractor=sounds, tokenizer=made)


def rendered(parts):
    marks = {"sound": OMNI["audio_marker"], "image": OMNI["marker"], "video": OMNI["video_marker"], "film": OMNI["video_marker"]}
    return ("<|im_start|>user:" + "".join(marks[kind] if kind in marks else text for kind, text in parts)
            + "<|im_end|><|im_start|>assistant:")


def answer(model, processor, config, parts):
    sounds = [omni_clips.samples(number).astype(np.float32) / 32768 for kind, number in parts if kind == "sound"]
    images = [omni_clips.image(number) for kind, number in parts if kind == "image"]
    films = [kind for kind, _ in parts if kind in ("video", "film")]
    given, heard = {}, "film" in films
    assert len(set(films)) <= 1 and not (heard and sounds)
    if films:
        frames = omni_clips.film_frames()
        given = {"videos": [torch.tensor(frames).permute(0, 3, 1, 2)] * len(films), "videos_kwargs": {
            "video_metadata": [VideoMetadata(total_num_frames=len(frames), fps=float(omni_clips.RATE))] * len(films), "fps": 2.0,
            "do_sample_frames": True, "size": OMNI["video"]["size"]}}
    if heard:
        sounds = [omni_clips.film_samples().astype(np.float32) / 32768] * len(films)
        given |= {"load_audio_from_video": True, "audio_from_video_indices": list(range(len(films)))}
    made = processor(text=rendered(parts), audio=sounds or None, images=images or None, return_tensors="pt",
                     seconds_per_chunk=float(config["seconds_per_chunk"]), position_id_per_seconds=config["position_id_per_seconds"], **given)
    ids = made.pop("input_ids")
    names = ("attention_mask", "input_features", "feature_attention_mask", "pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw")
    arguments = {name: made[name] for name in names if name in made}
    if "video_second_per_grid" in made:
        arguments["video_second_per_grid"] = torch.as_tensor(made["video_second_per_grid"], dtype=torch.float32)
    model.model.rope_deltas = None
    with torch.no_grad():
        logits = model(input_ids=ids, use_audio_in_video=heard, **arguments).logits[0, -1]
    return {"ids": ids[0].tolist(), "logprobs": [round(value, 5) for value in torch.log_softmax(logits.float(), 0).tolist()]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_film(folder / "film.mkv")
    recorded = {}
    for name in omni_clips.MODELS:
        whole = json.loads((ROOT / "tests/golden/towers" / name / "config.json").read_text(encoding="ascii"))
        config = whole.get("thinker_config", whole)
        tensors = {}
        from safetensors.torch import load_file
        for key, tensor in load_file(ROOT / "tests/golden/towers" / name / "model.safetensors").items():
            if not key.startswith(("talker.", "token2wav.")):
                tensors[key.removeprefix("thinker.")] = tensor.float()
        with tempfile.TemporaryDirectory() as place:
            from safetensors.torch import save_file
            save_file(tensors, pathlib.Path(place) / "model.safetensors", metadata={"format": "pt"})
            (pathlib.Path(place) / "config.json").write_text(json.dumps(config), encoding="ascii")
            model = transformers.Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained(place, dtype=torch.float32,
                                                                                           attn_implementation="eager").eval()
        processor = processor_of(config)
        recorded[name] = {chat: answer(model, processor, config, parts) for chat, parts in omni_clips.CHATS.items()}
        print(name, {chat: len(made["ids"]) for chat, made in recorded[name].items()}, transformers.__version__)
    (folder / "requests.json").write_text(json.dumps(recorded, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
