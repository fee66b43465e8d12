#!/usr/bin/env python3
"""Writes tiny tokenizers, one for each setting of tokenizer.json, and Hugging Face's ids for a corpus with them.

Usage: scripts/golden/tokenizer_variants.py
Needs: pip install tokenizers gguf sentencepiece protobuf. Writes tests/golden/tokenizer/variants/{corpus.txt,<variant>.json,<variant>.txt};
corpus and digests have the format of scripts/golden/tokenizer_ids.py. Also writes tests/golden/tokenizer/nfc.txt: hashes
of normalization form C by this Python's unicodedata.
"""
import base64
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tokenizer_ids as golden  # noqa: E402
import sentencepiece  # noqa: E402
from sentencepiece import sentencepiece_model_pb2  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

OUT = golden.OUT / "variants"
ALPHABET = "abcdewxyzé12."
MERGES = ["a b", "ab c", "c d", "ab cd", "x y", "xy z", "d e", "w w", "1 2", "é a", "▁ a", "▁ ab", "▁ w", "▁ ▁", "b ▁"]


def vocabulary(extra=(), space="▁"):
    tokens = ["<unk>"] + list(ALPHABET + space) + list(extra)
    merges = [merge for merge in MERGES if space == "▁" or "▁" not in merge]
    tokens += [merge.replace(" ", "") for merge in merges]
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}, merges


def byte_alphabet():
    plain = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def added(vocab, *tokens):
    """Ids as Hugging Face assigns them: the model's if it has the text, else the next free one."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    ids = dict(vocab)
    for content, _ in tokens:
        ids.setdefault(content, len(ids))
    return [{"id": ids[content], "content": content, **flags, **set_flags} for content, set_flags in tokens]


def document(model=None, byte_level=False, tokens=(), extra=(), **stages):
    if byte_level:
        vocab = {char: i for i, char in enumerate(byte_alphabet().values())}
        merges = ["a b", "ab c", "Ġ a", "Ġ w", "Ġa b", "1 2", "Ã ©", "Ġ Ġ", "c d"]
        for merge in merges:
            vocab.setdefault(merge.replace(" ", ""), len(vocab))
    else:
        vocab, merges = vocabulary(extra)
    base = {"type": "BPE", "dropout": None, "unk_token": None if byte_level else "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(vocab, *tokens), "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **stages, "model": {**base, **(model or {})}}


def variants():
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    prepend = {"type": "Prepend", "prepend": "▁"}
    sequence = lambda kind, member, *parts: {"type": "Sequence", member: list(parts)}
    split = lambda pattern, behavior, invert=False: {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    flags = [("<l>", {"lstrip": True}), ("<r>", {"rstrip": True}), ("<lr>", {"lstrip": True, "rstrip": True}), ("<w>", {"single_word": True}),
             ("xyz", {"single_word": True}), ("<s>", {"special": True}), ("<s2>", {"special": True, "rstrip": True}), ("<n>", {"normalized": True})]
    yield "added_flags", document(tokens=flags)
    yield "added_overlap", document(tokens=[("ab", {}), ("abcd", {}), ("cde", {}), ("aba", {}), ("bc", {"normalized": True}), ("é", {})])
    yield "added_normalized", document(tokens=[("e\u0301 a", {"normalized": True}), ("<s>", {"normalized": True, "special": True}), ("é1", {}), ("a b", {"normalized": True})],
                                       normalizer=sequence("Sequence", "normalizers", {"type": "NFC"}, replace))
    yield "added_prepended", document(tokens=[("<s>", {"normalized": True, "special": True}), ("<n>", {"normalized": True})],
                                      normalizer=sequence("Sequence", "normalizers", prepend, replace))
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            yield f"split_{behavior.lower()}{'_inverted' if invert else ''}", document(pre_tokenizer=split({"Regex": "[bx]|\\s"}, behavior, invert))
    yield "split_string", document(pre_tokenizer=sequence("Sequence", "pretokenizers", split({"String": "ab"}, "MergedWithNext"), split({"String": "c"}, "MergedWithPrevious")))
    yield "split_empty_match", document(pre_tokenizer=split({"Regex": "(?=[ax])"}, "Isolated"))
    yield "split_spaces", document(pre_tokenizer=split({"Regex": "\\S+|[^\\s]|\\s+(?!\\S)"}, "Removed", True))
    for scheme in ["always", "first", "never"]:
        for whole in [False, True]:
            yield f"metaspace_{scheme}{'' if whole else '_whole'}", document(
                tokens=[("<s>", {"special": True})], pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": whole})
    yield "digits", document(pre_tokenizer={"type": "Digits", "individual_digits": False})
    yield "digits_single", document(pre_tokenizer={"type": "Digits", "individual_digits": True})
    yield "punctuation", document(pre_tokenizer={"type": "Punctuation", "behavior": "Contiguous"})
    yield "whitespace_split", document(pre_tokenizer={"type": "WhitespaceSplit"})
    yield "byte_level_prefix", document(byte_level=True, tokens=[("<s>", {"special": True})], pre_tokenizer={**byte_level, "add_prefix_space": True})
    yield "byte_level_digits", document(byte_level=True, pre_tokenizer=sequence("Sequence", "pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level))
    yield "byte_level_whole", document(byte_level=True, pre_tokenizer={**byte_level, "use_regex": False}, model={"ignore_merges": True})
    yield "unknown_fused", document(model={"fuse_unk": True}, normalizer=replace)
    yield "unknown_none", document(model={"unk_token": None}, normalizer=replace)
    yield "fallback", document(model={"byte_fallback": True, "fuse_unk": True}, extra=[f"<0x{b:02X}>" for b in range(256)], normalizer=replace)
    yield "fallback_partial", document(model={"byte_fallback": True, "fuse_unk": True}, extra=[f"<0x{b:02X}>" for b in range(0xC0, 0x100)] + ["<0x21>", "<0x86>", "<0x92>"])
    vocab, merges = vocabulary(["<0x21>", "!a", "<0x21>a"])
    yield "fallback_merged", document(model={"byte_fallback": True, "vocab": vocab, "merges": ["<0x21> a"] + merges})
    yield "ignore_merges", document(model={"ignore_merges": True}, extra=["cab", "wx"], pre_tokenizer={"type": "WhitespaceSplit"})
    strip_runs = [{"type": "Strip", "strip_left": False, "strip_right": True}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]
    precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap()}
    yield "unigram", unigram()
    yield "unigram_words", unigram(pre_tokenizer=sequence("Sequence", "pretokenizers", {"type": "WhitespaceSplit"}, METASPACE))
    yield "unigram_map", unigram(normalizer=precompiled)
    yield "unigram_map_strip", unigram(normalizer=sequence("Sequence", "normalizers", precompiled, *strip_runs))
    yield "unigram_fallback", unigram(byte_fallback=True)
    yield "unigram_untyped", unigram(type=None, unk_id=4)
    yield "wordpiece", wordpiece()
    yield "wordpiece_cased", wordpiece(normalizer={"lowercase": False, "handle_chinese_chars": False}, max_input_chars_per_word=6)
    yield "wordpiece_accents", wordpiece(normalizer={"strip_accents": False, "clean_text": False}, continuing_subword_prefix="##a")


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def charsmap():
    """A small map of characters, compiled by SentencePiece from rules: source and target code points."""
    rules = {"é": "e", "e\u0301": "é", "²": "2", "½": "1/2", "ⅷ": "viii", "…": "...", "\u00a0": " ", "\u3000": " ", "—": "", "漢": "ab", "xyz": "zyx", "\r": " ",
             "\n": " ", "→": "->"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "rules.tsv").write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
        (folder / "text.txt").write_text("ab abc cd w xyz\n" * 20)
        sentencepiece.SentencePieceTrainer.train(input=str(folder / "text.txt"), model_prefix=str(folder / "m"), vocab_size=16, hard_vocab_limit=False,
                                                 normalization_rule_tsv=str(folder / "rules.tsv"), minloglevel=2)
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((folder / "m.model").read_bytes())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def unigram(byte_fallback=False, unk_id=3, type="Unigram", **stages):
    """A Unigram vocabulary with several paths to most texts, ties between them, and a second text of equal spelling."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.5), ("c", -4.25), ("d", -4.0), ("ab", -5.0), ("abc", -7.75),
              ("cd", -6.5), ("▁a", -4.5), ("▁ab", -6.0), ("abcd", -12.5), ("bcd", -8.0), ("w", -3.0), ("ww", -6.0), ("www", -9.0), ("wwww", -11.5), ("x", -5.0), ("xy", -9.0),
              ("yz", -8.0), ("z", -6.0), ("1", -4.0), ("12", -7.0), ("2", -4.5), (".", -3.0), ("1.2", -10.0), ("é", -7.0), ("e", -5.0), ("viii", -9.0), ("▁▁", -3.0), ("<n>", -9.5),
              ("->", -7.0), ("-", -8.0), ("!", -6.0), ("!a", -8.5)]
    pieces += [(f"<0x{b:02X}>", -13.0) for b in range(256)] if byte_fallback else []
    vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
    model = {"type": type, "unk_id": unk_id, "vocab": [list(p) for p in pieces], "byte_fallback": byte_fallback}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(vocab, *[(t, {"special": True}) for t in list(vocab)[:4]]), "normalizer": None,
            "pre_tokenizer": METASPACE, "post_processor": None, "decoder": METASPACE, **stages, "model": {k: v for k, v in model.items() if v is not None}}


def hide_specials(document):
    """Unigram with special pieces that no text has: unlike Hugging Face's, a user's text never becomes a special token."""
    special = {token["id"] for token in document["added_tokens"]}
    vocab = [[3 * chr(0xF0000 + i) if i in special else piece, score] for i, (piece, score) in enumerate(document["model"]["vocab"])]
    return Tokenizer.from_str(json.dumps({**document, "added_tokens": [], "model": {**document["model"], "vocab": vocab}}))


def wordpiece(**settings):
    """A WordPiece vocabulary over the corpus's characters, with BERT's stages."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "a", "ab", "abc", "b", "c", "cd", "w", "ww", "x", "xyz", "1", "12", ".", "!", "<", ">", "é", "漢", "[", "]",
              "…", "—", "²", "##a", "##b", "##ab", "##c", "##d", "##cd", "##w", "##www", "##x", "##y", "##z", "##2", "##\u0301", "##s", "##n", "r", "l", "##r"]
    normal = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    vocab = {piece: i for i, piece in enumerate(pieces)}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added(vocab, *[(t, {"special": True}) for t in pieces[:5]]),
            "normalizer": {**normal, **settings.pop("normalizer", {})}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None,
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": {**model, **settings}}


def corpus():
    fixed = ["", "abcd", "a b c", " abc", "abc ", "  ab  cd  ", "abcdabcabxyz", "www wwww", "12 1.2 112", "éa e\u0301a é1 e\u03011 e\u0301 a", "xyz xyzx .xyz. _xyz é", "ab abcd cde aba abab",
             "a<l>b", "a  <l>  b", "a  <r>  b", "a \n<lr>\t b", " <l><r> <lr> ", "<w> a<w> <w>b <w>", "<s>a<s> b <s>", "a <s2>  b", "<n>ab<n> <n>", "<s> <s2> <s>", "a b<n>", "!!a!a!", "漢a漢漢 b→!", "\u2192\u2192",
             "▁a▁ab ▁", "a\u00a0b\u3000c", "ab\ncd\r\n x", "…a—b!", "²½ ⅷ1", "x" * 70, "ab" * 40, "a b " * 20, " " * 40, "w" * 41 + " " + "w" * 39]
    yield from fixed
    pick = random.Random(7)
    for _ in range(45):
        yield "".join(pick.choice(["ab", "abc", "cd", "x", "xyz", "w", " ", " ", "  ", "1", "2", ".", "é", "e\u0301", "<s>", "<n>", "<l>", "<r>", "<w>", "\n", "!", "漢", "a", "b", "▁"])
                      for _ in range(pick.randint(1, 24)))


def fnv(hash_value, data):
    for byte in data:
        hash_value = (hash_value ^ byte) * 0x100000001B3 % (1 << 64)
    return hash_value


def nfc_lines():
    """Name and hash: of every assigned character alone; of sequences of those that combine, picked by a generator that the
    C test repeats; then the ranges of assigned characters."""
    every = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF and unicodedata.category(chr(c)) != "Cn"]
    active = [c for c in every if 0x41 <= c <= 0x7A or 0xC0 <= c < 0x3400 and (
        unicodedata.combining(chr(c)) or unicodedata.normalize("NFD", chr(c)) != chr(c) or 0x1100 <= c <= 0x11FF)]
    hash_value = 0xCBF29CE484222325
    for code in every:
        hash_value = fnv(hash_value, unicodedata.normalize("NFC", chr(code)).encode())
    yield f"single {hash_value:016x}"
    hash_value = 0xCBF29CE484222325
    state = 1
    for _ in range(30000):
        text = ""
        for _ in range(6):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            text += chr(active[(state >> 33) % len(active)])
        hash_value = fnv(hash_value, unicodedata.normalize("NFC", text).encode())
    yield f"random {hash_value:016x}"
    starts = [c for i, c in enumerate(every) if i == 0 or every[i - 1] != c - 1]
    ends = [c for i, c in enumerate(every) if i + 1 == len(every) or every[i + 1] != c + 1]
    yield "ranges " + " ".join(f"{a:x}-{b:x}" for a, b in zip(starts, ends))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    lines = list(corpus())
    golden.OUT = OUT
    golden.cases = lambda: ((1, line.encode()) for line in lines)
    (OUT / "corpus.txt").write_text("\n".join(golden.escape(line.encode()) for line in lines) + "\n")
    for name, content in variants():
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (OUT / f"{name}.json").write_text(text + "\n")
        golden.write(name, Tokenizer.from_str(text), hide_specials(content) if content["model"].get("unk_id") else None)
    (OUT.parent / "nfc.txt").write_text("".join(line + "\n" for line in nfc_lines()))


if __name__ == "__main__":
    main()
