"""Llama 3.2 Vision in a shape that is drawn when the test runs: its answers have the log-probabilities that the formulas in plain numpy give
(plain_mllama.py), for text alone, for an image, and for three, of which nothing divides two. A failure names the seed, which SHOAL_DRAWN_SEED repeats."""

import json
import os
import random
import sys

import numpy as np

import plain_mllama
from drawn_shapes import VOCAB, with_biases
from drawn_towers_test import DIFFERENCE_MOST, IMAGES_MATTER, TOP, picture
from shoal_server import ROOT, ShoalServer
from vision_folder import CHARACTERS, FIRST_CHARACTER, MLLAMA, add_assets, text_part

sys.path.insert(0, str(ROOT / "scripts/golden"))
from checkpoint_variants import write_safetensors  # noqa: E402

IMAGE = VOCAB  # an embedding without logits
CONTENTS = ["text", "x1ab", "ab 1c", "abc12d3e"]  # numbers are images


def draw_config(drawn):
    heads, layers, tiles = drawn.choice([1, 2, 3, 4]), drawn.randint(2, 5), drawn.randint(1, 5)
    patch, tower_heads, tower_layers = drawn.randint(2, 6), drawn.randint(1, 4), drawn.randint(1, 4)
    hidden, outputs = 4 * drawn.randint(1, 5) * tower_heads, drawn.sample(range(tower_layers), drawn.randint(1, tower_layers))
    text = {"model_type": "mllama_text_model", "hidden_size": 4 * drawn.randint(2, 8) * heads, "intermediate_size": 8 * drawn.randint(3, 9),
            "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": VOCAB, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
            "num_key_value_heads": drawn.choice([n for n in range(1, heads + 1) if heads % n == 0]), "rope_theta": 5000.0,
            "cross_attention_layers": sorted(drawn.sample(range(layers), drawn.randint(1, layers - 1))), "tie_word_embeddings": False,
            "bos_token_id": 1, "eos_token_id": 2}
    vision = {"model_type": "mllama_vision_model", "hidden_size": hidden, "intermediate_size": 8 * drawn.randint(2, 8), "attention_heads": tower_heads,
              "num_hidden_layers": tower_layers, "num_global_layers": drawn.randint(0, 2), "image_size": patch * drawn.randint(1, 4), "patch_size": patch,
              "max_num_tiles": tiles, "intermediate_layers_indices": outputs, "vision_output_dim": hidden * (1 + len(outputs)), "norm_eps": 1e-5,
              "hidden_act": drawn.choice(["gelu", "gelu_pytorch_tanh", "quick_gelu"]), "supported_aspect_ratios": plain_mllama.canvases(tiles)}
    return {"model_type": "mllama", "architectures": ["MllamaForConditionalGeneration"], "image_token_index": IMAGE, "text_config": text,
            "vision_config": vision}


def tower_shapes(config):
    vision, at = config["vision_config"], "vision_model."
    hidden, wide, patch, tiles = (vision[name] for name in ("hidden_size", "intermediate_size", "patch_size", "max_num_tiles"))
    places, aspects = (vision["image_size"] // patch) ** 2 + 1, 1 + len(plain_mllama.canvases(tiles))
    shapes = {at + "patch_embedding.weight": (hidden, 3, patch, patch), at + "class_embedding": (hidden,),
              at + "gated_positional_embedding.embedding": (places, hidden), at + "gated_positional_embedding.gate": (1,),
              at + "gated_positional_embedding.tile_embedding.weight": (aspects, tiles * places * hidden)}
    for name in ("pre", "post"):
        shapes |= {f"{at}{name}_tile_positional_embedding.embedding.weight": (aspects, tiles * hidden), f"{at}{name}_tile_positional_embedding.gate": (1,)}
    biased = {at + "layernorm_pre": (hidden,), at + "layernorm_post": (hidden,),
              "multi_modal_projector": (config["text_config"]["hidden_size"], vision["vision_output_dim"])}
    for part, count in (("transformer", vision["num_hidden_layers"]), ("global_transformer", vision["num_global_layers"])):
        for layer in range(count):
            name = f"{at}{part}.layers.{layer}."
            biased |= {name + "input_layernorm": (hidden,), name + "post_attention_layernorm": (hidden,), name + "mlp.fc1": (wide, hidden),
                       name + "mlp.fc2": (hidden, wide)}
            shapes |= {f"{name}self_attn.{one}_proj.weight": (hidden, hidden) for one in "qkvo"}
            shapes |= {f"{name}gate_{one}": (1,) for one in ("attn", "ffn") if part == "global_transformer"}
    return shapes | with_biases(biased)


def text_shapes(text):
    at, hidden, wide = "language_model.model.", text["hidden_size"], text["intermediate_size"]
    head_dim = hidden // text["num_attention_heads"]
    keys = head_dim * text["num_key_value_heads"]
    shapes = {at + "embed_tokens.weight": (VOCAB + 8, hidden), at + "norm.weight": (hidden,), "language_model.lm_head.weight": (VOCAB, hidden)}
    for layer in range(text["num_hidden_layers"]):
        name, crossed = f"{at}layers.{layer}.", layer in text["cross_attention_layers"]
        part = name + ("cross_attn." if crossed else "self_attn.")
        shapes |= {name + "input_layernorm.weight": (hidden,), name + "post_attention_layernorm.weight": (hidden,),
                   name + "mlp.gate_proj.weight": (wide, hidden), name + "mlp.up_proj.weight": (wide, hidden), name + "mlp.down_proj.weight": (hidden, wide),
                   part + "q_proj.weight": (hidden, hidden), part + "k_proj.weight": (keys, hidden), part + "v_proj.weight": (keys, hidden),
                   part + "o_proj.weight": (hidden, hidden)}
        if crossed:
            shapes |= {part + "q_norm.weight": (head_dim,), part + "k_norm.weight": (head_dim,), name + "cross_attn_attn_gate": (1,),
                       name + "cross_attn_mlp_gate": (1,)}
    return shapes


def draw_weights(numbers, shapes):
    """Norms and gates lie around 1."""
    found = {}
    for name, shape in shapes.items():
        array = numbers.standard_normal(shape)
        if len(shape) == 1:
            array = 0.2 * array + (0 if name.endswith((".bias", "class_embedding")) else 1)
        elif "embed" not in name or "patch" in name:
            array *= (3 if "lm_head" in name else 1) / np.sqrt(np.prod(shape[1:]))
        found[name] = array.astype(np.float32)
    return found


def letters(text):
    return [FIRST_CHARACTER + CHARACTERS.index(character) for character in text]


def asked(server, content, pictures):
    parts = [pictures[int(letter) - 1] if letter.isdigit() else text_part(letter) for letter in content]
    reply = server.chat(parts, temperature=0, max_tokens=1, logprobs=True, top_logprobs=TOP, ignore_eos=True)
    assert reply.status == 200, (reply.body, server.log_text())
    return np.array([one["logprob"] for one in reply.json["choices"][0]["logprobs"]["content"][0]["top_logprobs"]])


def expected(config, tensors, content, images):
    ids = [93] + letters("user:") + sum(([IMAGE] if letter.isdigit() else letters(letter) for letter in content), []) + [94, 93] + letters("assistant:")
    found = plain_mllama.logits(config, tensors, ids, [images[int(letter) - 1] for letter in content if letter.isdigit()])
    return np.sort(found - found.max() - np.log(np.exp(found - found.max()).sum()))[::-1][:TOP]


def test_a_drawn_shape(tmp_path):
    seed = int(os.environ.get("SHOAL_DRAWN_SEED") or random.SystemRandom().randrange(1 << 32))
    drawn, numbers = random.Random(seed), np.random.default_rng(seed)
    config = draw_config(drawn)
    tensors = draw_weights(numbers, tower_shapes(config) | text_shapes(config["text_config"]))
    side, tiles = config["vision_config"]["image_size"], config["vision_config"]["max_num_tiles"]
    canvases = [numbers.integers(0, 256, (side * rows, side * columns, 3), np.uint8)
                for rows, columns in drawn.choices(plain_mllama.canvases(tiles), k=3)]
    exact = {name: array.astype(float) for name, array in tensors.items()}
    images = [plain_mllama.features(config, exact, (canvas / 255 - 0.5) / 0.5) for canvas in canvases]
    wanted = {content: expected(config, exact, content, images) for content in CONTENTS}
    other = expected(config, exact, CONTENTS[1], [(found[:, ::-1], seen) for found, seen in images])
    assert np.abs(wanted[CONTENTS[1]] - other).max() > IMAGES_MATTER, f"seed {seed}: the image does not matter"
    (tmp_path / "config.json").write_text(json.dumps(config))
    write_safetensors(tmp_path / "model.safetensors", tensors, "F32")
    form = MLLAMA | {"special": {"<|image|>": IMAGE}, "processor": MLLAMA["processor"] | {"size": {"height": side, "width": side}, "max_image_tiles": tiles}}
    with ShoalServer("--kv-cache-type", "f32", model=add_assets(tmp_path, form)) as server:
        server.wait_ready()
        for content in CONTENTS:
            found = asked(server, content, [picture(canvas) for canvas in canvases])
            assert np.abs(found - wanted[content]).max() < DIFFERENCE_MOST, f"SHOAL_DRAWN_SEED={seed}: {content}: {found} and not {wanted[content]}, {config}"
