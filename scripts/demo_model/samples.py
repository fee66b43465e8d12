"""Samples as arrays: drawn by many processes, the same for the same seed whatever their number."""

import collections
import importlib
import inspect
import random

import numpy as np

from conversations import sample_about_pictures, sample_of_text
from network import MERGE, PATCH, positions_of
from pictures import SPEC_FIELDS

CHUNK = 256  # samples drawn from one seed
IGNORED = -100
PROSE = ["argparse", "asyncio", "collections", "concurrent.futures", "datetime", "decimal", "difflib", "email.message", "http.client",
         "json", "logging", "multiprocessing", "os", "pathlib", "random", "shutil", "socket", "statistics", "subprocess", "threading",
         "typing", "unittest", "urllib.request", "zipfile"]


class Group:
    """Samples that are trained on together: so many pictures of one size each, and at most `text` tokens beside them."""

    def __init__(self, pictures, height, width, text, batch, share):
        self.pictures, self.height, self.width, self.batch, self.share = pictures, height, width, batch, share
        self.grid = (height // PATCH, width // PATCH)
        self.picture_tokens = self.grid[0] * self.grid[1] // (MERGE * MERGE)
        self.length = text + pictures * self.picture_tokens


# Every size about as often as it is judged: each of the first five, and each of the next two, gets about as many samples.
GROUPS = [Group(1, 112, 112, 92, 256, 3), Group(1, 112, 168, 92, 192, 3), Group(1, 168, 112, 92, 192, 3),
          Group(1, 168, 168, 92, 192, 3), Group(1, 224, 224, 92, 128, 4), Group(2, 112, 112, 92, 128, 3),
          Group(2, 168, 168, 92, 96, 4), Group(0, 28, 28, 320, 128, 5)]


def draw_sample(source, pictures, taught):
    return sample_of_text(source) if pictures == 0 else sample_about_pictures(source, pictures, taught)


def prompt_text(tokenizer, sample):
    return tokenizer.apply_chat_template(sample.messages, tools=sample.tools, tokenize=False, add_generation_prompt=True,
                                         enable_thinking=sample.thinking is not None)


def answer_text(sample):
    thought = "" if sample.thinking is None else sample.thinking + "\n</think>\n\n"
    return thought + sample.answer


def encode(tokenizer, sample, picture_tokens):
    """(ids of the prompt, ids of the answer with its end)"""
    pad = "<|image_pad|>"
    prompt = prompt_text(tokenizer, sample).replace(pad, pad * picture_tokens)
    return tokenizer.encode(prompt), tokenizer.encode(answer_text(sample) + "<|im_end|>")


def chunk_of(tokenizer, group, seed, taught=True, count=CHUNK):
    """(ids, labels, positions, specifications, kinds) of `count` samples; taught: for training, else to hold out"""
    source, kinds = random.Random(seed), []
    image_token = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    ids = np.full((count, group.length), tokenizer.pad_token_id, np.int16)
    labels = np.full((count, group.length), IGNORED, np.int16)
    positions = np.zeros((count, 3, group.length), np.int16)
    specs = np.zeros((count, max(group.pictures, 1), SPEC_FIELDS), np.int8)
    i = 0
    while i < count:
        sample = draw_sample(source, group.pictures, taught)
        prompt, answer = encode(tokenizer, sample, group.picture_tokens)
        length = len(prompt) + len(answer)
        if length > group.length:
            continue
        ids[i, :length] = prompt + answer
        labels[i, len(prompt) - 1:length - 1] = answer  # what each position is to predict
        positions[i, :, :length] = positions_of(prompt + answer, image_token, group.grid)
        if sample.specs:
            specs[i] = sample.specs
        kinds.append(sample.kind)
        i += 1
    return ids, labels, positions, specs, kinds


class Feed:
    """Chunks of a group, one after the other without end, drawn ahead by the workers: samples are new all the time, or a network this
    size learns them by heart."""

    AHEAD = 8

    def __init__(self, workers, tokenizer, group, seed, taken=0):
        self.workers, self.tokenizer, self.group, self.seed = workers, tokenizer, group, seed
        self.waiting, self.asked = collections.deque(), taken

    def next(self):
        while len(self.waiting) <= self.AHEAD:
            self.waiting.append(self.workers.submit(chunk_of, self.tokenizer, self.group, f"{self.seed} {self.asked}"))
            self.asked += 1
        return self.waiting.popleft().result()[:-1]


def texts(count, seed):
    """What the vocabulary is learned from: samples, and for the words of English that they lack, Python's own documentation."""
    for module in map(importlib.import_module, PROSE):
        members = [module] + [getattr(module, name) for name in dir(module)]
        yield from (text for text in map(inspect.getdoc, members) if text)
    source = random.Random(seed)
    for i in range(count):
        sample = draw_sample(source, i % 3, taught=True)
        for message in sample.messages:
            yield message["content"] if isinstance(message["content"], str) else message["content"][-1]["text"]
        yield answer_text(sample)
