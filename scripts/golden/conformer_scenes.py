#!/usr/bin/env python3
"""Makes tiny checkpoints of Gemma's models that hear and see in tests/golden/towers and records the answers of Hugging Face transformers.

usage: conformer_scenes.py DIRECTORY [NAME ...]

The files are those of tower_folders.py, greedy.txt too, and sound_scenes.py. Prompts have sounds of several lengths alone, beside text
and beside images. Sounds are given to the publisher's code together, padded to the longest, and each alone; the script checks that the
features are equal to 1e-5. Needs torch, transformers and numpy.
"""
import json
import types

import numpy as np
import torch
import transformers

import scene_files
from checkpoint_folders import bf16, write_safetensors
from tower_folders import GREEDY, TEXT, close, random_weights
from towers import VOCAB, gemma4_moe_tower, gemma4_tower
from towers.gemma4_common import GLOBAL, MEAN, SLIDING, STD, TOKENS

SOUND_TOKEN = 88


class Gemma4:
    """One of the families of towers/, with a tower of sounds."""
    TOKENS = {"sound": SOUND_TOKEN, "image": TOKENS["image_token_id"]}
    CLASS = "Gemma4ForConditionalGeneration"
    SOUND_END = None
    PROMPTS = [[("sound", 0)], [("sound", 1), ("image", 0), ("sound", 2)], [("image", 1), ("sound", 4), ("sound", 3)]]

    def made(self):
        config = transformers.AutoConfig.for_model(**self.CONFIG)
        return getattr(transformers, self.CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()

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


class Gemma3n:
    """Without its tower of images, whose modules are dropped before weights are drawn. Tokens from 80 on have embeddings of their own, before
    88 those of images; the last one's stands after the features of a sound."""
    TOKENS = {"sound": 89}
    SOUND_END = 88
    CLASS = "Gemma3nForConditionalGeneration"
    IMAGES, PROMPTS = [], [[("sound", 0)], [("sound", 1), ("sound", 2)], [("sound", 4), ("sound", 3)]]
    MOST = 12  # features of a sound, with those after it

    def __init__(self, seed, text, audio, sounds):
        self.SEED, self.SOUNDS = seed, sounds
        self.CONFIG = {
            "architectures": [self.CLASS], "model_type": "gemma3n", "audio_soft_tokens_per_image": self.MOST, "vision_soft_tokens_per_image": 4,
            "audio_token_id": 89, "image_token_id": 81, "boi_token_id": 78, "eoi_token_id": 80, "boa_token_id": 79, "eoa_token_id": 88,
            "torch_dtype": "bfloat16", "tie_word_embeddings": True,
            "text_config": {**GEMMA3N_TEXT, **text},
            "vision_config": {"model_type": "gemma3n_vision", "architecture": "mobilenetv5_300m_enc", "hidden_size": 20, "vocab_size": 8,
                              "vocab_offset": 80},
            "audio_config": {"model_type": "gemma3n_audio", "vocab_size": 8, "vocab_offset": 88, **audio},
        }
        self.mels = audio["input_feat_size"]

    def centre(self, name):
        return 0.25 if name.endswith(("q_norm.weight", "k_norm.weight")) else 1

    def buffer(self, name, shape, source):
        return None

    def made(self):
        """The model, with any small tower in the place of the published one until it is made."""
        tower = transformers.models.gemma3n.modeling_gemma3n.AutoModel
        whole, config = tower.from_config, transformers.AutoConfig.for_model(**self.CONFIG)
        tower.from_config = lambda part, **more: torch.nn.Identity() if part.model_type == "gemma3n_vision" else whole(part, **more)
        try:
            return getattr(transformers, self.CLASS)._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        finally:
            tower.from_config = whole

    def tokens(self, rows):
        return self.MOST

    def images(self, model, images):
        return torch.zeros(0, self.CONFIG["text_config"]["hidden_size"])

    def sounds(self, model, sounds):
        most = max(len(sound) for sound in sounds)
        padded = [np.concatenate([sound, np.ones((most - len(sound), self.mels), np.float32)]) for sound in sounds]
        mask = torch.tensor([[at < len(sound) for at in range(most)] for sound in sounds])
        return {"input_features": torch.tensor(np.stack(padded)), "input_features_mask": mask}

    def sound_features(self, model, sounds):
        """Of each sound alone, because convolutions see what follows a sound."""
        rest = model.model.embed_audio(input_ids=torch.tensor([[VOCAB - 1]]))[0]
        made = []
        for sound in sounds:
            given = self.sounds(model, [sound])
            found = type(model.model).get_audio_features(model.model, given["input_features"], ~given["input_features_mask"]).pooler_output[0]
            made.append(torch.cat([found, rest.expand(self.MOST - len(found), -1)]))
        return torch.cat(made)

    def given(self, model, ids, sounds, images):
        """Of several sounds features in the place of mel rows, because the publisher's code pads these to the longest."""
        model.model.__dict__.pop("get_audio_features", None)
        if len(sounds) == 1:
            return self.sounds(model, sounds)
        features = self.sound_features(model, sounds).view(len(sounds), self.MOST, -1)
        heard = types.SimpleNamespace(pooler_output=features, audio_mel_mask=torch.zeros(features.shape[:2], dtype=torch.bool))
        model.model.get_audio_features = lambda *given, **more: heard
        return self.sounds(model, sounds)


GEMMA3N_TEXT = {
    "model_type": "gemma3n_text", "vocab_size": VOCAB, "vocab_size_per_layer_input": 80, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "rope_parameters": {GLOBAL: {"rope_type": "default", "rope_theta": 1000000.0}, SLIDING: {"rope_type": "default", "rope_theta": 10000.0}},
    "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": True, "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "tie_word_embeddings": True,
}
FAMILIES = {
    "gemma3n_sound": Gemma3n(253, {
        "hidden_size": 32, "intermediate_size": [32] * 3, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 16, "hidden_size_per_layer_input": 8, "sliding_window": 8, "layer_types": [SLIDING, GLOBAL, GLOBAL],
        "num_kv_shared_layers": 1, "altup_num_inputs": 3, "laurel_rank": 4, "activation_sparsity_pattern": [0.5, 0.0, 0.0],
        "final_logit_softcapping": 2.5},
        {"hidden_size": 24, "input_feat_size": 16, "conf_num_hidden_layers": 2, "conf_num_attention_heads": 2, "sscp_conv_channel_size": [8, 4],
         "conf_attention_chunk_size": 4, "conf_attention_context_left": 5, "conf_conv_kernel_size": 5, "conf_attention_logit_cap": 50.0},
        [75, 22, 4, 41, 1]),
    "gemma3n_sound_wide": Gemma3n(254, {
        "hidden_size": 40, "intermediate_size": [48] * 3, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2,
        "head_dim": 8, "hidden_size_per_layer_input": 4, "sliding_window": 6, "layer_types": [SLIDING, SLIDING, GLOBAL],
        "num_kv_shared_layers": 0, "altup_num_inputs": 2, "laurel_rank": 6, "activation_sparsity_pattern": [0.0, 0.4, 0.0],
        "final_logit_softcapping": 2.5},
        {"hidden_size": 30, "input_feat_size": 13, "conf_num_hidden_layers": 2, "conf_num_attention_heads": 3, "sscp_conv_channel_size": [6, 5],
         "conf_attention_chunk_size": 3, "conf_attention_context_left": 4, "conf_conv_kernel_size": 3, "conf_attention_logit_cap": 1.5,
         "conf_residual_weight": 0.25, "gradient_clipping": 1.25, "conf_reduction_factor": 3, "rms_norm_eps": 1e-4,
         "sscp_conv_group_norm_eps": 0.25}, [66, 31, 3, 50, 8]),
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
            if kind == "sound" and self.family.SOUND_END is not None:
                made.append((self.family.SOUND_END, -1))
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
    model = family.made()
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
        for parts in family.PROMPTS:
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
