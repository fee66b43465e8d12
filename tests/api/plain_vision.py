"""Small vision towers in plain numpy, in double precision: the formulas of transformers' modeling_mistral3.py with modeling_pixtral.py,
modeling_paddleocr_vl.py, modeling_lfm2_vl.py with modeling_siglip2.py, modeling_janus.py, modeling_hunyuan_vl.py, modeling_glm4v_moe.py and
modeling_ernie4_5_vl_moe.py, and of unlimited_ocr's towers, each written down once and for one image. Texts are in plain_texts.py.

The functions take a model's tensors by their names in the folder. The images have the size that the image processor would give them.
"""

import math

import numpy as np

ERF = np.vectorize(math.erf)


def gelu(x):
    return x * 0.5 * (1 + ERF(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + np.exp(-x))


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


ACTIVATIONS = {"gelu": gelu, "gelu_pytorch_tanh": gelu_tanh, "silu": silu, "quick_gelu": quick_gelu}


def rms_norm(x, weight, epsilon):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon) * weight


def layer_norm(x, t, name, epsilon):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + epsilon) * t[name + ".weight"] + t[name + ".bias"]


def linear(x, t, name):
    return x @ t[name + ".weight"].T + t.get(name + ".bias", 0)


def rotated(x, angles):
    """x [rows, heads, head_dim], angles [rows, head_dim / 2]: pairs are a head's halves."""
    half = x.shape[-1] // 2
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([x[..., :half] * cos - x[..., half:] * sin, x[..., half:] * cos + x[..., :half] * sin], -1)


def attention(q, k, v, causal):
    """q [rows, heads, head_dim]; k and v may have fewer heads."""
    k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1) for part in (k, v))
    scores = np.einsum("rhd,shd->hrs", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hrs,shd->rhd", scores / scores.sum(-1, keepdims=True), v).reshape(q.shape[0], -1)


def patches_of(pixels, side, order):
    """[lines, columns, values] of pixels [height, width, 3]; `order`: of (line, column, channel) in a patch."""
    height, width, _ = pixels.shape
    blocks = pixels.reshape(height // side, side, width // side, side, 3).transpose(0, 2, 1, 3, 4)
    return blocks.transpose(0, 1, *(2 + i for i in order)).reshape(height // side, width // side, -1)


def joined(x, side):
    """Squares of `side` rows each way, line by line; x [lines, columns, values]."""
    lines, columns, values = x.shape
    return x.reshape(lines // side, side, columns // side, side, values).transpose(0, 2, 1, 3, 4).reshape(-1, side * side * values)


def axis_weights(size, out, averaged):
    """[out, size] weights of linear resizing with half-pixel centres; `averaged`: over all that a result covers, if it shrinks."""
    found, scale = np.zeros((out, size)), size / out
    reach = max(scale, 1.0) if averaged else 1.0
    for i in range(out):
        centre = scale * (i + 0.5) - 0.5
        if not averaged:
            centre = max(centre, 0.0)
            below = min(int(centre), size - 1)
            found[i, below] += 1 - (centre - below)
            found[i, min(below + 1, size - 1)] += centre - below
            continue
        found[i] = np.maximum(0, 1 - np.abs(np.arange(size) - centre) / reach)
        found[i] /= found[i].sum()
    return found


def resized_table(table, lines, columns, averaged):
    side = math.isqrt(len(table))
    grid = table.reshape(side, side, -1)
    return np.einsum("ls,ct,stv->lcv", axis_weights(side, lines, averaged), axis_weights(side, columns, averaged), grid)


# --- towers: features [squares, hidden size of the text] ------------------------------------------

def axial_angles(lines, columns, head_dim, base, shared):
    """A quarter of a head's values for lines, then columns; `shared`: they have every second frequency of a whole head."""
    even = base ** (-np.arange(0, head_dim, 4) / head_dim)
    odd = base ** (-np.arange(2, head_dim, 4) / head_dim) if shared else even
    y, x = np.meshgrid(np.arange(lines), np.arange(columns), indexing="ij")
    return np.concatenate([np.outer(y.ravel(), even), np.outer(x.ravel(), odd)], -1)


def siglip_layers(config, t, at, x, angles):
    heads, epsilon = config["num_attention_heads"], config.get("layer_norm_eps", 1e-6)
    for layer in range(config["num_hidden_layers"]):
        name = f"{at}encoder.layers.{layer}."
        normed = layer_norm(x, t, name + "layer_norm1", epsilon)
        q, k, v = (linear(normed, t, f"{name}self_attn.{part}_proj").reshape(len(x), heads, -1) for part in "qkv")
        if angles is not None:
            q, k = rotated(q, angles), rotated(k, angles)
        x = x + linear(attention(q, k, v, False), t, name + "self_attn.out_proj")
        wide = gelu_tanh(linear(layer_norm(x, t, name + "layer_norm2", epsilon), t, name + "mlp.fc1"))
        x = x + linear(wide, t, name + "mlp.fc2")
    return layer_norm(x, t, at + "post_layernorm", epsilon)


def mistral3_features(config, t, pixels):
    vision, merge = config["vision_config"], config["spatial_merge_size"]
    heads, hidden, act = vision["num_attention_heads"], vision["hidden_size"], ACTIVATIONS[vision["hidden_act"]]
    kernel = t["vision_tower.patch_conv.weight"].reshape(hidden, -1)
    rows = patches_of(pixels, vision["patch_size"], (2, 0, 1)) @ kernel.T
    lines, columns, _ = rows.shape
    x = rms_norm(rows.reshape(-1, hidden), t["vision_tower.ln_pre.weight"], 1e-5)
    angles = axial_angles(lines, columns, hidden // heads, vision["rope_theta"], True)
    for layer in range(vision["num_hidden_layers"]):
        name = f"vision_tower.transformer.layers.{layer}."
        normed = rms_norm(x, t[name + "attention_norm.weight"], 1e-5)
        q, k, v = (linear(normed, t, f"{name}attention.{part}_proj").reshape(len(x), heads, -1) for part in "qkv")
        x = x + linear(attention(rotated(q, angles), rotated(k, angles), v, False), t, name + "attention.o_proj")
        normed, wide = rms_norm(x, t[name + "ffn_norm.weight"], 1e-5), name + "feed_forward."
        x = x + linear(act(linear(normed, t, wide + "gate_proj")) * linear(normed, t, wide + "up_proj"), t, wide + "down_proj")
    at = "multi_modal_projector."
    x = rms_norm(x, t[at + "norm.weight"], config["text_config"]["rms_norm_eps"])
    squares = joined(x.reshape(lines, columns, -1), merge).reshape(-1, merge * merge, hidden).swapaxes(1, 2).reshape(-1, hidden * merge * merge)
    x = linear(squares, t, at + "patch_merger.merging_layer")
    return linear(gelu(linear(x, t, at + "linear_1")), t, at + "linear_2")


def paddleocr_vl_features(config, t, pixels):
    vision, at = config["vision_config"], "visual.vision_model."
    hidden, merge = vision["hidden_size"], vision["spatial_merge_size"]
    rows = patches_of(pixels, vision["patch_size"], (2, 0, 1)) @ t[at + "embeddings.patch_embedding.weight"].reshape(hidden, -1).T
    lines, columns, _ = rows.shape
    rows = rows + t[at + "embeddings.patch_embedding.bias"]
    x = (rows + resized_table(t[at + "embeddings.position_embedding.weight"], lines, columns, False)).reshape(-1, hidden)
    angles = axial_angles(lines, columns, hidden // vision["num_attention_heads"], 10000.0, False)
    x = layer_norm(siglip_layers(vision, t, at, x, angles), t, "mlp_AR.pre_norm", 1e-5)
    return linear(gelu(linear(joined(x.reshape(lines, columns, -1), merge), t, "mlp_AR.linear_1")), t, "mlp_AR.linear_2")


def lfm2_vl_features(config, t, pixels):
    vision, at = config["vision_config"], "model.vision_tower."
    rows = linear(patches_of(pixels, vision["patch_size"], (0, 1, 2)), t, at + "embeddings.patch_embedding")
    lines, columns, _ = rows.shape
    x = rows + resized_table(t[at + "embeddings.position_embedding.weight"], lines, columns, True)
    x = siglip_layers(vision, t, at, x.reshape(lines * columns, -1), None).reshape(lines, columns, -1)
    x = joined(x, config["downsample_factor"])
    if config["projector_use_layernorm"]:
        x = layer_norm(x, t, "model.multi_modal_projector.layer_norm", 1e-5)
    return linear(gelu(linear(x, t, "model.multi_modal_projector.linear_1")), t, "model.multi_modal_projector.linear_2")


def cubic_weights(size, out):
    """[out, size] weights of cubic resizing with half-pixel centres, a = -0.75; places beyond the edges are those at them."""
    found = np.zeros((out, size))
    for i in range(out):
        centre = (i + 0.5) * size / out - 0.5
        for tap in range(math.floor(centre) - 1, math.floor(centre) + 3):
            d = abs(centre - tap)
            weight = (1.25 * d - 2.25) * d * d + 1 if d <= 1 else ((-0.75 * d + 3.75) * d - 6) * d + 3
            found[i, min(max(tap, 0), size - 1)] += weight if d < 2 else 0
    return found


def projected(x, t, name):
    """A convolution whose kernels are as large as x [rows, values] of its patches or squares, or a linear layer."""
    return x @ t[name + ".weight"].reshape(len(t[name + ".weight"]), -1).T + t.get(name + ".bias", 0)


def channels_first(x, square):
    """Joined squares [rows, square * values] as a kernel [out, values, side, side] reads them."""
    return x.reshape(len(x), square, -1).swapaxes(1, 2).reshape(len(x), -1)


def layers(x, config, t, at, names, norm, act, angles):
    """Transformer layers with the names of (norms, parts of attention, parts of the feed-forward half) and biases where there are tensors."""
    heads, (first, second), (q, k, v, o), wide = config["heads"], names["norms"], names["attention"], names["wide"]
    for layer in range(config["layers"]):
        name = f"{at}{layer}."
        normed = norm(x, t, name + first)
        parts = np.split(projected(normed, t, name + q), 3, -1) if q == k else [projected(normed, t, name + part) for part in (q, k, v)]
        parts = [part.reshape(len(x), heads, -1) for part in parts]
        if angles is not None:
            parts[:2] = [rotated(part, angles) for part in parts[:2]]
        x = x + projected(attention(*parts, False), t, name + o)
        normed = norm(x, t, name + second)
        inner = act(projected(normed, t, name + wide[0]))
        if len(wide) == 3:
            inner = inner * projected(normed, t, name + wide[1])
        x = x + projected(inner, t, name + wide[-1])
    return x


def janus_features(config, t, pixels):
    vision, at = config["vision_config"], "model.vision_model."
    x = projected(patches_of(pixels, vision["patch_size"], (2, 0, 1)).reshape(-1, 3 * vision["patch_size"] ** 2), t, at + "embeddings.patch_embedding")
    x = x + t[at + "embeddings.position_embedding.weight"]

    def norm(x, t, name):
        return layer_norm(x, t, name, vision["layer_norm_eps"])
    names = {"norms": ("layer_norm1", "layer_norm2"), "attention": [f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "projection_layer")],
             "wide": ("mlp.fc1", "mlp.fc2")}
    act = ACTIVATIONS[vision["hidden_act"]]
    x = layers(x, {"heads": vision["num_attention_heads"], "layers": vision["num_hidden_layers"]}, t, at + "encoder.layers.", names, norm, act, None)
    x = projected(norm(x, t, at + "post_layernorm"), t, "model.aligner.fc1")
    for depth in range(vision["depth"] - 1):
        x = projected(act(x), t, f"model.aligner.hidden_layers.{depth}")
    return x


def hunyuan_vl_features(config, t, pixels):
    vision, at, side = config["vision_config"], "model.vision_tower.", config["vision_config"]["spatial_merge_size"]
    rows = patches_of(pixels, vision["patch_size"], (2, 0, 1))
    lines, columns, values = rows.shape
    x = projected(rows.reshape(-1, values), t, at + "embeddings.patch_embedding")
    x = x + resized_table(t[at + "embeddings.position_embedding.weight"][1:], lines, columns, False).reshape(x.shape)

    def norm(x, t, name):
        return layer_norm(x, t, name, vision["rms_norm_eps"])
    names = {"norms": ("layer_norm1", "layer_norm2"), "attention": [f"self_attn.{part}_proj" for part in "qkvo"], "wide": ("mlp.fc1", "mlp.fc2")}
    x = layers(x, {"heads": vision["num_attention_heads"], "layers": vision["num_hidden_layers"]}, t, at + "layers.", names, norm, gelu, None)
    at += "patch_merger."
    x = rms_norm(x, t[at + "before_rms.weight"], vision["rms_norm_eps"])
    x = gelu(projected(channels_first(joined(x.reshape(lines, columns, -1), side), side * side), t, at + "proj_conv"))
    x = projected(x, t, at + "proj_out").reshape(lines // side, columns // side, -1)
    newlines = np.broadcast_to(t[at + "image_newline"], (lines // side, 1, x.shape[-1]))
    x = projected(np.concatenate([x, newlines], 1).reshape(-1, x.shape[-1]), t, at + "mlp")
    x = np.concatenate([t[at + "image_begin"][None], x, t[at + "image_end"][None]])
    return rms_norm(x, t[at + "after_rms.weight"], vision["rms_norm_eps"])


QWEN_NAMES = {"norms": ("norm1", "norm2"), "attention": ("attn.qkv", "attn.qkv", "attn.qkv", "attn.proj")}


def glm4v_moe_features(config, t, pixels):
    vision, at, side = config["vision_config"], "model.visual.", config["vision_config"]["spatial_merge_size"]
    hidden = vision["hidden_size"]
    rows = patches_of(pixels, vision["patch_size"], (2, 0, 1))
    lines, columns, values = rows.shape
    kernel = t[at + "patch_embed.proj.weight"].sum(2).reshape(hidden, -1)  # both frames are the same
    x = rows.reshape(-1, values) @ kernel.T + t[at + "patch_embed.proj.bias"]

    def norm(x, t, name):
        return rms_norm(x, t[name + ".weight"], vision["rms_norm_eps"])
    table = t[at + "embeddings.position_embedding.weight"]
    across = math.isqrt(len(table))
    resized = np.einsum("ls,ct,stv->lcv", cubic_weights(across, lines), cubic_weights(across, columns), table.reshape(across, across, -1))
    x = norm(x, t, at + "post_conv_layernorm") + resized.reshape(x.shape)
    angles = axial_angles(lines, columns, hidden // vision["num_heads"], 10000.0, False)
    names = QWEN_NAMES | {"wide": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")}
    x = layers(x, {"heads": vision["num_heads"], "layers": vision["depth"]}, t, at + "blocks.", names, norm, silu, angles)
    x = joined(norm(x, t, at + "post_layernorm").reshape(lines, columns, -1), side)
    x = projected(channels_first(x, side * side), t, at + "downsample")
    at += "merger."
    x = gelu(layer_norm(projected(x, t, at + "proj"), t, at + "post_projection_norm", 1e-5))
    return projected(silu(projected(x, t, at + "gate_proj")) * projected(x, t, at + "up_proj"), t, at + "down_proj")


def ernie4_5_vl_moe_features(config, t, pixels):
    vision, at = config["vision_config"], "model.vision_tower."
    rows = patches_of(pixels, vision["patch_size"], (2, 0, 1))
    lines, columns, values = rows.shape

    def norm(x, t, name):
        return layer_norm(x, t, name, vision["rms_norm_eps"])
    angles = axial_angles(lines, columns, vision["hidden_size"] // vision["num_heads"], 10000.0, False)
    names = QWEN_NAMES | {"wide": ("mlp.fc1", "mlp.fc2")}
    x = layers(projected(rows.reshape(-1, values), t, at + "patch_embed.proj"), {"heads": vision["num_heads"], "layers": vision["depth"]}, t, at + "blocks.", names, norm,
               ACTIVATIONS[vision["hidden_act"]], angles)
    x = joined(norm(x, t, at + "ln").reshape(lines, columns, -1), vision["spatial_merge_size"])
    at = "model.resampler_model."
    for part in ("spatial", "temporal"):
        x = np.concatenate([x, x], 1) if part == "temporal" else x  # both frames are the same
        x = projected(gelu(projected(x, t, f"{at}{part}_linear.fc1")), t, f"{at}{part}_linear.fc2")
        x = norm(x, t, f"{at}{part}_linear.ln")
    return rms_norm(projected(x, t, at + "mlp"), t[at + "after_norm.weight"], config["text_config"]["rms_norm_eps"])


def deepseek_vl_v2_features(config, t, pixels):
    """Of an image as large as a tile, which both views are."""
    vision, join = config["vision_config"], config["projector_config"]["downsample_ratio"]
    side, hidden = vision["image_size"] // vision["patch_size"], vision["width"]
    x = projected(patches_of(pixels, vision["patch_size"], (2, 0, 1)).reshape(side * side, -1), t, "vision.patch_embed.proj") + t["vision.pos_embed"][0]

    def norm(x, t, name):
        return layer_norm(x, t, name, 1e-6)
    names = QWEN_NAMES | {"wide": ("mlp.fc1", "mlp.fc2")}
    x = layers(x, {"heads": vision["num_attention_heads"], "layers": vision["layers"]}, t, "vision.blocks.", names, norm, gelu, None)
    across = -(-side // join)
    squares = np.zeros((across * join, across * join, hidden))
    squares[:side, :side] = norm(x, t, "vision.norm").reshape(side, side, hidden)
    x = projected(channels_first(joined(squares, join), join * join), t, "projector.layers.0")
    x = projected(gelu(x), t, "projector.layers.2").reshape(across, across, -1)
    view = np.concatenate([x, np.broadcast_to(t["image_newline"], (across, 1, x.shape[-1]))], 1).reshape(across * (across + 1), -1)
    return np.concatenate([view, t["view_seperator"][None], view])


def averaged_cubic_weights(size, out):
    """[out, size] weights of resizing by averaged cubic convolution, a = -0.5, as torch's bicubic with antialias has them."""
    scale = size / out
    d = np.abs(np.arange(size)[None] + 0.5 - (np.arange(out)[:, None] + 0.5) * scale) / max(scale, 1.0)
    found = np.where(d <= 1, 1.5 * d ** 3 - 2.5 * d ** 2 + 1, np.where(d < 2, -0.5 * d ** 3 + 2.5 * d ** 2 - 4 * d + 2, 0))
    return found / found.sum(1, keepdims=True)


def cubic_table(table, side):
    """[side, side, values] of a table [lines, columns, values]."""
    weights = averaged_cubic_weights(len(table), side)
    return np.einsum("ls,ct,stv->lcv", weights, weights, table)


def convolved(x, kernel, stride):
    """x [lines, columns, values], zeros around it, by a kernel [out, values, 3, 3]."""
    lines, columns, _ = x.shape
    around = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    return sum(around[dy:dy + lines:stride, dx:dx + columns:stride] @ kernel[:, :, dy, dx].T for dy in range(3) for dx in range(3))


def relative_attention(x, t, name, heads):
    """Of a square x [side, side, hidden], by the sum of the products with keys and with the tables' rows for the distances."""
    side, hidden = len(x), x.shape[-1]
    q, k, v = (part.reshape(side * side, heads, -1) for part in np.split(linear(x.reshape(-1, hidden), t, name + "qkv"), 3, -1))
    scores = np.einsum("rhd,shd->hrs", q, k) / math.sqrt(q.shape[-1])
    y, x = np.divmod(np.arange(side * side), side)
    for axis, at in (("h", y), ("w", x)):
        table = t[f"{name}rel_pos_{axis}"]
        table = axis_weights(len(table), 2 * side - 1, False) @ table
        scores += np.einsum("rhd,rsd->hrs", q, table[at[:, None] - at[None] + side - 1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return linear(np.einsum("hrs,shd->rhd", scores / scores.sum(-1, keepdims=True), v).reshape(side, side, hidden), t, name + "proj")


def sam_features(sam, t, pixels):
    """[lines, columns, values]"""
    at, hidden, window = "model.sam_model.", sam["width"], sam["window_size"]
    x = projected(patches_of(pixels, sam["patch_size"], (2, 0, 1)), t, at + "patch_embed.proj")
    side = len(x)
    x = x + cubic_table(t[at + "pos_embed"][0], side)
    for layer in range(sam["layers"]):
        name = f"{at}blocks.{layer}."
        normed, wide = layer_norm(x, t, name + "norm1", 1e-6), side
        if layer not in sam["global_attn_indexes"]:
            wide, beyond = window, -side % window
            normed = np.pad(normed, ((0, beyond), (0, beyond), (0, 0)))
        attended = np.zeros_like(normed)
        for y in range(0, len(normed), wide):
            for z in range(0, len(normed), wide):
                attended[y:y + wide, z:z + wide] = relative_attention(normed[y:y + wide, z:z + wide], t, name + "attn.", sam["heads"])
        x = x + attended[:side, :side]
        x = x + linear(gelu(linear(layer_norm(x, t, name + "norm2", 1e-6), t, name + "mlp.lin1")), t, name + "mlp.lin2")
    x = layer_norm(x @ t[at + "neck.0.weight"].reshape(-1, hidden).T, t, at + "neck.1", 1e-6)
    x = layer_norm(convolved(x, t[at + "neck.2.weight"], 1), t, at + "neck.3", 1e-6)
    return convolved(convolved(x, t[at + "net_2.weight"], 2), t[at + "net_3.weight"], 2)


def deepseek_ocr_view(config, t, pixels):
    """[lines, columns, hidden size of the text]"""
    parts = config["vision_config"]["width"]
    clip, at = parts["clip-l-14-224"], "model.vision_model."
    sam = sam_features(parts["sam_vit_b"], t, pixels)
    side, hidden = len(sam), sam.shape[-1]
    table = t[at + "embeddings.position_embedding.weight"]
    across = math.isqrt(len(table) - 1)
    x = (sam + cubic_table(table[1:].reshape(across, across, hidden), side)).reshape(-1, hidden)
    x = np.concatenate([(t[at + "embeddings.class_embedding"] + table[0])[None], x])

    def norm(x, t, name):
        return layer_norm(x, t, name, 1e-5)
    names = {"norms": ("layer_norm1", "layer_norm2"), "attention": ("self_attn.qkv_proj",) * 3 + ("self_attn.out_proj",), "wide": ("mlp.fc1", "mlp.fc2")}
    x = layers(norm(x, t, at + "pre_layrnorm"), clip, t, at + "transformer.layers.", names, norm, quick_gelu, None)
    return linear(np.concatenate([x[1:].reshape(side, side, hidden), sam], -1), t, "model.projector.layers")


def deepseek_ocr_features(config, t, pixels):
    """Of an image as large as the whole view, and as two by two tiles."""
    def lines(x):
        return np.concatenate([x, np.broadcast_to(t["model.image_newline"], (len(x), 1, x.shape[-1]))], 1).reshape(-1, x.shape[-1])
    tile = len(pixels) // 2
    tiles = [[deepseek_ocr_view(config, t, pixels[y:y + tile, x:x + tile]) for x in (0, tile)] for y in (0, tile)]
    local = np.concatenate([np.concatenate(row, 1) for row in tiles])
    return np.concatenate([lines(local), lines(deepseek_ocr_view(config, t, pixels)), t["model.view_seperator"][None]])
