"""Folders of sentence-transformers, made of a tiny checkpoint: modules.json, 1_Pooling, Dense, Normalize, prompts."""

import json
import random
import shutil
import struct

PROMPTS = {"query": "Find: ", "document": ""}
MODES = {"last": "lasttoken", "mean": "mean", "cls": "cls"}
OLD_NAMES = {"last": "pooling_mode_lasttoken", "mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def make_folder(checkpoint, folder, pooling, *, normalizes=True, old_names=False, tail=None, usual=None, dense=()):
    """`tail`: text of a token that ends every text; `old_names`: a flag for each kind of pooling, as files before version 6 have;
    `dense`: arguments of write_dense() for each Dense module."""
    shutil.copytree(checkpoint, folder)
    kinds = ["Pooling"] + ["Dense"] * len(dense) + ["Normalize"] * normalizes
    modules = [("", "Transformer")] + [(f"{i}_{kind}", kind) for i, kind in enumerate(kinds, 1)]
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                    for i, (path, kind) in enumerate(modules)])
    hidden = json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    (folder / "1_Pooling").mkdir()
    flags = {name: name == OLD_NAMES[pooling] for name in OLD_NAMES.values()} if old_names else {"pooling_mode": MODES[pooling]}
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension" if old_names else "embedding_dimension": hidden, **flags})
    columns = hidden
    for i, form in enumerate(dense, 2):
        write_dense(folder / f"{i}_Dense", columns, **form)
        columns = form["columns"]
    write(folder / "config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": usual})
    finish_tokenizer(folder, tail)
    return folder


def write_dense(folder, inputs, *, columns, activation, bias, seed, kind="F32"):
    """`activation`: the class's name, or None for the default; weights of the type `kind` are drawn from `seed`."""
    rng = random.Random(seed)
    tensors = {"linear.weight": [columns, inputs], **({"linear.bias": [columns]} if bias else {})}
    header, data = {}, b""
    for name, shape in tensors.items():
        drawn = [rng.gauss(0, inputs ** -0.5) for _ in range(columns * (inputs if len(shape) == 2 else 1))]
        packed = pack(drawn, kind)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    folder.mkdir()
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    function = {"activation_function": activation} if activation else {}
    write(folder / "config.json", {"in_features": inputs, "out_features": columns, "bias": bias, **function})


def pack(numbers, kind):
    if kind == "BF16":  # the upper halves
        return b"".join(struct.pack("<f", number)[2:] for number in numbers)
    return struct.pack(f"<{len(numbers)}{'e' if kind == 'F16' else 'f'}", *numbers)


def finish_tokenizer(folder, tail):
    """Completes the decoder, without which the tokenizers library opens nothing, and sets the first and the last token."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    ids = {one["content"]: one["id"] for one in tokenizer["added_tokens"]}
    marks = [tail] if tail else ["<|begin|>"]
    text, mark = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": marks[0], "type_id": 0}}
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [text, mark] if tail else [mark, text],
                                   "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
                                   "special_tokens": {marks[0]: {"id": marks[0], "ids": [ids[marks[0]]], "tokens": marks}}}
    write(folder / "tokenizer.json", tokenizer)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>",
                                             "eos_token": "<|end|>", "pad_token": "<|end|>", "model_max_length": 512})


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
