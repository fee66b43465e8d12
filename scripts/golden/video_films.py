#!/usr/bin/env python3
"""Encodes clip 8 of tests/api/video_clips.py as films and records the frames that PyAV decodes of them.

usage: video_films.py DIRECTORY

Writes NAME and NAME.rgb for each film: u8 [frames, height, width, 3] of the frames that requests.json says are shown of the clip.
H.264 has B-frames, so that frames are decoded in another order than shown.
Needs PyAV and numpy.
"""
import json
import pathlib
import sys

import av
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/api"))
import video_clips  # noqa: E402

CLIP = 8
FILMS = {  # codec, its options, enlargement: encoders refuse 24 x 16
    "h264.mp4": ("libx264", {"crf": "30", "bf": "3"}, 2), "h264.mkv": ("libx264", {"crf": "34", "bf": "2"}, 2),
    "hevc.mp4": ("libx265", {"crf": "34", "x265-params": "log-level=none"}, 4), "vp8.webm": ("libvpx", {"crf": "40", "b": "100k"}, 2),
    "vp9.webm": ("libvpx-vp9", {"crf": "45", "b": "0"}, 2), "av1.mp4": ("libsvtav1", {"crf": "63"}, 4),
}


def encode(path, codec, options, times):
    frames = np.repeat(np.repeat(video_clips.frames(CLIP), times, axis=1), times, axis=2)
    with av.open(str(path), "w") as film:
        stream = film.add_stream(codec, rate=1000 // video_clips.CLIPS[CLIP][3], options=options)
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "yuv420p"
        stream.codec_context.thread_count = 1
        film.metadata["creation_time"] = "2026-11-28T12:00:00Z"  # as cameras write it
        for frame in frames:
            film.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        film.mux(stream.encode())


def decode(path):
    with av.open(str(path)) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
        return np.stack(frames), film.streams.video[0].average_rate


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    indices = json.loads((ROOT / "tests/golden/videos/requests.json").read_text())["qwen2_5_vl"][str(CLIP)]["file"]["frames"]
    for name, form in FILMS.items():
        encode(folder / name, *form)
        frames, rate = decode(folder / name)
        assert len(frames) == video_clips.CLIPS[CLIP][0] and rate == 20, (name, len(frames), rate)
        (folder / f"{name}.rgb").write_bytes(frames[indices].tobytes())
        print(name, frames.shape, (folder / name).stat().st_size, av.__version__, av.library_versions["libavcodec"])


if __name__ == "__main__":
    main()
