#!/usr/bin/env python3
"""Makes tiny Whisper checkpoints in tests/golden/towers and records the answers of Hugging Face transformers for sounds.

usage: whisper_scenes.py DIRECTORY [NAME ...]

The files are those of sound_scenes.py, but features.f32 has for each row of the encoder the key and the value that it has in each layer of
the decoder, and a prompt names the sound that all of its rows attend to by the first feature row at its first token. A sound has all the
mel rows of the encoder's positions, and one of zeros after them. Needs torch, transformers and numpy.
"""
import json

import numpy as np
import torch
import transformers

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import random_weights

CLASS = "WhisperForConditionalGeneration"
PROMPTS = [(0, 9), (1, 17), (2, 4), (0, 33)]  # (sound, tokens)
SOUNDS = 3
START = 90


class Family:
    """Its SEED and CONFIG; random_weights() of tower_folders.py asks for no more."""

    def __init__(self, seed, config):
        self.SEED = seed
        self.CONFIG = {
            "architectures": [CLASS], "model_type": "whisper", "torch_dtype": "bfloat16", "activation_function": "gelu", "vocab_size": 96,
            "max_target_positions": 48, "max_source_positions": 20, "pad_token_id": 2, "bos_token_id": 1, "eos_token_id": 2,
            "decoder_start_token_id": START, **config,
        }


FAMILIES = {
    "whisper": Family(311, {"d_model": 32, "num_mel_bins": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 48,
                            "num_hidden_layers": 2, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 56}),
    "whisper_wide": Family(312, {"d_model": 72, "num_mel_bins": 20, "encoder_layers": 3, "encoder_attention_heads": 3, "encoder_ffn_dim": 56,
                                 "num_hidden_layers": 3, "decoder_layers": 1, "decoder_attention_heads": 6, "decoder_ffn_dim": 64,
                                 "scale_embedding": True}),
}


def features_of(model, sounds):
    """[sounds, rows, 2 * layers * d_model] of sounds [sounds, rows, mels]."""
    rows = model.model.encoder(torch.tensor(np.stack(sounds)).transpose(1, 2)).last_hidden_state
    parts = [part(rows) for layer in model.model.decoder.layers for part in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)]
    return torch.cat(parts, -1)


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.CONFIG)
    model = getattr(transformers, CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    weights = random_weights(family, model, source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    mels, rows = family.CONFIG["num_mel_bins"], family.CONFIG["max_source_positions"]
    sounds = [source.normal(0, 0.5, (2 * rows, mels)).astype(np.float32) for _ in range(SOUNDS)]
    lines = ["normal 0 0 0 1 1 1"] + [f"image 1 {mels} {2 * rows + 1} {rows} sound"] * SOUNDS
    all_logits = []
    with torch.no_grad():
        features = features_of(model, sounds)
        for number, count in PROMPTS:
            ids = [START] + source.integers(3, 80, count - 1).tolist()
            given = torch.tensor(sounds[number]).T[None]
            all_logits.append(model(input_features=given, decoder_input_ids=torch.tensor([ids])).logits[0].numpy())
            lines.append(f"prompt {count}")
            lines += [f"{token} {number * rows if at == 0 else -1} {at} {at} {at}" for at, token in enumerate(ids)]
    sent = [np.concatenate([sound, np.zeros((1, mels), np.float32)]) for sound in sounds]
    scene_files.write(folder, name, lines, b"".join(sound.astype("<f4").tobytes() for sound in sent), features, all_logits)


if __name__ == "__main__":
    scene_files.main(__doc__, FAMILIES, record)
