#!/usr/bin/env python3
"""Golden proposals of layers that predict a further token (MTP), for tests/model/ahead_layer_test.c.

usage: ahead_layers.py tests/golden/checkpoints tests/golden/towers TARGET

For qwen3_5, qwen3_5_moe, glm4_moe and deepseek_v3 TARGET/<family> gets
  mtp.safetensors  a random layer in BF16 beside the family's tiny checkpoint
  ids.txt          a sequence of tokens, then the tokens of a greedy chain of proposals after it
  logits.f32       [tokens - 1 + chain, vocabulary]: after token p + 1 and the hidden state of position p, for each p,
                   then along the chain
  made.txt         program, versions, date

TARGET/qwen3_5_images has the same beside the tiny checkpoint of towers/qwen3_5 for the last prompt of its scene: the row of
position p has the rotary position of p, and the embedding of the token at p + 1 is its image's feature where it has one (vLLM,
v1/spec_decode/eagle.py: positions of the target's rows, inputs shifted by one). ids.txt: the chain alone.

transformers has no forward pass of these layers. The wiring follows vLLM (models/qwen3_5_mtp.py, glm4_moe_mtp.py and deepseek_mtp.py,
public source): the model's hidden state after its final norm, the embedding first, positions of the model's rows, and a chain that
takes the layer's own output, in qwen3_5 after the layer's last norm, in the others before it. Unlike vLLM, and as in the report of
DeepSeek-V3, the embedding at position 0 is used. The layer, norms and rotation are transformers' classes. Needs torch and transformers.
"""
import datetime
import importlib
import json
import pathlib
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.glm4_moe import modeling_glm4_moe
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe

from checkpoint_variants import read_safetensors, write_safetensors
from families import all_families

PARTS = {"qwen3_5": (modeling_qwen3_5, "Qwen3_5"), "qwen3_5_moe": (modeling_qwen3_5_moe, "Qwen3_5Moe")}
AFTER_LAST = {"glm4_moe": (modeling_glm4_moe, "Glm4Moe"), "deepseek_v3": (modeling_deepseek_v3, "DeepseekV3")}
TOKENS, CHAIN = 28, 3


def shapes(layer, hidden):
    found = {"fc.weight": (hidden, 2 * hidden)}
    found |= {name: (hidden,) for name in ("pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight", "norm.weight")}
    return found | {f"layers.0.{name}": tuple(value.shape) for name, value in layer.state_dict().items()}


def draw(rng, shape):
    """Norms lack their 1; products keep the size of their input. Exact in BF16."""
    array = rng.standard_normal(shape) * (0.3 if len(shape) == 1 else 2.0 / np.sqrt(shape[-1]))
    bits = array.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


NORMS = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")


class Layer:
    def __init__(self, model, layer, norm_class, joining, norms, keeps_normed):
        """joining: the matrix of both inputs; norms: weights in the order of NORMS."""
        config = model.config.get_text_config()
        self.model, self.layer, self.keeps_normed = model, layer, keeps_normed
        self.fc, self.norms = torch.tensor(joining), {}
        for name, weight in zip(NORMS, norms):
            self.norms[name] = norm_class(config.hidden_size, eps=config.rms_norm_eps)
            self.norms[name].weight.data = torch.tensor(weight)

    def __call__(self, tokens, states, embedded=None, places=None):
        """Hidden states of all positions: position p has tokens[p], the token after it, and states[p]. `embedded`: of the first
        tokens, if not by the table; places: [3, positions] of the rotation."""
        table = self.model.get_input_embeddings()(torch.tensor(tokens))
        embedded = table if embedded is None else torch.cat([embedded, table[len(embedded):]])
        joined = torch.cat([self.norms["pre_fc_norm_embedding"](embedded), self.norms["pre_fc_norm_hidden"](states)], -1)
        x = (joined @ self.fc.T)[None]
        rows = len(tokens)
        positions = torch.arange(rows)[None]
        mask = torch.full((rows, rows), float("-inf")).triu(1)[None, None]
        text = getattr(self.model.model, "language_model", self.model.model)
        if self.keeps_normed:  # qwen3_5 rotates by three positions
            rotation = text.rotary_emb(x, positions[None].expand(3, -1, -1) if places is None else places[:, None])
        else:
            rotation = text.rotary_emb(x, positions)
        out = self.layer(x, position_embeddings=rotation, attention_mask=mask, position_ids=positions)
        out = out[0] if isinstance(out, tuple) else out
        return self.norms["norm"](out)[0] if self.keeps_normed else out[0]

    def logits(self, states):
        return self.model.lm_head(states if self.keeps_normed else self.norms["norm"](states))


def new_layer(module, stem, model, seed):
    """(the layer, its weights by name, the source of further random numbers)"""
    config, rng = model.config.get_text_config(), np.random.default_rng(seed)
    layer = getattr(module, stem + "DecoderLayer")(config, config.layer_types.index("full_attention")).eval()
    tensors = {"mtp." + name: draw(rng, shape) for name, shape in shapes(layer, config.hidden_size).items()}
    layer.load_state_dict({name[len("mtp.layers.0."):]: torch.tensor(array) for name, array in tensors.items() if ".layers." in name})
    norms = [tensors[f"mtp.{name}.weight"] for name in NORMS]
    return Layer(model, layer, getattr(module, stem + "RMSNorm"), tensors["mtp.fc.weight"], norms, True), tensors, rng


def propose(mtp, tokens, states, **images):
    """(logits of all rows and of the chain, the chain's tokens)"""
    chain, places = [], images.pop("places", None)
    kept = mtp(tokens, states, places=places, **images)
    rows = [mtp.logits(kept)]
    for _ in range(CHAIN):
        chain.append(int(rows[-1][-1].argmax()))
        tokens, states = tokens + [chain[-1]], torch.cat([states, kept[-1:]])
        if places is not None:
            places = torch.cat([places, places[:, -1:] + 1], 1)
        kept = mtp(tokens, states, places=places, **images)
        rows.append(mtp.logits(kept[-1:]))
    return torch.cat(rows).numpy(), chain


def save(target, tensors, ids, chain, logits):
    target.mkdir(parents=True, exist_ok=True)
    write_safetensors(target / "mtp.safetensors", tensors, "BF16")
    assert all((read_safetensors(target / "mtp.safetensors")[name] == array).all() for name, array in tensors.items())
    lines = [ids, chain] if ids else [chain]
    (target / "ids.txt").write_text("".join(" ".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    (target / "logits.f32").write_bytes(struct.pack(f"<{logits.size}f", *logits.ravel().tolist()))
    (target / "made.txt").write_text(
        f"scripts/golden/ahead_layers.py, transformers {transformers.__version__}, torch {torch.__version__}, F32, eager attention, "
        f"{datetime.date.today()}\n", encoding="utf-8")


@torch.no_grad()
def write(source, target, seed):
    module, stem = PARTS[source.name]
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
    mtp, tensors, rng = new_layer(module, stem, model, seed)
    ids = [int(token) for token in rng.integers(0, 256, TOKENS)]
    states = model.model(torch.tensor([ids])).last_hidden_state[0, :-1]
    logits, chain = propose(mtp, ids[1:], states)
    save(target, tensors, ids, chain, logits)


@torch.no_grad()
def write_after_last(source, target, seed, copies):
    """A layer that folders number after the model's last one. transformers loads it as one more layer of the model, which is then
    cut off. copies: with the copies of embedding and output matrix that published folders have."""
    module, stem = AFTER_LAST[source.name]
    family, rng = all_families()[source.name], np.random.default_rng(seed)
    config = json.loads((source / "config.json").read_text())
    trunk, number, hidden = read_safetensors(source / "model.safetensors"), config["num_hidden_layers"], config["hidden_size"]
    longer, at = config | {"num_hidden_layers": number + 1}, f"model.layers.{number}."
    drawn = {name: draw(rng, shape) for name, shape in family.shapes(longer).items() if name.startswith(at)}
    own = {at + "eh_proj.weight": draw(rng, (hidden, 2 * hidden))}
    own |= {at + name: draw(rng, (hidden,)) for name in ("enorm.weight", "hnorm.weight", "shared_head.norm.weight")}
    tensors = {name: array + 1 if array.ndim == 1 and not name.endswith("bias") else array for name, array in (drawn | own).items()}
    tensors = {name: (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for name, array in tensors.items()}
    if copies:
        tensors |= {at + "embed_tokens.weight": trunk["model.embed_tokens.weight"], at + "shared_head.head.weight": trunk["lm_head.weight"]}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(longer))
        write_safetensors(pathlib.Path(folder) / "model.safetensors", trunk | {name: tensors[name] for name in drawn}, "BF16")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    layer = model.model.layers[number]
    model.model.layers = model.model.layers[:number]
    model.config.num_hidden_layers = number
    norms = [tensors[at + name] for name in ("enorm.weight", "hnorm.weight", "shared_head.norm.weight")]
    mtp = Layer(model, layer, getattr(module, stem + "RMSNorm"), tensors[at + "eh_proj.weight"], norms, False)
    ids = [int(token) for token in rng.integers(0, 256, TOKENS)]
    states = model.model(torch.tensor([ids])).last_hidden_state[0, :-1]
    logits, chain = propose(mtp, ids[1:], states)
    save(target, tensors, ids, chain, logits)


def read_scene(folder):
    """(the images [height, width, 3], numbers of the images of the last prompt, its ids and feature rows)"""
    words = [line.split() for line in (folder / "scene.txt").read_text().splitlines()]
    pixels, images, starts, at, rows = (folder / "pixels.u8").read_bytes(), [], [], 0, 0
    for word in words:
        if word[0] == "image":
            tiles, width, height, features = map(int, word[1:])
            images.append(np.frombuffer(pixels, np.uint8, tiles * height * width * 3, at).reshape(tiles, height, width, 3))
            starts.append(rows)
            at, rows = at + tiles * height * width * 3, rows + features
    last = max(i for i, word in enumerate(words) if word[0] == "prompt")
    lines = [[int(number) for number in word] for word in words[last + 1:]]
    numbers = [starts.index(row) for _, row, *_ in lines if row in starts]
    return images, numbers, [line[0] for line in lines], [line[1] for line in lines]


@torch.no_grad()
def write_images(source, target, seed):
    family = importlib.import_module("towers.qwen3_5_tower")
    model = getattr(transformers, family.CLASS).from_pretrained(source, dtype=torch.float32, attn_implementation="eager").eval()
    mtp, tensors, _ = new_layer(modeling_qwen3_5, "Qwen3_5", model, seed)
    images, numbers, ids, rows = read_scene(source)
    given = family.inputs(family, [images[number] for number in numbers])
    states = model.model(torch.tensor([ids]), **given, **family.extra(family, ids)).last_hidden_state[0, :-1]
    embedded = model.get_input_embeddings()(torch.tensor(ids))
    embedded[[i for i, row in enumerate(rows) if row >= 0]] = family.features(family, model, given)
    places = family.positions(family, model, ids, given)[:, :-1]
    logits, chain = propose(mtp, ids[1:], states, embedded=embedded[1:], places=places)
    save(target, tensors, None, chain, logits)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, towers, target = map(pathlib.Path, sys.argv[1:])
    for seed, name in enumerate(PARTS):
        write(source / name, target / name, seed)
    write_images(towers / "qwen3_5", target / "qwen3_5_images", len(PARTS))
    for seed, name in enumerate(AFTER_LAST):
        write_after_last(source / name, target / name, 100 + seed, copies=seed == 0)


if __name__ == "__main__":
    main()
