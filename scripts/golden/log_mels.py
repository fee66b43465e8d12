#!/usr/bin/env python3
"""Draws ten clips of odd lengths and records the log-mel rows that transformers' feature extractors make of them.

usage: log_mels.py DIRECTORY

N.s16 are the samples of clip N, 16,000 a second. N.FORM.f32 are the rows [frames, mels] that the model gets: whisper (80 mels, 30 s),
qwen (128 mels, 300 s), gemma3n and gemma4, each padded as its processor pads one clip, the rows that its mask leaves out not written.
"""

import pathlib
import sys

import numpy as np
from transformers import Gemma3nAudioFeatureExtractor, WhisperFeatureExtractor
from transformers.models.gemma4.feature_extraction_gemma4 import Gemma4AudioFeatureExtractor

LENGTHS = [1, 159, 161, 400, 513, 1601, 2999, 4001, 7919, 11025]
RATE = 16000


def clip(number, length):
    """Tones that rise, noise, and in odd clips a click. In mels 50 dB below the tones f32 windows alone move the logarithms by 1e-4."""
    drawn = np.random.default_rng(1000 + number)
    t = np.arange(length) / RATE
    tones = sum(drawn.uniform(0.02, 0.1) * np.sin(2 * np.pi * (drawn.uniform(80, 5000) + 400 * t) * t) for _ in range(4))
    sound = tones + drawn.normal(0, 0.01, length)
    if number % 2:
        sound[length // 2] += 0.5
    return (np.clip(sound, -1, 1) * 32767).round().astype("<i2")


def whisper_rows(extractor, samples):
    made = extractor(samples, sampling_rate=RATE, padding="max_length", return_attention_mask=True, return_tensors="np")
    return made["input_features"][0].T[made["attention_mask"][0].astype(bool)]


def gemma_rows(extractor, samples):
    made = extractor([samples], return_tensors="np")
    return made["input_features"][0][made["input_features_mask"][0].astype(bool)]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    whisper, qwen = WhisperFeatureExtractor(), WhisperFeatureExtractor(feature_size=128, chunk_length=300)
    gemma3n, gemma4 = Gemma3nAudioFeatureExtractor(), Gemma4AudioFeatureExtractor()
    forms = {
        "whisper": lambda samples: whisper_rows(whisper, samples),
        "qwen": lambda samples: whisper_rows(qwen, samples),
        "gemma3n": lambda samples: gemma_rows(gemma3n, samples),
        "gemma4": lambda samples: gemma_rows(gemma4, samples),
    }
    for number, length in enumerate(LENGTHS):
        samples = clip(number, length)
        samples.tofile(folder / f"{number}.s16")
        for form, rows_of in forms.items():
            rows = rows_of(samples.astype(np.float32) / 32768)
            rows.astype("<f4").tofile(folder / f"{number}.{form}.f32")
            print(number, form, length, rows.shape)


main(pathlib.Path(sys.argv[1]))
