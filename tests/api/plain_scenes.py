"""Vision towers in plain numpy, in double precision, of an image without resizing: the formulas of transformers' modeling_qwen2_vl.py,
modeling_qwen2_5_vl.py, modeling_qwen3_vl.py, modeling_siglip.py, modeling_clip.py, modeling_internvl.py, modeling_pixtral.py and of the projectors of
Gemma 3, SmolVLM, LLaVA, InternVL, Aya Vision and Cohere2 Vision (drawn_scenes_test.py).

A tower asks `Weights` for its tensors by their names in the folder; those that are not there are drawn in the shape that the formula needs. So
a formula also says which tensors its folder has. Towers give features [features, hidden size of the text]; further ones are added to
the text's first layers.
"""

import math

import numpy as np

from plain_causal import turned
from plain_vision import (ACTIVATIONS, attention, axial_angles, channels_first, cubic_weights, gelu, gelu_tanh, joined, patches_of, quick_gelu, rotated,
                          silu)

CLIP = np.array([[0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]])
HALF = np.full((2, 3), 0.5)


class Weights:
    """Multiples of 1/512 or 1/128 of at most seven bits, as in the golden folders."""

    def __init__(self, numbers, tensors=()):
        self.numbers, self.t = numbers, dict(tensors)

    def matrix(self, name, *shape):
        if name not in self.t:
            self.t[name] = self.numbers.integers(-127, 128, shape) / 512
        return self.t[name]

    def vector(self, name, size, centre=0):
        if name not in self.t:
            self.t[name] = centre + self.numbers.integers(-32, 33, size) / 128
        return self.t[name]

    def linear(self, x, name, rows, bias=True):
        return x @ self.matrix(name + ".weight", rows, x.shape[-1]).T + (self.vector(name + ".bias", rows) if bias else 0)

    def layer_norm(self, x, name, epsilon=1e-6):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon)
        return x * self.vector(name + ".weight", x.shape[-1], 1) + self.vector(name + ".bias", x.shape[-1])

    def rms_norm(self, x, name, epsilon=1e-6, unit=0):
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon) * (unit + self.vector(name + ".weight", x.shape[-1], 1 - unit))

    def patches(self, pixels, name, hidden, side, bias=True, frames=1):
        """[lines, columns, hidden]; the frames of a still image are equal."""
        rows = patches_of(pixels, side, (2, 0, 1))
        kernel = self.matrix(name + ".weight", hidden, 3, *[frames] * (frames > 1), side, side)
        kernel = kernel.sum(2) if frames > 1 else kernel
        return rows @ kernel.reshape(hidden, -1).T + (self.vector(name + ".bias", hidden) if bias else 0)


def attended(w, x, names, heads, angles=None, bias=True, apart=None):
    """names: of q, k, v and the output, or of one matrix of all three and the output; apart: numbers of windows of the rows."""
    hidden = x.shape[-1]
    if len(names) == 2:
        q, k, v = np.split(w.linear(x, names[0], 3 * hidden, bias), 3, axis=-1)
    else:
        q, k, v = (w.linear(x, name, hidden, bias) for name in names[:3])
    q, k, v = (part.reshape(len(x), heads, -1) for part in (q, k, v))
    if angles is not None:
        q, k = rotated(q, angles), rotated(k, angles)
    if apart is None:
        found = attention(q, k, v, False)
    else:
        found = np.zeros_like(x)
        for number in np.unique(apart):
            rows = apart == number
            found[rows] = attention(q[rows], k[rows], v[rows], False)
    return w.linear(found, names[-1], hidden, bias)


# --- Qwen -----------------------------------------------------------------------------------------

def qwen2_vl(w, config, pixels):
    vision, at = config["vision_config"], "visual."
    hidden, heads, merge = vision["embed_dim"], vision["num_heads"], vision["spatial_merge_size"]
    x = w.patches(pixels, at + "patch_embed.proj", hidden, vision["patch_size"], False, 2)
    lines, columns, _ = x.shape
    x, angles = x.reshape(-1, hidden), axial_angles(lines, columns, hidden // heads, 10000.0, False)
    for layer in range(vision["depth"]):
        name = f"{at}blocks.{layer}."
        x = x + attended(w, w.layer_norm(x, name + "norm1"), (name + "attn.qkv", name + "attn.proj"), heads, angles)
        wide = quick_gelu(w.linear(w.layer_norm(x, name + "norm2"), name + "mlp.fc1", hidden * vision["mlp_ratio"]))
        x = x + w.linear(wide, name + "mlp.fc2", hidden)
    x = joined(w.layer_norm(x, at + "merger.ln_q").reshape(lines, columns, -1), merge)
    return w.linear(gelu(w.linear(x, at + "merger.mlp.0", x.shape[-1])), at + "merger.mlp.2", vision["hidden_size"])


def qwen2_5_vl(w, config, pixels):
    """Most layers attend within windows of whole squares."""
    vision, at = config["vision_config"], "visual."
    hidden, heads, merge = vision["hidden_size"], vision["num_heads"], vision["spatial_merge_size"]
    x = w.patches(pixels, at + "patch_embed.proj", hidden, vision["patch_size"], False, 2)
    lines, columns, _ = x.shape
    x, angles = x.reshape(-1, hidden), axial_angles(lines, columns, hidden // heads, 10000.0, False)
    side = vision["window_size"] // merge // vision["patch_size"] * merge
    y, row = np.divmod(np.arange(len(x)), columns)
    windows = y // side * columns + row // side
    for layer in range(vision["depth"]):
        name, wide = f"{at}blocks.{layer}.", vision["intermediate_size"]
        x = x + attended(w, w.rms_norm(x, name + "norm1"), (name + "attn.qkv", name + "attn.proj"), heads, angles,
                         apart=None if layer in vision["fullatt_block_indexes"] else windows)
        normed, name = w.rms_norm(x, name + "norm2"), name + "mlp."
        x = x + w.linear(silu(w.linear(normed, name + "gate_proj", wide)) * w.linear(normed, name + "up_proj", wide), name + "down_proj", hidden)
    x = joined(w.rms_norm(x, at + "merger.ln_q").reshape(lines, columns, -1), merge)
    return w.linear(gelu(w.linear(x, at + "merger.mlp.0", x.shape[-1])), at + "merger.mlp.2", vision["out_hidden_size"])


def stretched(table, lines, columns):
    """A square table whose corners are the image's, interpolated linearly."""
    side = math.isqrt(len(table))

    def weights(count):
        at = np.linspace(0, side - 1, count, dtype=np.float32).astype(float)
        below = at.astype(int)
        found = np.zeros((count, side))
        np.add.at(found, (np.arange(count), below), 1 - (at - below))
        np.add.at(found, (np.arange(count), np.minimum(below + 1, side - 1)), at - below)
        return found
    return np.einsum("ls,ct,sth->lch", weights(lines), weights(columns), table.reshape(side, side, -1))


def qwen3_vl(w, config, pixels):
    vision, at = config["vision_config"], "model.visual."
    hidden, heads, merge = vision["hidden_size"], vision["num_heads"], vision["spatial_merge_size"]
    inner, out = hidden * merge * merge, vision["out_hidden_size"]
    x = w.patches(pixels, at + "patch_embed.proj", hidden, vision["patch_size"], True, 2)
    lines, columns, _ = x.shape
    x = (x + stretched(w.matrix(at + "pos_embed.weight", vision["num_position_embeddings"], hidden), lines, columns)).reshape(-1, hidden)
    angles, parts = axial_angles(lines, columns, hidden // heads, 10000.0, False), []

    def merged(x, name):
        return w.linear(gelu(w.linear(x, name + "linear_fc1", inner)), name + "linear_fc2", out)

    for layer in range(vision["depth"]):
        name = f"{at}blocks.{layer}."
        x = x + attended(w, w.layer_norm(x, name + "norm1"), (name + "attn.qkv", name + "attn.proj"), heads, angles)
        wide = w.linear(w.layer_norm(x, name + "norm2"), name + "mlp.linear_fc1", vision["intermediate_size"])
        x = x + w.linear(ACTIVATIONS[vision["hidden_act"]](wide), name + "mlp.linear_fc2", hidden)
        if layer in vision.get("deepstack_visual_indexes", []):
            name = f"{at}deepstack_merger_list.{vision['deepstack_visual_indexes'].index(layer)}."
            parts.append(merged(w.layer_norm(joined(x.reshape(lines, columns, -1), merge), name + "norm"), name))
    whole = merged(joined(w.layer_norm(x, at + "merger.norm").reshape(lines, columns, -1), merge), at + "merger.")
    return np.concatenate([whole, *parts], -1)


# --- SigLIP and CLIP ------------------------------------------------------------------------------

def siglip_blocks(w, vision, at, x, layers, act, epsilon):
    hidden = vision["hidden_size"]
    for layer in range(layers):
        name = f"{at}encoder.layers.{layer}."
        names = [f"{name}self_attn.{part}_proj" for part in ("q", "k", "v", "out")]
        x = x + attended(w, w.layer_norm(x, name + "layer_norm1", epsilon), names, vision["num_attention_heads"])
        wide = act(w.linear(w.layer_norm(x, name + "layer_norm2", epsilon), name + "mlp.fc1", vision["intermediate_size"]))
        x = x + w.linear(wide, name + "mlp.fc2", hidden)
    return x


def siglip(w, vision, at, pixels, layers=None, normed=True):
    """[lines, columns, hidden]; `layers`: of them that are computed. The table has a row for each patch."""
    hidden, epsilon = vision["hidden_size"], vision.get("layer_norm_eps", 1e-6)
    x = w.patches(pixels, at + "embeddings.patch_embedding", hidden, vision["patch_size"])
    shape = x.shape
    x = x.reshape(-1, hidden)
    x = x + w.matrix(at + "embeddings.position_embedding.weight", len(x), hidden)
    x = siglip_blocks(w, vision, at, x, vision["num_hidden_layers"] if layers is None else layers, ACTIVATIONS["gelu_pytorch_tanh"], epsilon)
    return (w.layer_norm(x, at + "post_layernorm", epsilon) if normed else x).reshape(shape)


def gemma3(w, config, pixels):
    """Squares averaged."""
    rows, tokens = config["text_config"]["hidden_size"], math.isqrt(config["mm_tokens_per_image"])
    x = siglip(w, config["vision_config"], "vision_tower.", pixels)
    side = len(x) // tokens
    x = x.reshape(tokens, side, tokens, side, -1).mean((1, 3)).reshape(tokens * tokens, -1)
    at = "multi_modal_projector."
    x = w.rms_norm(x, at + "mm_soft_emb_norm", config["vision_config"]["layer_norm_eps"], 1)
    return x @ w.matrix(at + "mm_input_projection_weight", x.shape[-1], rows)


def smolvlm(w, config, pixels):
    x = joined(siglip(w, config["vision_config"], "model.vision_model.", pixels), config["scale_factor"])
    return w.linear(x, "model.connector.modality_projection.proj", config["text_config"]["hidden_size"], False)


def two_matrices(w, config, x, at="multi_modal_projector.", bias=True):
    rows = config["text_config"]["hidden_size"]
    return w.linear(gelu(w.linear(x, at + "linear_1", rows, bias)), at + "linear_2", rows, bias)


def computed_layers(config):
    """hidden_states[-1] is after the last layer."""
    return config["vision_config"]["num_hidden_layers"] + 1 + config["vision_feature_layer"]


def llava_siglip(w, config, pixels):
    x = siglip(w, config["vision_config"], "vision_tower.", pixels, computed_layers(config), False)
    return two_matrices(w, config, x.reshape(-1, x.shape[-1]), bias=config["multimodal_projector_bias"])


def llava(w, config, pixels):
    """CLIP with a class row, which is dropped."""
    vision, at = config["vision_config"], "vision_tower."
    hidden = vision["hidden_size"]
    x = w.patches(pixels, at + "embeddings.patch_embedding", hidden, vision["patch_size"], False).reshape(-1, hidden)
    x = np.concatenate([w.vector(at + "embeddings.class_embedding", hidden)[None], x])
    x = w.layer_norm(x + w.matrix(at + "embeddings.position_embedding.weight", len(x), hidden), at + "pre_layrnorm", 1e-5)
    return two_matrices(w, config, siglip_blocks(w, vision, at, x, computed_layers(config), quick_gelu, 1e-5)[1:])


def gated_squares(w, config, x, at, normed):
    x = joined(x, config["downsample_factor"])
    x = w.layer_norm(x, at + "layernorm", config["adapter_layer_norm_eps"]) if normed else x
    up, gate = np.split(w.linear(x, at + "linear_1", config["alignment_intermediate_size"]), 2, axis=-1)
    return w.linear(up * silu(gate), at + "linear_2", config["text_config"]["hidden_size"])


def aya_vision(w, config, pixels):
    x = siglip(w, config["vision_config"], "vision_tower.", pixels, computed_layers(config), False)
    return gated_squares(w, config, x, "multi_modal_projector.", True)


def cohere2_vision(w, config, pixels):
    return gated_squares(w, config, siglip(w, config["vision_config"], "model.vision_tower.", pixels), "model.multi_modal_projector.", False)


# --- others ---------------------------------------------------------------------------------------

def internvl(w, config, pixels):
    """InternViT: a class row, factors of both halves; without a last norm if features are averaged elsewhere."""
    vision, at = config["vision_config"], "vision_tower."
    hidden, heads = vision["hidden_size"], vision["num_attention_heads"]
    x = w.patches(pixels, at + "embeddings.patch_embeddings.projection", hidden, vision["patch_size"][0])
    shape = x.shape
    x = np.concatenate([w.matrix(at + "embeddings.cls_token", 1, 1, hidden)[0], x.reshape(-1, hidden)])
    x = x + w.matrix(at + "embeddings.position_embeddings", 1, len(x), hidden)[0]
    for layer in range(vision["num_hidden_layers"]):
        name = f"{at}encoder.layer.{layer}."
        names = [f"{name}attention.{part}" for part in ("q_proj", "k_proj", "v_proj", "projection_layer")]
        x = x + attended(w, w.layer_norm(x, name + "layernorm_before"), names, heads) * w.vector(name + "lambda_1", hidden, 1)
        wide = gelu(w.linear(w.layer_norm(x, name + "layernorm_after"), name + "mlp.fc1", vision["intermediate_size"]))
        x = x + w.linear(wide, name + "mlp.fc2", hidden) * w.vector(name + "lambda_2", hidden, 1)
    x = joined(x[1:].reshape(shape), round(1 / config["downsample_ratio"]))
    return two_matrices(w, config, w.layer_norm(x, "multi_modal_projector.layer_norm", 1e-5))


def pixtral(w, config, pixels):
    vision, at = config["vision_config"], "vision_tower."
    heads, hidden, act = vision["num_attention_heads"], vision["hidden_size"], ACTIVATIONS[vision["hidden_act"]]
    x = w.patches(pixels, at + "patch_conv", hidden, vision["patch_size"], False)
    angles = axial_angles(*x.shape[:2], hidden // heads, vision["rope_theta"], True)
    x = w.rms_norm(x.reshape(-1, hidden), at + "ln_pre", 1e-5)
    for layer in range(vision["num_hidden_layers"]):
        name, wide = f"{at}transformer.layers.{layer}.", vision["intermediate_size"]
        names = [f"{name}attention.{part}_proj" for part in "qkvo"]
        x = x + attended(w, w.rms_norm(x, name + "attention_norm", 1e-5), names, heads, angles, False)
        normed, name = w.rms_norm(x, name + "ffn_norm", 1e-5), name + "feed_forward."
        x = x + w.linear(act(w.linear(normed, name + "gate_proj", wide, False)) * w.linear(normed, name + "up_proj", wide, False),
                         name + "down_proj", hidden, False)
    return two_matrices(w, config, x)


def resized_cubic(table, lines, columns):
    """table [side, side, values]"""
    return np.einsum("ls,ct,stv->lcv", cubic_weights(len(table), lines), cubic_weights(len(table), columns), table)


def glm_tower(w, config, pixels, small):
    """glm_ocr (small): norms of heads and biases instead of a table and the norm before it."""
    vision, at, merge = config["vision_config"], "model.visual.", config["vision_config"]["spatial_merge_size"]
    hidden, heads, epsilon, rows = vision["hidden_size"], vision["num_heads"], vision["rms_norm_eps"], vision["out_hidden_size"]
    biased, wide = vision["attention_bias"], rows if not small else vision["intermediate_size"]
    further = small and biased  # of the other matrices
    x = w.patches(pixels, at + "patch_embed.proj", hidden, vision["patch_size"], True, 2)
    lines, columns, _ = x.shape
    if not small:
        side = vision["image_size"] // vision["patch_size"]
        table = w.matrix(at + "embeddings.position_embedding.weight", side * side, hidden).reshape(side, side, hidden)
        x = w.rms_norm(x, at + "post_conv_layernorm", epsilon) + resized_cubic(table, lines, columns)
    x, angles = x.reshape(-1, hidden), axial_angles(lines, columns, hidden // heads, 10000.0, False)
    for layer in range(vision["depth"]):
        name = f"{at}blocks.{layer}."
        q, k, v = np.split(w.linear(w.rms_norm(x, name + "norm1", epsilon), name + "attn.qkv", 3 * hidden, biased), 3, axis=-1)
        q, k, v = (part.reshape(len(x), heads, -1) for part in (q, k, v))
        if small:
            q, k = w.rms_norm(q, name + "attn.q_norm", epsilon), w.rms_norm(k, name + "attn.k_norm", epsilon)
        x = x + w.linear(attention(rotated(q, angles), rotated(k, angles), v, False), name + "attn.proj", hidden, further)
        normed, name = w.rms_norm(x, name + "norm2", epsilon), name + "mlp."
        x = x + w.linear(silu(w.linear(normed, name + "gate_proj", wide, further)) * w.linear(normed, name + "up_proj", wide, further),
                         name + "down_proj", hidden, further)
    squares = channels_first(joined(w.rms_norm(x, at + "post_layernorm", epsilon).reshape(lines, columns, -1), merge), merge * merge)
    kernel = w.matrix(at + "downsample.weight", rows, hidden, merge, merge).reshape(rows, -1)
    x = squares @ kernel.T + w.vector(at + "downsample.bias", rows)
    at, wide = at + "merger.", vision["intermediate_size"] if not small else rows * vision.get("in_channels", 3)
    x = gelu(w.layer_norm(w.linear(x, at + "proj", rows, False), at + "post_projection_norm", 1e-5))
    return w.linear(silu(w.linear(x, at + "gate_proj", wide, False)) * w.linear(x, at + "up_proj", wide, False), at + "down_proj", rows, False)


def glm4v(w, config, pixels):
    return glm_tower(w, config, pixels, False)


def glm_ocr(w, config, pixels):
    return glm_tower(w, config, pixels, True)


def kimi_vl(w, config, pixels):
    """MoonViT: adjacent pairs turn by the column and the line in turn."""
    vision, at = config["vision_config"], "vision_tower."
    hidden, heads, side, rows = vision["hidden_size"], vision["num_attention_heads"], vision["init_pos_emb_height"], config["text_config"]["hidden_size"]
    x = w.patches(pixels, at + "patch_embed.proj", hidden, vision["patch_size"])
    lines, columns, _ = x.shape
    x = (x + resized_cubic(w.matrix(at + "patch_embed.pos_emb.weight", side, side, hidden), lines, columns)).reshape(-1, hidden)
    found = 10000.0 ** (-np.arange(0, hidden // heads, 4) / (hidden // heads))
    y, place = np.divmod(np.arange(len(x)), columns)
    angles = np.stack([np.outer(place, found), np.outer(y, found)], -1).reshape(len(x), -1)
    for layer in range(vision["num_hidden_layers"]):
        name = f"{at}encoder.blocks.{layer}."
        parts = np.split(w.linear(w.layer_norm(x, name + "norm0", 1e-5), name + "wqkv", 3 * hidden), 3, axis=-1)
        q, k, v = (part.reshape(len(x), heads, -1) for part in parts)
        x = x + w.linear(attention(turned(q, angles, 1.0, True), turned(k, angles, 1.0, True), v, False), name + "wo", hidden)
        wide = gelu_tanh(w.linear(w.layer_norm(x, name + "norm1", 1e-5), name + "mlp.fc0", vision["intermediate_size"]))
        x = x + w.linear(wide, name + "mlp.fc1", hidden)
    x = w.layer_norm(x, at + "encoder.final_layernorm", 1e-5)
    merge, at = vision["merge_kernel_size"][0], "multi_modal_projector."
    x = joined(w.layer_norm(x, at + "pre_norm", 1e-5).reshape(lines, columns, -1), merge)
    return w.linear(gelu(w.linear(x, at + "linear_1", x.shape[-1])), at + "linear_2", rows)


TOWERS = {tower.__name__: tower for tower in (qwen2_vl, qwen2_5_vl, qwen3_vl, gemma3, smolvlm, llava, llava_siglip, aya_vision, cohere2_vision,
                                              internvl, pixtral, glm4v, glm_ocr, kimi_vl)} | {"qwen3_5": qwen3_vl}
NORMAL = {"glm4v": CLIP, "glm_ocr": CLIP, "qwen2_vl": CLIP, "qwen2_5_vl": CLIP, "llava": CLIP, "cohere2_vision": CLIP, "pixtral": CLIP,
          "internvl": np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])}
