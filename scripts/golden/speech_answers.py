#!/usr/bin/env python3
"""Makes tiny Whisper folders in tests/golden/speech and records what Hugging Face transformers transcribes with them.

usage: speech_answers.py DIRECTORY

DIRECTORY/<name> has a folder as published ones are: windows of one second, 256 tokens of bytes, three languages, 51 timestamps, weights random
in BF16. answers.json has for each folder and clip (noise(), integers, in tests/api/transcriptions_test.py too) the language that detect_language()
finds, its tokens without timestamps if it fits a window, and the segments with timestamps: start, end, tokens; the first window's mean
log-probability and the probability of no speech. Greedy, computed in F32 on the CPU. Needs torch, transformers, tokenizers and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import tokenizers
import torch
import transformers

from checkpoint_folders import bf16, write_safetensors
from tower_folders import random_weights

LANGUAGES = ["en", "de", "fr"]
TEXT, END = 256, 256
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>"] + [f"<|{code}|>" for code in LANGUAGES] + [
    "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
STAMPS = [f"<|{at / 50:.2f}|>" for at in range(51)]
ID = {text: TEXT + at for at, text in enumerate(SPECIAL + STAMPS)}
VOCAB = TEXT + len(ID)
CLIPS = {"short": (1, 11200), "whole": (2, 16000), "long": (3, 43210), "longer": (4, 71234)}  # seed, samples at 16,000 a second


class Family:
    def __init__(self, seed, **config):
        self.SEED = seed
        self.CONFIG = {
            "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "torch_dtype": "bfloat16",
            "activation_function": "gelu", "vocab_size": VOCAB, "max_target_positions": 40, "max_source_positions": 50,
            "bos_token_id": END, "eos_token_id": END, "pad_token_id": END, "decoder_start_token_id": ID["<|startoftranscript|>"], **config}


FAMILIES = {
    "tiny": Family(401, d_model=32, num_mel_bins=80, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=40, num_hidden_layers=1,
                   decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=48),
    "wide": Family(402, d_model=48, num_mel_bins=40, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=32, num_hidden_layers=2,
                   decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=56),
}
GENERATION = {
    "bos_token_id": END, "eos_token_id": END, "pad_token_id": END, "decoder_start_token_id": ID["<|startoftranscript|>"],
    "begin_suppress_tokens": [32, END], "suppress_tokens": [1, 2, 40, 41, 42, 95] + [ID[text] for text in SPECIAL[1:10]],
    "is_multilingual": True, "lang_to_id": {f"<|{code}|>": ID[f"<|{code}|>"] for code in LANGUAGES},
    "task_to_id": {"transcribe": ID["<|transcribe|>"], "translate": ID["<|translate|>"]},
    "no_timestamps_token_id": ID["<|notimestamps|>"], "prev_sot_token_id": ID["<|startofprev|>"], "max_initial_timestamp_index": 25,
    "max_length": 40, "return_timestamps": False}


def noise(seed, count):
    """Samples of 16 bits: a tone whose pitch and loudness change, by integers alone."""
    samples, state, phase = [], seed, 0
    for at in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        phase = (phase + 300 + (at >> 6) * (seed + 2) % 4000) & 0xFFFF
        loud = 2000 + (at * seed >> 3) % 9000
        samples.append(((phase - 32768) * loud >> 15) + ((state >> 16) % 801) - 400)
    return samples


def write_tokenizer(folder):
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    order = {}
    for byte in range(256):  # GPT-2's order: the printable ones stand for themselves
        order[byte] = None
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    characters, more = {}, 0
    for byte in range(256):
        characters[byte] = chr(byte) if byte in printable else chr(256 + more)
        more += byte not in printable
    assert sorted(characters.values()) == alphabet
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={characters[byte]: byte for byte in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in STAMPS])
    assert all(tokenizer.token_to_id(text) == token for text, token in ID.items())
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "WhisperTokenizer", "eos_token": "<|endoftext|>",
                                                              "bos_token": "<|endoftext|>"}) + "\n")


def features(extractor, clip):
    samples = np.array(noise(*clip), np.float32) / 32768
    whole = len(samples) <= 16000
    more = {} if whole else {"truncation": False, "padding": "longest"}
    return extractor(samples, sampling_rate=16000, return_tensors="pt", return_attention_mask=True, **more), len(samples)


def silence_of(model, given):
    window = given["input_features"][:, :, :100]
    logits = model(input_features=window, decoder_input_ids=torch.tensor([[ID["<|startoftranscript|>"]]])).logits[0, 0]
    return logits.softmax(-1)[ID["<|nospeech|>"]].item()


def answer(model, extractor, clip):
    given, count = features(extractor, clip)
    found = {"language": LANGUAGES[int(model.detect_language(given["input_features"][:, :, :100])[0]) - ID["<|en|>"]]}
    options = {"language": "de", "task": "transcribe", "input_features": given["input_features"], "attention_mask": given["attention_mask"]}
    if count <= 16000:
        ids = model.generate(**options, return_timestamps=False)[0].tolist()
        found["plain"] = [token for token in ids if token < TEXT]
        found["translated"] = [token for token in model.generate(**{**options, "task": "translate"}, return_timestamps=False)[0].tolist()
                               if token < TEXT]
    result = model.generate(**options, return_timestamps=True, return_segments=True, return_dict_in_generate=True, output_scores=True,
                            logprob_threshold=-1e9, temperature=0.0)
    segments = result["segments"][0]
    found["segments"] = [[float(s["start"]), float(s["end"]), [token for token in s["tokens"].tolist() if token < TEXT]] for s in segments]
    first = segments[0]["result"]
    scores, ids = torch.stack([score.float() for score in first["scores"]]), first["sequences"]
    ids = ids[-len(scores):]
    chosen = scores.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
    last = (ids == END).nonzero()
    used = int(last[0]) + 1 if len(last) else len(ids)
    found["logprob"] = chosen[:used].mean().item()
    found["silence"] = silence_of(model, given)
    return found


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    model = transformers.WhisperForConditionalGeneration._from_config(transformers.WhisperConfig(**family.CONFIG), dtype=torch.float32,
                                                                      attn_implementation="eager").eval()
    weights = random_weights(family, model, source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(GENERATION, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    extractor = transformers.WhisperFeatureExtractor(feature_size=family.CONFIG["num_mel_bins"], chunk_length=1)
    settings = {key: value for key, value in extractor.to_dict().items() if key != "mel_filters"}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    write_tokenizer(folder)
    model.generation_config = transformers.GenerationConfig(**GENERATION)
    with torch.no_grad():
        return {clip: answer(model, extractor, numbers) for clip, numbers in CLIPS.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    answers = {name: record(name, root / name) for name in FAMILIES}
    (root / "answers.json").write_text(json.dumps(answers) + "\n")
    print(transformers.__version__, torch.__version__)


if __name__ == "__main__":
    main()
