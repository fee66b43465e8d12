"""Folders of tiny encoders whose weights are drawn from a seed, for embeddings or as cross-encoders: BERT, RoBERTa and ModernBERT with WordPiece,
XLM-RoBERTa with Unigram."""

import json

import numpy
from sentence_folder import MODES, pack, write

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789äß漢.,!?-'"
PIECES = ["the", "river", "stone", "water", "##er", "##ing", "##s", "paris", "fra", "##nce", "is", "in", "##ön", "find"]
SHAPES = {"a": {"hidden": 64, "layers": 2, "heads": 4, "wide": 96, "positions": 80},
          "b": {"hidden": 96, "layers": 3, "heads": 6, "wide": 160, "positions": 520}}
CLASSES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "modernbert": "ModernBert"}


SPECIAL_PIECES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SCORED = {"▁the": -4, "▁river": -6.5, "▁stone": -7, "▁water": -7.5, "er": -4.5, "ing": -5, "s": -3, "▁par": -6, "is": -4.25, "▁fra": -6.25, "nce": -5.5, "▁in": -4, "ön": -6,
          "▁f": -4.5, "ind": -6, "▁": -2.5, "at": -5, "▁w": -5}


def scored_pieces():
    letters = {letter: -5 - 0.125 * i for i, letter in enumerate(LETTERS)}
    return [[name, 0] for name in SPECIAL_PIECES[:4]] + [[piece, score] for piece, score in {**letters, **SCORED}.items()] + [["<mask>", 0]]


def vocabulary(kind):
    if kind == "xlm-roberta":
        return [piece for piece, _ in scored_pieces()]
    return SPECIAL + list(dict.fromkeys(list(LETTERS) + ["##" + letter for letter in LETTERS] + PIECES))


def specials(kind):
    """Padding, unknown, first, separator, mask."""
    return ["<pad>", "<unk>", "<s>", "</s>", "<mask>"] if kind == "xlm-roberta" else SPECIAL


def stages(kind):
    words = vocabulary(kind)
    if kind == "xlm-roberta":
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        return {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": False, "strip_right": True},
                                                                   {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]},
                "pre_tokenizer": metaspace, "decoder": metaspace,
                "model": {"type": "Unigram", "unk_id": words.index("<unk>"), "vocab": scored_pieces(), "byte_fallback": False}}
    return {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": {word: i for i, word in enumerate(words)}}}


def tokenizer(kind):
    """RoBERTa's pairs have two separators and no types, ModernBERT's one and none."""
    words, bert, single = vocabulary(kind), kind == "bert", kind in ("bert", "modernbert")
    _, _, first, last, _ = specials(kind)
    one = lambda name, segment=0: {"SpecialToken": {"id": name, "type_id": segment}}
    text = lambda name, segment=0: {"Sequence": {"id": name, "type_id": segment}}
    pair = [one(first), text("A"), one(last)] + ([] if single else [one(last)]) + [text("B", int(bert)), one(last, int(bert))]
    marks = {name: {"id": name, "ids": [words.index(name)], "tokens": [name]} for name in (first, last)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": words.index(name), "content": name, **flags} for name in sorted(specials(kind), key=words.index)],
            "post_processor": {"type": "TemplateProcessing", "single": [one(first), text("A"), one(last)], "pair": pair, "special_tokens": marks},
            **stages(kind)}


def modern_shapes(shape, labels):
    hidden, wide, prefix = shape["hidden"], shape["wide"], "model." if labels else ""
    tensors = {"embeddings.tok_embeddings.weight": (len(vocabulary("modernbert")), hidden), "embeddings.norm.weight": (hidden,), "final_norm.weight": (hidden,)}
    for layer in range(shape["layers"]):
        at = f"layers.{layer}."
        tensors |= {f"{at}attn_norm.weight": (hidden,)} if layer else {}
        tensors |= {f"{at}attn.Wqkv.weight": (3 * hidden, hidden), f"{at}attn.Wo.weight": (hidden, hidden), f"{at}mlp_norm.weight": (hidden,),
                    f"{at}mlp.Wi.weight": (2 * wide, hidden), f"{at}mlp.Wo.weight": (hidden, wide)}
    tensors = {prefix + name: size for name, size in tensors.items()}
    if labels:
        tensors |= {"head.dense.weight": (hidden, hidden), "head.norm.weight": (hidden,), "classifier.weight": (labels, hidden), "classifier.bias": (labels,)}
    return tensors


def modern_config(shape, size):
    """Windows are shorter than the texts; of shape a in the keys of published configs, of b in those of transformers 5."""
    config = {"norm_eps": 1e-5, "hidden_activation": "gelu", "classifier_pooling": "cls", "local_attention": 8 if size == "a" else 6}
    if size == "a":
        return config | {"global_attn_every_n_layers": 3, "global_rope_theta": 9000.0, "local_rope_theta": 300.0}
    ropes = {"full_attention": {"rope_type": "default", "rope_theta": 50000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}
    return config | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "rope_parameters": ropes}


def shapes_of(kind, shape, labels):
    if kind == "modernbert":
        return modern_shapes(shape, labels)
    hidden, wide = shape["hidden"], shape["wide"]
    linear = lambda name, rows, columns: {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    norm = lambda name: {f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)}
    prefix = (kind.split("-")[-1] + ".") if labels else ""
    tensors = {"embeddings.word_embeddings.weight": (len(vocabulary(kind)), hidden), "embeddings.position_embeddings.weight": (shape["positions"], hidden),
               "embeddings.token_type_embeddings.weight": (2 if kind == "bert" else 1, hidden), **norm("embeddings.LayerNorm")}
    for layer in range(shape["layers"]):
        at = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            tensors |= linear(f"{at}attention.self.{part}", hidden, hidden)
        tensors |= linear(f"{at}attention.output.dense", hidden, hidden) | norm(f"{at}attention.output.LayerNorm")
        tensors |= linear(f"{at}intermediate.dense", wide, hidden) | linear(f"{at}output.dense", hidden, wide) | norm(f"{at}output.LayerNorm")
    if kind == "bert" or not labels:
        tensors |= linear("pooler.dense", hidden, hidden)
    tensors = {prefix + name: size for name, size in tensors.items()}
    if labels and kind == "bert":
        tensors |= linear("classifier", labels, hidden)
    elif labels:
        tensors |= linear("classifier.dense", hidden, hidden) | linear("classifier.out_proj", labels, hidden)
    return tensors


def draw(rng, name, size):
    values = rng.standard_normal(size)
    if "LayerNorm.weight" in name or name.endswith("norm.weight"):
        return 1 + 0.2 * values
    return values * (0.1 if name.endswith("bias") else size[-1] ** -0.5 * (6 if "query" in name or "key" in name else 3 if "Wqkv" in name else 1))


def write_weights(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        packed = pack(values.astype(numpy.float32).reshape(-1).tolist(), "F32")
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def make_folder(folder, kind, size, seed, *, pooling="mean", normalizes=True, labels=0):
    """`labels`: of a class for pairs; 0: embeddings."""
    shape = SHAPES[size]
    folder.mkdir(parents=True)
    rng = numpy.random.default_rng(seed)
    write_weights(folder / "model.safetensors", {name: draw(rng, name, size) for name, size in shapes_of(kind, shape, labels).items()})
    write(folder / "config.json", {
        "model_type": kind, "architectures": [CLASSES[kind] + ("ForSequenceClassification" if labels else "Model")], "vocab_size": len(vocabulary(kind)),
        "hidden_size": shape["hidden"], "num_hidden_layers": shape["layers"], "num_attention_heads": shape["heads"],
        "intermediate_size": shape["wide"], "max_position_embeddings": shape["positions"],
        **(modern_config(shape, size) if kind == "modernbert" else {
            "type_vocab_size": 2 if kind == "bert" else 1, "hidden_act": "gelu", "layer_norm_eps": 1e-12 if kind == "bert" else 1e-5}),
        "pad_token_id": vocabulary(kind).index(specials(kind)[0]),
        **({"id2label": {str(i): f"LABEL_{i}" for i in range(labels)}, "label2id": {f"LABEL_{i}": i for i in range(labels)}} if labels else {})})
    write(folder / "tokenizer.json", tokenizer(kind))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials(kind)))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **names, "model_max_length": 10 ** 6,
                                             "model_input_names": ["input_ids", *["token_type_ids"] * (kind == "bert"), "attention_mask"]})
    if labels:
        return folder
    kinds = ["Pooling"] + ["Normalize"] * normalizes
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": f"{i}_{name}" if i else "", "type": f"sentence_transformers.models.{name}"}
                                    for i, name in enumerate(["Transformer", *kinds])])
    (folder / "1_Pooling").mkdir()
    write(folder / "1_Pooling/config.json", {"embedding_dimension": shape["hidden"], "pooling_mode": {**MODES, "max": "max"}[pooling]})
    return folder
