"""Folders of sentence-transformers, made of a tiny checkpoint: modules.json, 1_Pooling, 2_Normalize, prompts."""

import json
import shutil

PROMPTS = {"query": "Find: ", "document": ""}
MODES = {"last": "lasttoken", "mean": "mean", "cls": "cls"}
OLD_NAMES = {"last": "pooling_mode_lasttoken", "mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def make_folder(checkpoint, folder, pooling, *, normalizes=True, old_names=False, tail=None, usual=None):
    """`tail`: text of a token that ends every text; `old_names`: a flag for each kind of pooling, as files before version 6 have."""
    shutil.copytree(checkpoint, folder)
    modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")] + ([("2", "2_Normalize", "Normalize")] if normalizes else [])
    write(folder / "modules.json", [{"idx": i, "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
                                    for i, (name, path, kind) in enumerate(modules)])
    hidden = json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"]
    (folder / "1_Pooling").mkdir()
    flags = {name: name == OLD_NAMES[pooling] for name in OLD_NAMES.values()} if old_names else {"pooling_mode": MODES[pooling]}
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension" if old_names else "embedding_dimension": hidden, **flags})
    write(folder / "config_sentence_transformers.json", {"prompts": PROMPTS, "default_prompt_name": usual})
    finish_tokenizer(folder, tail)
    return folder


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
