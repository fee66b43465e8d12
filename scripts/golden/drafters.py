#!/usr/bin/env python3
"""Golden proposals of drafters that read a model's inner states, for tests/model/ahead_layer_test.c and block_drafter_test.c.

usage: drafters.py tests/golden/checkpoints TARGET

TARGET/<case> gets a tiny random drafter in BF16 for one of the tiny checkpoints:
  config.json, model.safetensors
  target.txt       the checkpoint
  ids.txt          eagle3: a sequence of tokens, then those of a greedy chain of proposals after it; dflash: sequences, one a line
  logits.f32       eagle3: [tokens - 1 + chain, draft vocabulary], after token p + 1 and the states of position p, for each p, then along
                   the chain; dflash: [contexts, block - 1, vocabulary] of the last contexts of the first sequence
  proposals.txt    dflash: the greedy proposals of every context, one a line: n tokens of a sequence are known to the drafter by their
                   states, token n begins the block; n from 1 on, sequence by sequence
  made.txt         programs, versions, date

The drafters are mlx-vlm's (speculative/drafters/eagle3, qwen3_dflash) in F32 on the CPU, the states transformers'. Needs mlx-vlm, torch
and transformers.
"""
import datetime
import importlib.metadata
import json
import pathlib
import struct
import sys

import mlx.core as mx
import mlx.utils
import numpy as np
import torch
import transformers
from mlx_vlm.speculative.drafters.eagle3 import config as eagle3_config, eagle3
from mlx_vlm.speculative.drafters.qwen3_dflash import config as dflash_config, dflash

from checkpoint_variants import stored, write_typed

mx.set_default_device(mx.cpu)
VOCABULARY, TOKENS, CHAIN, BLOCK = 263, 28, 3, 8
SEQUENCES, CONTEXTS, SHOWN = 5, 20, 3
LAYER = {"model_type": "llama", "hidden_act": "silu", "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-5, "vocab_size": VOCABULARY, "max_position_embeddings": 256,
         "rope_theta": 5000.0, "attention_bias": False}
# EAGLE's own form: numbers in eagle_config are of layers whose output is read.
EAGLE = {"architectures": ["LlamaForCausalLMEagle3"], **LAYER, "hidden_size": 64, "draft_vocab_size": 100, "tie_word_embeddings": False,
         "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3], "use_aux_hidden_state": True}}
# The form of speculators: the numbers are of layers whose input is read.
SPECULATOR = {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3", "draft_vocab_size": VOCABULARY,
              "transformer_layer_config": LAYER | {"hidden_size": 48}, "target_hidden_size": 64, "norm_before_residual": True,
              "norm_before_fc": True, "tie_word_embeddings": False, "eagle_aux_hidden_state_layer_ids": [1, 2, 2]}
DFLASH = {"architectures": ["DFlashDraftModel"], **LAYER, "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2,
          "tie_word_embeddings": False, "block_size": BLOCK, "num_target_layers": 5,
          "dflash_config": {"mask_token_id": 262, "target_layer_ids": [0, 1, 3]}}


def draw(rng, shape, is_norm):
    """Exact in BF16; products keep the size of their input."""
    array = 1 + 0.3 * rng.standard_normal(shape) if is_norm else rng.standard_normal(shape) * (2.0 / np.sqrt(shape[-1]))
    bits = array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def fill(drafter, rng):
    """Random weights; returns them by name."""
    drawn = {}
    for name, value in mlx.utils.tree_flatten(drafter.parameters()):
        if name != "d2t":
            drawn[name] = draw(rng, value.shape, len(value.shape) == 1)
    drafter.load_weights([(name, mx.array(array)) for name, array in drawn.items()], strict=False)
    return drawn


class Target:
    def __init__(self, folder):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.embedding = mx.array(self.model.get_input_embeddings().weight.detach().numpy())
        self.head = mx.array(self.model.get_output_embeddings().weight.detach().numpy())

    @torch.no_grad()
    def taps(self, ids, layers):
        """[tokens, layers * hidden]: the states after so many layers"""
        states = self.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        assert max(layers) < len(states) - 1
        return mx.array(np.concatenate([states[layer][0].numpy() for layer in layers], -1))


class Embedding:
    """What mlx-vlm's drafters ask of a model's embedding."""

    def __init__(self, target):
        self.weight, self.head = target.embedding, target.head

    def __call__(self, ids):
        return self.weight[ids]


def greedy(logits):
    return mx.argmax(logits, axis=-1)


def propose_eagle(drafter, ids, taps):
    """(logits of all rows and of the chain, the chain's tokens)"""
    drafter._cache, chain = drafter.make_cache(), []
    states = drafter._forward_tokens(mx.array([ids[1:]]), taps[None, :-1], mx.int32)
    rows = [drafter._logits(states)[0]]
    for _ in range(CHAIN):
        token = drafter._draft_to_target(mx.argmax(rows[-1][-1:], axis=-1), mx.int32)
        chain.append(int(token[0]))
        states = drafter._forward_tokens(token[None], states[:, -1:], mx.int32)
        rows.append(drafter._logits(states)[0])
    return np.array(mx.concatenate(rows)), chain


def write_eagle(target, folder, config, seed):
    rng = np.random.default_rng(seed)
    speculator = "transformer_layer_config" in config
    layer = config.get("transformer_layer_config", config)
    number, text = config["draft_vocab_size"], {name: value for name, value in layer.items() if name in LAYER or name == "hidden_size"}
    described = {name: value for name, value in config.items() if name not in text} | {"transformer_layer_config": text}
    drafter = eagle3.Eagle3DraftModel(eagle3_config.Eagle3Config.from_dict(described))
    drawn = fill(drafter, rng)
    tensors = {name: ("BF16", stored(array, "BF16")) for name, array in drawn.items()}
    if number < VOCABULARY:
        kept = np.sort(rng.choice(VOCABULARY, number, replace=False))
        d2t = (kept - np.arange(number)).astype(np.int64)
        drafter.d2t = mx.array(d2t.astype(np.int32))
        tensors |= {"d2t": ("I64", d2t), "t2d": ("BOOL", np.isin(np.arange(VOCABULARY), kept))}
    layers = config.get("eagle_aux_hidden_state_layer_ids") or [layer + 1 for layer in config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]]
    if not speculator:  # the embedding is the model's
        del tensors["embed_tokens.weight"]
        drafter.embed_tokens.weight = target.embedding
        tensors = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in tensors.items()}
    ids = [int(token) for token in rng.integers(0, 256, TOKENS)]
    logits, chain = propose_eagle(drafter, ids, target.taps(ids, layers))
    save(folder, config, tensors, [ids, chain], logits)


def write_dflash(target, folder, config, seed):
    rng = np.random.default_rng(seed)
    drafter = dflash.DFlashDraftModel(dflash_config.DFlashConfig.from_dict(config))
    drawn = fill(drafter, rng)
    drafter.embed_tokens = Embedding(target)
    drafter.lm_head = lambda hidden: hidden @ target.head.T
    sequences = [[int(token) for token in rng.integers(0, 256, CONTEXTS + 1)] for _ in range(SEQUENCES)]
    layers, mask = [layer + 1 for layer in config["dflash_config"]["target_layer_ids"]], config["dflash_config"]["mask_token_id"]
    lines, shown = [], []
    for number, ids in enumerate(sequences):
        taps = target.taps(ids, layers)
        for known in range(1, CONTEXTS + 1):
            block = mx.array([[ids[known]] + [mask] * (BLOCK - 1)])
            logits = drafter(block, taps[None, :known], drafter.make_cache())[0, 1:]
            again = drafter.draft_block(ids[known], taps[None, :known], drafter.make_cache(), BLOCK, greedy)[0]
            assert again.tolist() == mx.argmax(logits, -1).tolist()
            lines.append(again.tolist())
            if number == 0 and known > CONTEXTS - SHOWN:
                shown.append(np.array(logits))
    tensors = {name: ("BF16", stored(array, "BF16")) for name, array in drawn.items()}
    save(folder, config, tensors, sequences, np.stack(shown))
    (folder / "proposals.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")


def save(folder, config, tensors, lines, logits):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_typed(folder / "model.safetensors", tensors)
    (folder / "ids.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    (folder / "logits.f32").write_bytes(struct.pack(f"<{logits.size}f", *logits.ravel().tolist()))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mlx-vlm", "mlx", "transformers", "torch"))
    (folder / "made.txt").write_text(f"scripts/golden/drafters.py, {versions}, F32, {datetime.date.today()}\n", encoding="utf-8")


CASES = {"eagle3": ("smollm3", write_eagle, EAGLE), "eagle3_speculator": ("qwen3_5", write_eagle, SPECULATOR),
         "dflash": ("smollm3", write_dflash, DFLASH)}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    for seed, (name, (model, write, config)) in enumerate(CASES.items()):
        write(Target(source / model), target / name, config, 200 + seed)
        (target / name / "target.txt").write_text(model + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
