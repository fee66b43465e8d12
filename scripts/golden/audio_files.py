#!/usr/bin/env python3
"""Encodes one clip as ten audio files with ffmpeg and records the samples that PyAV decodes of them.

usage: audio_files.py DIRECTORY

The clip: a quarter of a second of three tones in stereo. Writes NAME, and NAME.f32: the mean of the channels at the file's own rate. files.txt has
the name, that rate and the number of samples of each, one a line.
"""

import pathlib
import subprocess
import sys
import wave

import av
import numpy as np

SECONDS = 0.25
FILES = [  # name, rate, options of ffmpeg
    ("s16.wav", 16000, ["-c:a", "pcm_s16le"]),
    ("s24.wav", 8000, ["-c:a", "pcm_s24le"]),
    ("f32.wav", 24000, ["-c:a", "pcm_f32le"]),
    ("mulaw.wav", 8000, ["-c:a", "pcm_mulaw"]),
    ("a.flac", 22050, ["-c:a", "flac"]),
    ("a.mp3", 16000, ["-c:a", "libmp3lame", "-b:a", "32k"]),
    ("vorbis.ogg", 16000, ["-c:a", "libvorbis", "-q:a", "1"]),
    ("opus.ogg", 48000, ["-c:a", "libopus", "-b:a", "32k"]),
    ("aac.m4a", 16000, ["-c:a", "aac", "-b:a", "32k"]),
    ("opus.webm", 48000, ["-c:a", "libopus", "-b:a", "32k"]),
]


def clip(rate):
    t = np.arange(round(SECONDS * rate)) / rate
    left = 0.4 * np.sin(2 * np.pi * 440 * t) + 0.1 * np.sin(2 * np.pi * 2700 * t)
    return np.stack([left, 0.3 * np.sin(2 * np.pi * 523 * t)], 1)


def decoded(path):
    with av.open(str(path)) as container:
        resampler = av.AudioResampler(format="fltp")  # of the same channels and rate
        pieces = [piece.to_ndarray() for frame in container.decode(audio=0) for piece in resampler.resample(frame)]
        pieces += [piece.to_ndarray() for piece in resampler.resample(None)]
        return np.concatenate(pieces, 1).mean(0), container.streams.audio[0].rate


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source.wav"
    lines = []
    for name, rate, options in FILES:
        with wave.open(str(source), "wb") as out:
            out.setnchannels(2)
            out.setsampwidth(2)
            out.setframerate(rate)
            out.writeframes((clip(rate) * 32767).round().astype("<i2").tobytes())
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", source, "-bitexact", *options, folder / name], check=True)
        samples, found = decoded(folder / name)
        samples.astype("<f4").tofile(folder / f"{name}.f32")
        lines.append(f"{name} {found} {len(samples)}\n")
    source.unlink()
    (folder / "files.txt").write_text("".join(lines), encoding="ascii")


main(pathlib.Path(sys.argv[1]))
