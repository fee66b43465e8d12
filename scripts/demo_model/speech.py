"""Spoken digits: espeak-ng's voices, put after each other with pauses, level and noise, and Whisper's log-mel of them."""

import functools
import io
import random
import subprocess
import wave

import numpy as np
import torch
from transformers import WhisperFeatureExtractor

RATE, HOP, WINDOW, BINS = 16000, 160, 400, 128
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
VOICES = [accent + variant for accent in ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp")
          for variant in ("", "+m1", "+m3", "+m7", "+f1", "+f2", "+f4")]
NOTHING = len(WORDS)  # the mark of a moment without a digit
STRIDE = 4 * HOP  # samples a token
DIGITS_MAX = 4


def resampled(sound, rate):
    """At RATE, by cutting or filling its spectrum."""
    spectrum, length = np.fft.rfft(sound), round(len(sound) * RATE / rate)
    return np.fft.irfft(spectrum[:length // 2 + 1], length) * (length / len(sound))


def spoken(word, voice, speed, pitch):
    """float32 samples at RATE without the silence around the word"""
    out = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", word], check=True, capture_output=True)
    with wave.open(io.BytesIO(out.stdout)) as file:
        rate, sound = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), np.int16)
    sound = resampled(sound.astype(np.float64) / 32768, rate)
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    return sound[loud[0]:loud[-1] + 1].astype(np.float32)


def library(count, seed):
    """[count][10] of each digit by one voice at one speed and pitch"""
    source, found = random.Random(seed), []
    for _ in range(count):
        manner = source.choice(VOICES), source.randint(120, 210), source.randint(25, 75)
        found.append([spoken(word, *manner) for word in WORDS])
    return found


def clip(source, manners, samples):
    """(float32 samples, digits, mark of each token's middle) of one voice; digits as many as fit, at most DIGITS_MAX."""
    sound, marks = np.zeros(samples, np.float32), np.full(samples, NOTHING, np.int64)
    digits, words, at, most = "", source.choice(manners), source.randint(0, RATE // 5), source.randint(1, DIGITS_MAX)
    while len(digits) < most:
        digit = source.randrange(10)
        if at + len(words[digit]) > samples:
            break
        sound[at:at + len(words[digit])] = words[digit]
        marks[at:at + len(words[digit])] = digit
        digits += str(digit)
        at += len(words[digit]) + source.randint(RATE // 20, RATE // 3)
    noise = np.random.default_rng(source.getrandbits(32)).standard_normal(samples, np.float32)
    sound = sound / max(np.abs(sound).max(), 1e-3) * source.uniform(0.2, 0.9) + noise * source.uniform(0.0005, 0.01)
    return np.clip(sound, -1, 1), digits, marks[STRIDE // 2::STRIDE]


@functools.cache
def filters():
    return torch.from_numpy(WhisperFeatureExtractor(feature_size=BINS).mel_filters).float()


def log_mel(sound):
    """[clips, samples] to [clips, BINS, samples / HOP], as WhisperFeatureExtractor makes it of clips that silence follows."""
    padded = torch.nn.functional.pad(sound, (0, WINDOW))
    power = torch.stft(padded, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True).abs() ** 2
    mel = torch.clamp(filters().T @ power, min=1e-10).log10()
    most = mel.amax((1, 2), keepdim=True)
    return ((torch.maximum(mel, most - 8) + 4) / 4)[:, :, :sound.shape[1] // HOP]
