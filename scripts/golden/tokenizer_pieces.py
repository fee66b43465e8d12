#!/usr/bin/env python3
"""Trains two small SentencePiece BPE models on the corpus of the tokenizers' tests and writes Hugging Face's ids for them:
tests/golden/tokenizer/pieces_{llama,gemma}.model and .txt (format: tokenizer_ids.py).

Usage: scripts/golden/tokenizer_pieces.py
Needs: pip install sentencepiece protobuf transformers tokenizers gguf.

The ids are those of the tokenizers library on the merges that transformers makes of the scores (generate_merges), with the
normalization that its LlamaConverter and GemmaConverter write. Prints for how many texts SentencePiece itself gives the same pieces.
"""
import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, normalizers
from tokenizers.models import BPE
from transformers.convert_slow_tokenizer import generate_merges

import tokenizer_ids

MODELS = {
    "pieces_llama": {"vocab_size": 900, "add_dummy_prefix": True, "user_defined_symbols": [], "bos_id": 1, "eos_id": 2, "unk_id": 0},
    "pieces_gemma": {"vocab_size": 1000, "add_dummy_prefix": False, "bos_id": 2, "eos_id": 1, "unk_id": 3, "pad_id": 0,
                     "user_defined_symbols": ["<mask>", "\n\n", "<h1>", "▁▁", "▁▁▁"], "control_symbols": ["<start_of_turn>", "<end_of_turn>"]},
}


def train(settings):
    out = io.BytesIO()
    texts = tokenizer_ids.SENTENCES[:10] + tokenizer_ids.CODE  # few scripts: most of the corpus goes to bytes
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in texts for line in text.split("\n") if line), model_writer=out, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98,
        split_digits=True, num_threads=1, minloglevel=2, **settings)
    return out.getvalue()


def convert(proto, prefix):
    vocab = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    merges = generate_merges(vocab, scores)
    tokenizer = Tokenizer(BPE(vocab, merges, unk_token=proto.trainer_spec.unk_piece, fuse_unk=True, byte_fallback=True))
    steps = [normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", "▁")])
    tokenizer.add_tokens([AddedToken(piece.piece, normalized=False, special=piece.type in (2, 3))
                          for piece in proto.pieces if piece.type in (2, 3, 4)])
    return tokenizer


def main():
    for name, settings in MODELS.items():
        model = train(settings)
        (tokenizer_ids.OUT / f"{name}.model").write_bytes(model)
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        tokenizer = convert(proto, settings["add_dummy_prefix"])
        tokenizer_ids.write(name, tokenizer)
        own = sentencepiece.SentencePieceProcessor(model_proto=model)
        texts = [data.decode() for count, data in tokenizer_ids.cases() if count == 1 and data.decode("utf-8", "ignore").encode() == data]
        tokenizer.encode_special_tokens = True
        alike = sum(own.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
        print(f"{name}: {len(model)} bytes; SentencePiece cuts {alike} of {len(texts)} texts alike")


main()
