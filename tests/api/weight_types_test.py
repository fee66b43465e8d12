"""GGUF's i-quants and ternary types through the real worker: a tiny model with random blocks of a type gives the answers of the same
values in F32. Kernels multiply the types that they become with 8 or 16-bit activations, so log-probabilities differ slightly."""

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from shoal_server import ShoalServer
from vision_folder import CHARACTERS, tokenizer

HIDDEN, WIDE, LAYERS, HEADS, TOKENS = 256, 256, 2, 4, 96
HALVES = {"TQ1_0": 52, "TQ2_0": 64}  # places of f16 scales that are not first
TYPES = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ4_XS", "IQ1_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0"]


def random_rows(source, rows, columns, kind, scale):
    """Random blocks whose dequantized values have about this deviation."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = source.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    at = HALVES.get(kind.name, 0)

    def set_scales(value):
        blocks[:, at:at + 2] = np.full(len(blocks), value, np.float16).view(np.uint8).reshape(-1, 2)
        return dequantize(blocks, kind)
    set_scales(np.float16(scale / set_scales(1.0).std()))
    return blocks.reshape(rows, -1)


def write(path, kind, plain):
    source = np.random.default_rng(5)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    made = tokenizer({"<|end|>": 94})
    names = {number: name for name, number in made["model"]["vocab"].items()} | {94: "<|end|>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([names.get(i, f"[unused{i}]") for i in range(TOKENS)])
    writer.add_token_types([1] * TOKENS)
    writer.add_token_merges(["Z Z"])
    writer.add_eos_token_id(94)

    def add(name, rows, columns, scale):
        blocks = random_rows(source, rows, columns, kind, scale)
        if plain:
            writer.add_tensor(name, dequantize(blocks, kind).astype(np.float32))
        else:
            writer.add_tensor(name, blocks, raw_dtype=kind)
    add("token_embd.weight", TOKENS, HIDDEN, 1.0)
    add("output.weight", TOKENS, HIDDEN, 0.3)
    for layer in range(LAYERS):
        for name, rows in (("attn_q", HIDDEN), ("attn_k", HIDDEN), ("attn_v", HIDDEN), ("attn_output", HIDDEN),
                           ("ffn_gate", WIDE), ("ffn_up", WIDE), ("ffn_down", HIDDEN)):
            add(f"blk.{layer}.{name}.weight", rows, HIDDEN, 0.05)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def answer(model):
    with ShoalServer("--kv-cache-type", "f32", "--activation-bits", "16", model=model) as server:
        server.wait_ready()
        reply = server.request("POST", "/v1/completions", {"prompt": CHARACTERS[:20], "max_tokens": 8, "temperature": 0,
                                                           "logprobs": 2, "ignore_eos": True})
        assert reply.status == 200, reply.body
        return reply.json["choices"][0]["logprobs"]


@pytest.mark.parametrize("name", TYPES)
def test_the_same_values_give_the_same_answer(tmp_path, name):
    kind = gguf.GGMLQuantizationType[name]
    quantized = answer(write(tmp_path / "quantized.gguf", kind, plain=False))
    plain = answer(write(tmp_path / "plain.gguf", kind, plain=True))
    assert np.allclose(quantized["token_logprobs"][:2], plain["token_logprobs"][:2], atol=0.05)
