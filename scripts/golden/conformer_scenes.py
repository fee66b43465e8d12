#!/usr/bin/env python3
"""Makes tiny checkpoints of Gemma's models that hear and see in tests/golden/towers and records the answers of Hugging Face transformers.

usage: conformer_scenes.py DIRECTORY [NAME ...]

The files are those of tower_folders.py, greedy.txt too, and sound_scenes.py. Prompts have sounds of several lengths alone, beside text
and beside images. Sounds are given to the publisher's code together, padded to the longest, and each alone; the script checks that the
features are equal to 1e-5. Needs torch, transformers and numpy.
"""
import json

import numpy as np
import torch
import transformers

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import GREEDY, TEXT, close, random_weights
from towers import VOCAB, gemma4_moe_tower, gemma4_tower
from towers.gemma4_common import MEAN, STD, TOKENS

SOUND_TOKEN = 88
PROMPTS = [[("sound", 0)], [("sound", 1), ("image", 0), ("sound", 2)], [("image", 1), ("sound", 4), ("sound", 3)]]


class Gemma4:
    """One of the families of towers/, with a tower of sounds."""
    TOKENS = {"sound": SOUND_TOKEN, "image": TOKENS["image_token_id"]}
    CLASS = "Gemma4ForConditionalGeneration"

    def __init__(self, seed, seeing, audio, sounds):
        self.SEED, self.seeing, self.SOUNDS = seed, seeing, sounds
        self.CONFIG = {**seeing.CONFIG, "audio_token_id": SOUND_TOKEN, "audio_config": {"model_type": "gemma4_audio", "hidden_act": "silu", **audio}}
        self.mels = audio["subsampling_conv_channels"][0]
        self.IMAGES = seeing.IMAGES
        self.centre, self.buffer = seeing.centre, seeing.buffer

    def tokens(self, rows):
        return -(-rows // 4)

    def images(self, model, images):
        return self.seeing.features(self.seeing, model, self.seeing.inputs(self.seeing, images))

    def image_tokens(self, number):
        return self.seeing.count(self.seeing, self.IMAGES[number])

    def sounds(self, model, sounds):
        most = max(len(sound) for sound in sounds)
        padded = [np.concatenate([sound, np.zeros((most - len(sound), self.mels), np.float32)]) for sound in sounds]
        mask = torch.tensor([[at < len(sound) for at in range(most)] for sound in sounds])
        return {"input_features": torch.tensor(np.stack(padded)), "input_features_mask": mask}

    def sound_features(self, model, sounds):
        given = self.sounds(model, sounds)
        found = model.model.get_audio_features(given["input_features"], given["input_features_mask"])
        return found.pooler_output[found.attention_mask]

    def given(self, model, ids, sounds, images):
        made = self.sounds(model, sounds) if sounds else {}
        if images:
            made.update(self.seeing.inputs(self.seeing, images))
        kinds = {self.TOKENS["image"]: 1, self.TOKENS["sound"]: 3}
        return {**made, "mm_token_type_ids": torch.tensor([[kinds.get(token, 0) for token in ids]])}


FAMILIES = {
    "gemma4_sound": Gemma4(251, gemma4_tower, {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "subsampling_conv_channels": [16, 4], "conv_kernel_size": 5,
        "attention_chunk_size": 4, "attention_context_left": 5, "attention_context_right": 0, "output_proj_dims": 40,
        "use_clipped_linears": True}, [75, 22, 4, 41, 1]),
    "gemma4_sound_wide": Gemma4(252, gemma4_moe_tower, {
        "hidden_size": 30, "num_hidden_layers": 2, "num_attention_heads": 3, "subsampling_conv_channels": [20, 6], "conv_kernel_size": 3,
        "attention_chunk_size": 6, "attention_context_left": 8, "attention_context_right": 0, "output_proj_dims": 24,
        "use_clipped_linears": False, "attention_logit_cap": 1.5, "residual_weight": 0.25, "gradient_clipping": 1.25,
        "rms_norm_eps": 1e-4}, [66, 31, 3, 50, 8]),
}


class Scene:
    def __init__(self, family, source):
        self.family = family
        self.sounds = [source.normal(0, 0.7, (rows, family.mels)).astype(np.float32) for rows in family.SOUNDS]
        self.images = [source.integers(0, 256, (tiles, height, width, 3)).astype(np.uint8) for tiles, width, height in family.IMAGES]
        self.starts, self.lines, self.pixels, at = {}, [], [], 0
        for number, sound in enumerate(self.sounds):
            self.starts["sound", number] = at
            self.lines.append(f"image 1 {family.mels} {len(sound)} {self.count('sound', number)} sound")
            self.pixels.append(sound.astype("<f4").tobytes())
            at += self.count("sound", number)
        for number, image in enumerate(self.images):
            self.starts["image", number] = at
            self.lines.append(f"image 1 {image.shape[2]} {image.shape[1]} {self.count('image', number)}")
            self.pixels.append(image.tobytes())
            at += self.count("image", number)
        self.all = at

    def count(self, kind, number):
        return self.family.tokens(self.family.SOUNDS[number]) if kind == "sound" else self.family.image_tokens(number)

    def features(self, model):
        sounds = self.family.sound_features(model, self.sounds)
        alone = torch.cat([self.family.sound_features(model, [sound]) for sound in self.sounds])
        assert close(alone, sounds), (alone.shape, sounds.shape)
        return torch.cat([sounds, self.family.images(model, self.images)])

    def prompt(self, parts, source):
        made = [(token, -1) for token in source.integers(*TEXT, 3).tolist()]
        for kind, number in parts:
            made += [(self.family.TOKENS[kind], self.starts[kind, number] + at) for at in range(self.count(kind, number))]
            made += [(token, -1) for token in source.integers(*TEXT, 4).tolist()]
        return made

    def logits(self, model, ids, parts):
        sounds = [self.sounds[number] for kind, number in parts if kind == "sound"]
        images = [self.images[number] for kind, number in parts if kind == "image"]
        return model(torch.tensor([ids]), **self.family.given(model, ids, sounds, images)).logits[0]

    def greedy(self, model, ids, parts):
        """Lines of greedy.txt."""
        for _ in range(GREEDY):
            best = self.logits(model, ids, parts)[-1, TEXT[0]:TEXT[1]].topk(2)
            at = len(ids)
            ids.append(TEXT[0] + best.indices[0].item())
            yield f"{ids[-1]} {at} {at} {at} {(best.values[0] - best.values[1]).item():.6f}"


def record(name, folder):
    family = FAMILIES[name]
    source = np.random.default_rng(family.SEED)
    config = transformers.AutoConfig.for_model(**family.CONFIG)
    model = getattr(transformers, family.CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    weights = random_weights(family, model, source)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(family.CONFIG, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", {key: ("BF16", w.shape, bf16(w)) for key, w in weights.items()})
    scene = Scene(family, source)
    lines = ["normal " + " ".join(f"{value:.9g}" for value in (*MEAN, *STD)), *scene.lines]
    all_logits, following = [], []
    with torch.no_grad():
        features = scene.features(model)
        assert features.shape[0] == scene.all, (features.shape, scene.all)
        for parts in PROMPTS:
            prompt = scene.prompt(parts, source)
            ids = [token for token, _ in prompt]
            logits = scene.logits(model, ids, parts)
            assert logits.shape == (len(ids), VOCAB)
            lines.append(f"prompt {len(ids)}")
            lines += [f"{token} {row} {at} {at} {at}" for at, (token, row) in enumerate(prompt)]
            all_logits.append(logits.float().numpy())
            following += [f"greedy {GREEDY}", *scene.greedy(model, ids, parts)]
    (folder / "greedy.txt").write_text("\n".join(following) + "\n")
    scene_files.write(folder, name, lines, b"".join(scene.pixels), features, all_logits)


if __name__ == "__main__":
    torch.set_num_threads(1)
    scene_files.main(__doc__, FAMILIES, record)
