"""Vision models whose shape is drawn when the test runs: a folder, and its GGUF with a projector file, give the log-probabilities that
the formulas in plain numpy give (plain_vision.py). A failure names the seed, which SHOAL_DRAWN_SEED repeats."""

import base64
import json
import os
import random
import struct
import sys
import zlib

import numpy as np
import pytest

import plain_vision
from mmproj_test import add_texts
from shoal_server import ROOT, ShoalServer
from vision_folder import CHARACTERS, FIRST_CHARACTER, LFM2, PADDLE, PIXTRAL, add_assets, image_part, text_part

sys.path.insert(0, str(ROOT / "scripts/golden"))
import mmproj_files  # noqa: E402
from checkpoint_variants import write_safetensors  # noqa: E402

TOP, DIFFERENCE_MOST, IMAGES_MATTER = 20, 1e-3, 0.05
VOCAB, IMAGE, BEGIN, END, BREAK = 96, 91, 89, 90, 89
CLIP = np.array([[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]])
HALF = np.full((2, 3), 0.5)


# --- shapes and weights ---------------------------------------------------------------------------

def draw_text(drawn):
    heads = drawn.choice([1, 2, 3, 4])
    return {"hidden_size": 8 * drawn.randint(3, 8), "intermediate_size": 8 * drawn.randint(3, 9), "num_hidden_layers": drawn.randint(1, 3),
            "num_attention_heads": heads, "num_key_value_heads": drawn.choice([n for n in range(1, heads + 1) if heads % n == 0]),
            "head_dim": 8 * drawn.randint(1, 3), "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
            "rope_theta": 5000.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}


def draw_tower(drawn):
    heads = drawn.randint(1, 4)
    return {"hidden_size": 4 * drawn.randint(2, 5) * heads, "intermediate_size": 8 * drawn.randint(3, 9),
            "num_hidden_layers": drawn.randint(1, 3), "num_attention_heads": heads, "patch_size": drawn.randint(2, 6)}


def text_shapes(text, at, head):
    hidden, wide = text["hidden_size"], text["intermediate_size"]
    queries, keys = (text[name] * text["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    shapes = {at + "embed_tokens.weight": (VOCAB, hidden), at + "norm.weight": (hidden,), head: (VOCAB, hidden)}
    for layer in range(text["num_hidden_layers"]):
        shapes |= {f"{at}layers.{layer}.{name}.weight": shape for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden), "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden), "mlp.down_proj": (hidden, wide)}.items()}
    return shapes


def with_biases(shapes):
    return {f"{name}.{kind}": shape if kind == "weight" else shape[:1] for name, shape in shapes.items() for kind in ("weight", "bias")}


def siglip_shapes(vision, at, positions):
    hidden, wide = vision["hidden_size"], vision["intermediate_size"]
    shapes = {at + "embeddings.patch_embedding": (hidden, 3 * vision["patch_size"] ** 2), at + "post_layernorm": (hidden,)}
    for layer in range(vision["num_hidden_layers"]):
        shapes |= {f"{at}encoder.layers.{layer}.{name}": shape for name, shape in {
            "layer_norm1": (hidden,), "layer_norm2": (hidden,), "mlp.fc1": (wide, hidden), "mlp.fc2": (hidden, wide),
            **{f"self_attn.{part}_proj": (hidden, hidden) for part in ("q", "k", "v", "out")}}.items()}
    return with_biases(shapes) | {at + "embeddings.position_embedding.weight": (positions, hidden)}


def draw_weights(numbers, shapes):
    """Norms and biases are small; the head's rows make log-probabilities differ."""
    found = {}
    for name, shape in shapes.items():
        array = numbers.standard_normal(shape)
        if len(shape) == 1:
            array = 0.2 * array + (0 if name.endswith(".bias") else 1)
        elif "embed" not in name:
            array *= (3 if "lm_head" in name else 1) / np.sqrt(np.prod(shape[1:]))
        found[name] = array.astype(np.float32)
    return found


# --- families: (config, shapes, grid of placeholders) ---------------------------------------------

def mistral3(drawn):
    text, vision, merge = draw_text(drawn), draw_tower(drawn), drawn.randint(1, 3)
    patch, hidden, wide, rows = vision["patch_size"], vision["hidden_size"], vision["intermediate_size"], text["hidden_size"]
    vision |= {"model_type": "pixtral", "image_size": 192, "hidden_act": drawn.choice(["gelu", "silu"]), "rope_theta": 10000.0}
    config = {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": IMAGE,
              "spatial_merge_size": merge, "multimodal_projector_bias": drawn.random() < 0.5, "projector_hidden_act": "gelu",
              "vision_feature_layer": -1, "tie_word_embeddings": False, "vision_config": vision,
              "text_config": text | {"model_type": "mistral", "sliding_window": None}}
    shapes = text_shapes(text, "language_model.model.", "language_model.lm_head.weight")
    shapes |= {"vision_tower.patch_conv.weight": (hidden, 3, patch, patch), "vision_tower.ln_pre.weight": (hidden,)}
    for layer in range(vision["num_hidden_layers"]):
        shapes |= {f"vision_tower.transformer.layers.{layer}.{name}.weight": shape for name, shape in {
            "attention_norm": (hidden,), "ffn_norm": (hidden,), "feed_forward.gate_proj": (wide, hidden),
            "feed_forward.up_proj": (wide, hidden), "feed_forward.down_proj": (hidden, wide),
            **{f"attention.{part}_proj": (hidden, hidden) for part in "qkvo"}}.items()}
    projector = with_biases({"multi_modal_projector.linear_1": (rows, hidden), "multi_modal_projector.linear_2": (rows, rows)})
    shapes |= {name: shape for name, shape in projector.items() if config["multimodal_projector_bias"] or name.endswith("weight")}
    shapes |= {"multi_modal_projector.norm.weight": (hidden,),
               "multi_modal_projector.patch_merger.merging_layer.weight": (hidden, hidden * merge * merge)}
    processor = {"size": {"longest_edge": 192}, "patch_size": patch}
    return config, shapes, patch * merge, processor


def paddleocr_vl(drawn):
    text, vision, merge, side = draw_text(drawn), draw_tower(drawn), 2, drawn.randint(2, 7)
    patch, hidden = vision["patch_size"], vision["hidden_size"]
    first = drawn.randint(0, text["head_dim"] // 2)
    second = drawn.randint(0, text["head_dim"] // 2 - first)
    sections = [first, second, text["head_dim"] // 2 - first - second]
    config = text | {"model_type": "paddleocr_vl", "architectures": ["PaddleOCRVLForConditionalGeneration"], "image_token_id": IMAGE,
                     "use_bias": False, "rope_scaling": {"mrope_section": sections, "rope_type": "default", "type": "default"},
                     "vision_config": vision | {"model_type": "paddleocr_vl", "image_size": side * patch, "spatial_merge_size": merge,
                                                "layer_norm_eps": 1e-6}}
    shapes = text_shapes(text, "model.", "lm_head.weight") | siglip_shapes(vision, "visual.vision_model.", side * side)
    shapes["visual.vision_model.embeddings.patch_embedding.weight"] = (hidden, 3, patch, patch)
    inner = hidden * merge * merge
    shapes |= with_biases({"mlp_AR.pre_norm": (hidden,), "mlp_AR.linear_1": (inner, inner), "mlp_AR.linear_2": (text["hidden_size"], inner)})
    processor = {"patch_size": patch, "merge_size": merge, "size": {"shortest_edge": 64, "longest_edge": 4096}}
    return config, shapes, patch * merge, processor


def lfm2_vl(drawn):
    text, vision, factor, side = draw_text(drawn), draw_tower(drawn), drawn.randint(1, 3), drawn.randint(2, 7)
    config = {"model_type": "lfm2_vl", "architectures": ["Lfm2VlForConditionalGeneration"], "image_token_id": IMAGE,
              "downsample_factor": factor, "projector_hidden_size": 8 * drawn.randint(2, 9), "tie_word_embeddings": False,
              "projector_use_layernorm": drawn.random() < 0.5, "text_config": text | {"model_type": "llama"},
              "vision_config": vision | {"model_type": "siglip2_vision_model", "num_patches": side * side, "vision_use_head": False}}
    inner, wide, at = vision["hidden_size"] * factor ** 2, config["projector_hidden_size"], "model.multi_modal_projector."
    shapes = text_shapes(text, "model.language_model.", "lm_head.weight") | siglip_shapes(vision, "model.vision_tower.", side * side)
    shapes |= with_biases({at + "linear_1": (wide, inner), at + "linear_2": (text["hidden_size"], wide)})
    if config["projector_use_layernorm"]:
        shapes |= with_biases({at + "layer_norm": (inner,)})
    processor = {"encoder_patch_size": vision["patch_size"], "downsample_factor": factor, "tile_size": 4 * vision["patch_size"] * factor,
                 "min_image_tokens": 1, "max_image_tokens": 64}
    return config, shapes, vision["patch_size"] * factor, processor


def placeholder_lines(family, lines, columns):
    if family is mistral3:
        return sum(([IMAGE] * columns + [BREAK] for _ in range(lines)), [])[:-1] + [END]
    return [BEGIN] + [IMAGE] * (lines * columns) + [END]


# --- the reference --------------------------------------------------------------------------------

def prompt_of(image_ids):
    def ids(text):
        return [FIRST_CHARACTER + CHARACTERS.index(character) for character in text]
    return [93] + ids("user:") + image_ids + ids("ab") + [94, 93] + ids("assistant:")


def positions_of(ids, lines, columns, by_axis):
    """[rows, 3]: by time, line and column."""
    found, at, inside = [], 0, 0
    for token in ids:
        if by_axis and token == IMAGE:
            found.append([at, at + inside // columns, at + inside % columns])
            inside += 1
            at += max(lines, columns) if inside == lines * columns else 0
        else:
            found.append([at] * 3)
            at += 1
    return np.array(found, float)


def top_log_probabilities(family, config, tensors, ids, grid, features):
    text = dict(config.get("text_config") or config)
    if family is paddleocr_vl:
        text["sections"] = config["rope_scaling"]["mrope_section"]
    at, head = {mistral3: ("language_model.model.", "language_model.lm_head.weight"), paddleocr_vl: ("model.", "lm_head.weight"),
                lfm2_vl: ("model.language_model.", "lm_head.weight")}[family]
    x = tensors[at + "embed_tokens.weight"][ids].copy()
    x[np.array(ids) == IMAGE] = features
    logits = plain_vision.text_logits(text, tensors, at, head, x, positions_of(ids, *grid, family is paddleocr_vl))
    return np.sort(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))[::-1][:TOP]


def picture(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    file = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return image_part("data:image/png;base64," + base64.b64encode(file).decode())


def answered(model, image, prompt_tokens):
    with ShoalServer("--kv-cache-type", "f32", model=model) as server:
        server.wait_ready()
        reply = server.chat([image, text_part("ab")], temperature=0, max_tokens=1, logprobs=True, top_logprobs=TOP, ignore_eos=True)
        assert reply.status == 200, reply.body
        assert reply.json["usage"]["prompt_tokens"] == prompt_tokens
        return np.array([one["logprob"] for one in reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]])


@pytest.mark.parametrize("family, form, normal", [(mistral3, PIXTRAL, CLIP), (paddleocr_vl, PADDLE, CLIP), (lfm2_vl, LFM2, HALF)],
                         ids=["mistral3", "paddleocr_vl", "lfm2_vl"])
def test_a_drawn_shape(tmp_path, family, form, normal):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    drawn, numbers = random.Random(seed), np.random.default_rng(seed)
    config, shapes, unit, processor = family(drawn)
    tensors = draw_weights(numbers, shapes)
    grid = (drawn.randint(2, 5), drawn.randint(2, 5))
    pixels = numbers.integers(0, 256, (grid[0] * unit, grid[1] * unit, 3), np.uint8)
    if family is paddleocr_vl and not 64 <= pixels.shape[0] * pixels.shape[1] <= 4096:
        grid = (2, 2)
        pixels = pixels[:2 * unit, :2 * unit]
    form = form | {"processor": form["processor"] | processor | {"image_mean": list(normal[0]), "image_std": list(normal[1])}}
    exact = {name: array.astype(float) for name, array in tensors.items()}
    features = getattr(plain_vision, family.__name__ + "_features")(config, exact, (pixels / 255 - normal[0]) / normal[1])
    ids = prompt_of(placeholder_lines(family, *grid))
    expected = top_log_probabilities(family, config, exact, ids, grid, features)
    other = top_log_probabilities(family, config, exact, ids, grid, features[:, ::-1])
    assert np.abs(expected - other).max() > IMAGES_MATTER, f"seed {seed}: the image does not matter"

    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors, "F32")
    models = [add_assets(folder, form)]
    if family is not lfm2_vl:  # whose projector file belongs to lfm2's text
        models.append(tmp_path / "tiny.gguf")
        mmproj_files.write_text(family.__name__, config, tensors, models[1], add_texts(form))
        mmproj_files.write_tower(family.__name__, config, tensors, tmp_path / "mmproj-tiny.gguf")
    for model in models:
        found = answered(model, picture(pixels), len(ids))
        assert np.abs(found - expected).max() < DIFFERENCE_MOST, f"SHOAL_DRAWN_SEED={seed}: {found} and not {expected}, {config}"
