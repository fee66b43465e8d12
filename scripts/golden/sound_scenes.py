#!/usr/bin/env python3
"""Makes tiny audio checkpoints in tests/golden/towers and records the answers of Hugging Face transformers for sounds.

usage: sound_scenes.py DIRECTORY [NAME ...]

The files are those of tower_folders.py; a line "image" of a sound is "image 1 mels rows features sound", and pixels.u8 has its mel rows
in f32, [rows, mels]: those that the tower's rows stand for, and one more. Prompts have one, two and three sounds, with text between
them. Beyond its end the publisher's code is given silence, of which the tower hears what these rows have. Needs torch, transformers
and numpy.
"""
import json

import numpy as np
import torch
import transformers

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import close, random_weights
from towers import VOCAB

AUDIO_TOKEN = 91
SILENCE = -0.6
SOUNDS = [40, 17, 6, 13]  # mel rows
PROMPTS = [[0], [1, 0], [3, 2, 1]]
CLASS = "Qwen2AudioForConditionalGeneration"


class Family:
    """Its SEED and CONFIG; random_weights() of tower_folders.py asks for no more."""

    def __init__(self, seed, text, audio):
        self.SEED = seed
        self.CONFIG = {
            "architectures": [CLASS], "model_type": "qwen2_audio", "audio_token_index": AUDIO_TOKEN, "torch_dtype": "bfloat16",
            "text_config": {"model_type": "qwen2", "vocab_size": VOCAB, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
                            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "tie_word_embeddings": False, **text},
            "audio_config": {"model_type": "qwen2_audio_encoder", "max_source_positions": 20, **audio},
        }


FAMILIES = {
    "qwen2_audio": Family(211, {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
                          {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 48, "num_mel_bins": 16}),
    "qwen2_audio_wide": Family(212, {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 3,
                                     "num_key_value_heads": 3, "rms_norm_eps": 1e-5},
                               {"d_model": 72, "encoder_layers": 3, "encoder_attention_heads": 3, "encoder_ffn_dim": 56, "num_mel_bins": 20}),
}


def tower_rows(rows):
    return (rows - 1) // 2 + 1


def features_of(rows):
    return tower_rows(rows) // 2


def given(sounds, whole):
    """The processor's arguments of the forward: padded to the whole length with silence."""
    padded = [np.concatenate([sound, np.full((whole - len(sound), sound.shape[1]), SILENCE, np.float32)]) for sound in sounds]
    mask = [[1] * len(sound) + [0] * (whole - len(sound)) for sound in sounds]
    return {"input_features": torch.tensor(np.stack(padded)).transpose(1, 2), "feature_attention_mask": torch.tensor(mask)}


def sent(sound, whole):
    """The mel rows that the tower hears of a sound: of the silence after it, or zeros after the whole length."""
    rows = 2 * tower_rows(len(sound)) + 1
    silence = np.full((whole - len(sound), sound.shape[1]), SILENCE, np.float32)
    zeros = np.zeros((1, sound.shape[1]), np.float32)
    return np.concatenate([sound, silence, zeros])[:rows]


def run(model, ids, arguments):
    """Logits, and the features of all sounds."""
    caught = []
    hook = model.model.multi_modal_projector.register_forward_hook(lambda module, inputs, output: caught.append(output))
    logits = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **arguments).logits[0]
    hook.remove()
    counts = [features_of(int(rows)) for rows in arguments["feature_attention_mask"].sum(-1)]
    return logits, torch.cat([found[:count] for found, count in zip(caught[0], counts)])


def prompt_of(numbers, starts, source):
    ids, rows = source.integers(3, 80, 4).tolist(), [-1] * 4
    for number in numbers:
        count = features_of(SOUNDS[number])
        text = source.integers(3, 80, 5).tolist()
        ids += [AUDIO_TOKEN] * count + text
        rows += [starts[number] + i for i in range(count)] + [-1] * len(text)
    return ids, rows


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.CONFIG)
    model = getattr(transformers, CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    weights = random_weights(family, model, source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    mels, whole = family.CONFIG["audio_config"]["num_mel_bins"], 2 * family.CONFIG["audio_config"]["max_source_positions"]
    sounds = [source.normal(0, 0.5, (rows, mels)).astype(np.float32) for rows in SOUNDS]
    lines, starts, all_logits = ["normal 0 0 0 1 1 1"], [], []
    for rows in SOUNDS:
        starts.append(starts[-1] + features_of(SOUNDS[len(starts) - 1]) if starts else 0)
        lines.append(f"image 1 {mels} {2 * tower_rows(rows) + 1} {features_of(rows)} sound")
    with torch.no_grad():
        every = prompt_of(range(len(SOUNDS)), starts, np.random.default_rng(0))[0]
        _, features = run(model, every, given(sounds, whole))
        for numbers in PROMPTS:
            ids, rows = prompt_of(numbers, starts, source)
            logits, found = run(model, ids, given([sounds[number] for number in numbers], whole))
            assert close(found, features[[row for row in rows if row >= 0]])
            lines.append(f"prompt {len(ids)}")
            lines += [f"{token} {row} {at} {at} {at}" for at, (token, row) in enumerate(zip(ids, rows))]
            all_logits.append(logits.float().numpy())
    scene_files.write(folder, name, lines, b"".join(sent(sound, whole).astype("<f4").tobytes() for sound in sounds), features, all_logits)


if __name__ == "__main__":
    scene_files.main(__doc__, FAMILIES, record)
