"""Small Llama 3.2 Vision models in plain numpy, in double precision: the formulas of transformers' modeling_mllama.py and of the masks of
processing_mllama.py, each written down once and for one prompt. Tensors have the published names."""

import numpy as np

from plain_vision import ACTIVATIONS, attention, layer_norm, linear, patches_of, rms_norm, rotated, silu


def canvases(tiles):
    return [(rows, columns) for rows in range(1, tiles + 1) for columns in range(1, tiles // rows + 1)]


def seen_attention(q, k, v, seen):
    """q [rows, heads, head_dim]; k and v may have fewer heads; seen [rows, keys]."""
    k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1) for part in (k, v))
    scores = np.where(seen, np.einsum("rhd,shd->hrs", q, k) / np.sqrt(q.shape[-1]), -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hrs,shd->rhd", scores / scores.sum(-1, keepdims=True), v).reshape(q.shape[0], -1)


def heads_of(x, t, name, head_dim):
    return linear(x, t, name).reshape(len(x), -1, head_dim)


def tower_layers(vision, t, at, count, x, seen, gated):
    """The outputs of all layers."""
    found, head_dim = [], vision["hidden_size"] // vision["attention_heads"]
    for layer in range(count):
        name = f"{at}layers.{layer}."
        gates = [np.tanh(t[f"{name}gate_{part}"]) if gated else 1.0 for part in ("attn", "ffn")]
        normed = layer_norm(x, t, name + "input_layernorm", vision["norm_eps"])
        q, k, v = (heads_of(normed, t, f"{name}self_attn.{part}_proj", head_dim) for part in "qkv")
        x = x + gates[0] * linear(seen_attention(q, k, v, seen), t, name + "self_attn.o_proj")
        normed = layer_norm(x, t, name + "post_attention_layernorm", vision["norm_eps"])
        x = x + gates[1] * linear(ACTIVATIONS[vision["hidden_act"]](linear(normed, t, name + "mlp.fc1")), t, name + "mlp.fc2")
        found.append(x)
    return found


def features(config, t, canvas):
    """[rows of all squares, hidden size of the text], and how many of them are of squares with pixels; canvas [height, width, 3]."""
    vision, at = config["vision_config"], "vision_model."
    side, patch, tiles, hidden = (vision[name] for name in ("image_size", "patch_size", "max_num_tiles", "hidden_size"))
    rows, columns = canvas.shape[0] // side, canvas.shape[1] // side
    places, aspect = (side // patch) ** 2 + 1, 1 + canvases(tiles).index((rows, columns))
    x = np.zeros((tiles, places, hidden))
    for tile in range(rows * columns):
        top, left = tile // columns * side, tile % columns * side
        cut = patches_of(canvas[top:top + side, left:left + side], patch, (2, 0, 1)).reshape(places - 1, -1)
        x[tile, 1:] = cut @ t[at + "patch_embedding.weight"].reshape(hidden, -1).T

    def of_tiles(name):
        return np.tanh(t[f"{at}{name}_tile_positional_embedding.gate"]) * t[f"{at}{name}_tile_positional_embedding.embedding.weight"][aspect].reshape(tiles, 1, hidden)
    x[:, 1:] += of_tiles("pre")
    x[:, 0] = t[at + "class_embedding"]
    gate = np.tanh(t[at + "gated_positional_embedding.gate"])
    x += (1 - gate) * t[at + "gated_positional_embedding.embedding"]
    x += gate * t[at + "gated_positional_embedding.tile_embedding.weight"][aspect].reshape(x.shape)
    pads = -places % 8
    x = np.concatenate([layer_norm(x, t, at + "layernorm_pre", 1e-5), np.zeros((tiles, pads, hidden))], 1)
    inside = np.zeros(x.shape[:2], bool)
    inside[:rows * columns, :places] = True
    seen = inside.ravel()[:, None] | inside.ravel()[None]
    outputs = tower_layers(vision, t, at + "transformer.", vision["num_hidden_layers"], x.reshape(-1, hidden), seen, False)
    x = layer_norm(outputs[-1], t, at + "layernorm_post", 1e-5).reshape(x.shape) + of_tiles("post")
    x = [x.reshape(-1, hidden)]
    x += tower_layers(vision, t, at + "global_transformer.", vision["num_global_layers"], x[0], seen, True)
    between = np.stack([outputs[layer] for layer in vision["intermediate_layers_indices"]], -1)
    whole = np.concatenate([x[-1], between.reshape(len(between), -1)], -1).reshape(tiles, places + pads, -1)[:, :places]
    return linear(whole.reshape(tiles * places, -1), t, "multi_modal_projector"), rows * columns * places


def sights(ids, image_token, seen, counts):
    """[rows, features] of a prompt, and which rows see an image: from each image to the next, or, if that follows at once, as far as it is seen."""
    places = [at for at, token in enumerate(ids) if token == image_token]
    ends = [*places[1:], len(ids)]
    for i in reversed(range(len(places) - 1)):
        if ends[i] == places[i] + 1:
            ends[i] = ends[i + 1]
    found, first = np.zeros((len(ids), sum(counts)), bool), 0
    for place, end, rows, count in zip(places, ends, seen, counts):
        found[place:end, first:first + rows] = True
        first += count
    sees = found.any(-1)
    found[~sees] = True  # a mask that hides everything is lifted
    return found, sees


def logits(config, t, ids, images):
    """After the last of the tokens; images: what features() gives for each."""
    text, at = config["text_config"], "language_model.model."
    epsilon, head_dim = text["rms_norm_eps"], text["hidden_size"] // text["num_attention_heads"]
    x = t[at + "embed_tokens.weight"][ids]
    turns = np.outer(np.arange(len(ids)), text["rope_theta"] ** (-np.arange(0, head_dim, 2) / head_dim))
    if images:
        rows = np.concatenate([found for found, _ in images])
        found, sees = sights(ids, config["image_token_index"], [seen for _, seen in images], [len(found) for found, _ in images])
    for layer in range(text["num_hidden_layers"]):
        name, gates = f"{at}layers.{layer}.", (1.0, 1.0)
        normed = rms_norm(x, t[name + "input_layernorm.weight"], epsilon)
        if layer in text["cross_attention_layers"]:
            if not images:
                continue
            q = rms_norm(heads_of(normed, t, name + "cross_attn.q_proj", head_dim), t[name + "cross_attn.q_norm.weight"], epsilon)
            k = rms_norm(heads_of(rows, t, name + "cross_attn.k_proj", head_dim), t[name + "cross_attn.k_norm.weight"], epsilon)
            attended = linear(seen_attention(q, k, heads_of(rows, t, name + "cross_attn.v_proj", head_dim), found), t, name + "cross_attn.o_proj")
            gates = np.tanh(t[name + "cross_attn_attn_gate"]), np.tanh(t[name + "cross_attn_mlp_gate"]) * sees[:, None]
        else:
            q, k, v = (heads_of(normed, t, f"{name}self_attn.{part}_proj", head_dim) for part in "qkv")
            attended = linear(attention(rotated(q, turns), rotated(k, turns), v, True), t, name + "self_attn.o_proj")
        x = x + gates[0] * attended
        normed = rms_norm(x, t[name + "post_attention_layernorm.weight"], epsilon)
        wide = silu(linear(normed, t, name + "mlp.gate_proj")) * linear(normed, t, name + "mlp.up_proj")
        x = x + gates[1] * linear(wide, t, name + "mlp.down_proj")
    return rms_norm(x[-1], t[at + "norm.weight"], epsilon) @ t["language_model.lm_head.weight"].T
