"""Text models in plain numpy, in double precision: what transformers' modeling files compute for all rows at once, each formula
written down once. `plain_of(config, tensors).logits(ids)` gives [rows, vocabulary]; tensors have their names in the folder.

Families whose layers are of other kinds are in plain_recurrent.py and plain_gemma.py.
"""

import math

import numpy as np

from plain_vision import gelu, gelu_tanh, silu

FULL, SLIDING = "full_attention", "sliding_attention"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


ACTIVATIONS = {"silu": silu, "gelu": gelu, "gelu_pytorch_tanh": gelu_tanh, "gelu_new": gelu_tanh, "relu2": lambda x: np.maximum(x, 0) ** 2}


# --- ropes ----------------------------------------------------------------------------------------

def yarn_magnitude(factor, scale=1.0):
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0


def yarn(rope, base, dim):
    """(frequencies, magnitude of cosines and sines)"""
    factor, original = rope["factor"], rope["original_max_position_embeddings"]
    magnitude = rope.get("attention_factor")
    if magnitude is None and rope.get("mscale") and rope.get("mscale_all_dim"):
        magnitude = yarn_magnitude(factor, rope["mscale"]) / yarn_magnitude(factor, rope["mscale_all_dim"])
    if magnitude is None:
        magnitude = yarn_magnitude(factor)
    low, high = (dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
                 for turns in (rope.get("beta_fast", 32), rope.get("beta_slow", 1)))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    plain = base ** (-np.arange(0, dim, 2) / dim)
    return plain / factor * ramp + plain * (1 - ramp), magnitude


def llama3(rope, plain):
    lengths = 2 * np.pi / plain
    low, high, original = (rope[name] for name in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    smooth = (original / lengths - low) / (high - low)
    between = (1 - smooth) * plain / rope["factor"] + smooth * plain
    return np.where(lengths < original / high, plain, np.where(lengths > original / low, plain / rope["factor"], between))


def frequencies(rope, base, dim, context, original=None):
    """(of the pairs of `dim` columns, magnitude)"""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "yarn":
        return yarn(rope, base, dim)
    if kind == "dynamic" and "alpha" in rope:
        base = base * rope["alpha"] ** (dim / (dim - 2))
    plain = base ** (-np.arange(0, dim, 2) / dim)
    if kind == "linear":
        return plain / rope["factor"], 1.0
    if kind == "llama3":
        return llama3(rope, plain), 1.0
    if kind == "longrope":
        original = rope.get("original_max_position_embeddings", original)
        growth = context / original
        return plain / np.array(rope["long_factor"]), math.sqrt(1 + math.log(growth) / math.log(original))
    return plain, 1.0


def turned(x, turns, magnitude, adjacent):
    """The first columns of x [rows, heads, columns] by turns [rows, pairs]; a pair's columns are adjacent, or half of them apart."""
    pairs = turns.shape[1]
    cos, sin = np.cos(turns)[:, None] * magnitude, np.sin(turns)[:, None] * magnitude
    part, rest = x[..., :2 * pairs], x[..., 2 * pairs:]
    a, b = (part[..., ::2], part[..., 1::2]) if adjacent else (part[..., :pairs], part[..., pairs:])
    a, b = a * cos - b * sin, b * cos + a * sin
    both = np.stack([a, b], -1).reshape(part.shape) if adjacent else np.concatenate([a, b], -1)
    return np.concatenate([both, rest], -1)


def attend(q, k, v, scale, window=None, cap=None, sinks=None, spans=None):
    """[rows, heads, columns]: rows see themselves and earlier ones, `window` rows in all, and all of their span (its number; -1: none). A sink
    takes its part of a head's weights."""
    k, v = (np.repeat(part, q.shape[1] // part.shape[1], axis=1) for part in (k, v))
    scores = np.einsum("rhd,shd->hrs", q, k) * scale
    scores = cap * np.tanh(scores / cap) if cap else scores
    behind = np.arange(len(q))[:, None] - np.arange(len(q))
    seen = (behind >= 0) & (behind < (window or len(q)))
    if spans is not None:
        seen |= (spans[:, None] == spans) & (spans >= 0)
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], scores.shape[:2] + (1,))], -1)
    weights = softmax(scores)[..., :len(q)]
    return np.einsum("hrs,shd->rhd", weights, v).reshape(len(q), -1)


# --- llama and its relatives ----------------------------------------------------------------------

class Scene:
    """Rows of images have features, to which the first layers add further parts; places [rows, 3] by time, line and column; spans: numbers of
    images that are seen as a whole, or None."""

    def __init__(self, rows, features, places, spans):
        self.rows, self.features, self.places, self.spans = rows, features, places, spans

    def parts(self, hidden):
        return np.split(self.features, self.features.shape[1] // hidden, axis=1)


class Plain:
    """Norms before both halves. What families have instead are the members and methods that they replace."""

    at, final, head, embedding = "model.", "norm", "lm_head", "embed_tokens"
    attention_norm, feed_norm = "input_layernorm", "post_attention_layernorm"
    out, feed = "self_attn.o_proj", "mlp."
    adjacent, mean_norms, parallel = False, False, False
    unit = 0                     # added to the weights of norms
    query_norm = "self_attn.q_norm", "self_attn.k_norm"  # of heads, before the rotation, if the tensors are there
    scene = None                 # what a prompt with images has beside its ids (see Scene)

    def __init__(self, config, tensors):
        self.config, self.t = config, tensors
        self.count = config["num_hidden_layers"]
        if "num_attention_heads" in config:
            self.head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.epsilon = next(config[name] for name in ("rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon", "layer_norm_epsilon")
                            if name in config)

    def linear(self, x, name):
        return x @ self.t[name + ".weight"].T + self.t.get(name + ".bias", 0)

    def norm(self, x, name):
        weight = self.unit + self.t[name + ".weight"]
        x = x - x.mean(-1, keepdims=True) if self.mean_norms else x
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.epsilon) * weight + self.t.get(name + ".bias", 0)

    def act(self, x):
        return ACTIVATIONS[self.config.get("hidden_activation") or self.config.get("hidden_act", "silu")](x)

    # of rotations
    def rope(self, layer):
        """(settings, base) of a layer."""
        rope = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        rope = rope.get(self.kind(layer), rope)
        return rope, rope.get("rope_theta", self.config.get("rope_theta", 10000.0))

    def columns(self):
        """Of a head that turn."""
        return int(self.head_dim * self.config.get("partial_rotary_factor", 1.0))

    def turned(self, x, layer):
        rope, base = self.rope(layer)
        found, magnitude = frequencies(rope, base, self.columns(), self.config["max_position_embeddings"],
                                       self.config.get("original_max_position_embeddings"))
        return turned(x, self.turns(len(x), found, rope), magnitude, self.adjacent)

    def turns(self, rows, found, rope):
        """[rows, pairs]; pairs turn by time, line and column in sections, or in turns."""
        if self.scene is None or "mrope_section" not in rope:
            return np.outer(np.arange(rows), found)
        sections = rope["mrope_section"]
        axes = np.repeat([0, 1, 2], sections)
        if rope.get("mrope_interleaved"):
            axes = [pair % 3 if pair < 3 * sections[pair % 3] else 0 for pair in range(len(found))]
        return self.scene.places[:, axes] * found

    # of attention
    def kind(self, layer):
        kinds = self.config.get("layer_types")
        return kinds[layer] if kinds else FULL

    def window(self, layer):
        return self.config.get("sliding_window") if self.kind(layer) == SLIDING else None

    def scale(self):
        return self.head_dim ** -0.5

    def projected(self, x, name):
        return tuple(self.linear(x, f"{name}self_attn.{part}_proj").reshape(len(x), -1, self.head_dim) for part in "qkv")

    def normed(self, x, name):
        """Heads of queries or keys; a longer norm is of all heads as one."""
        weight = self.t.get(name + ".weight")
        if weight is None:
            return x
        return self.norm(x.reshape(len(x), -1) if len(weight) > x.shape[-1] else x, name).reshape(x.shape)

    def attended(self, x, layer, name):
        q, k, v = self.projected(x, name)
        q, k = (self.turned(self.normed(part, name + norm), layer) for part, norm in zip((q, k), self.query_norm))
        return self.linear(attend(q, k, v, self.scale(), self.window(layer), self.config.get("attn_logit_softcapping"),
                                  self.t.get(name + "self_attn.sinks"), self.scene and self.scene.spans), name + self.out)

    # of the whole
    def gated(self, x, at, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = names
        return self.linear(self.act(self.linear(x, at + gate)) * self.linear(x, at + up), at + down)

    def fed(self, x, layer, name):
        return self.gated(x, name + self.feed)

    def layer(self, x, layer, name):
        normed, factor = self.norm(x, name + self.attention_norm), self.config.get("residual_multiplier", 1.0)
        attended = self.attended(normed, layer, name) * factor
        if self.parallel:
            return x + attended + self.fed(normed, layer, name)
        x = x + attended
        return x + self.fed(self.norm(x, name + self.feed_norm), layer, name) * factor

    def embedded(self, ids):
        return self.t[f"{self.at}{self.embedding}.weight"][ids] * self.config.get("embedding_multiplier", 1.0)

    def ended(self, logits):
        cap = self.config.get("final_logit_softcapping")
        return cap * np.tanh(logits / cap) if cap else logits / self.config.get("logits_scaling", 1.0)

    def logits(self, ids):
        x = self.embedded(ids)
        parts = list(self.scene.parts(x.shape[1])) if self.scene else []
        if parts:
            x[self.scene.rows] = parts.pop(0)
        for layer in range(self.count):
            x = self.layer(x, layer, f"{self.at}layers.{layer}.")
            if parts:
                x[self.scene.rows] += parts.pop(0)
        head = self.t.get(self.head + ".weight", self.t[f"{self.at}{self.embedding}.weight"])
        return self.ended(self.norm(x, self.at + self.final) @ head.T + self.t.get(self.head + ".bias", 0))


class Windowed(Plain):
    """One window for all layers."""

    def window(self, layer):
        return self.config.get("sliding_window")


class Qwen2(Plain):
    """A window from a layer on, if at all."""

    def window(self, layer):
        return self.config["sliding_window"] if self.config["use_sliding_window"] and layer >= self.config["max_window_layers"] else None


class Ministral3(Plain):
    """Queries grow with the logarithm of the number of original contexts before them."""

    def attended(self, x, layer, name):
        rope, _ = self.rope(layer)
        growth = 1 + rope["llama_4_scaling_beta"] * np.log(1 + np.arange(len(x)) // rope["original_max_position_embeddings"])
        q, k, v = self.projected(x, name)
        q = self.turned(q, layer) * growth[:, None, None]
        return self.linear(attend(q, self.turned(k, layer), v, self.scale()), name + self.out)


class SmolLm3(Plain):
    def turned(self, x, layer):
        return super().turned(x, layer) if self.config["no_rope_layers"][layer] else x


class Ungated(Plain):
    up, down = "mlp.up_proj", "mlp.down_proj"

    def fed(self, x, layer, name):
        return self.linear(self.act(self.linear(x, name + self.up)), name + self.down)


class Apertus(Ungated):
    """xIELU, with parameters for each layer."""

    attention_norm, feed_norm = "attention_layernorm", "feedforward_layernorm"

    def fed(self, x, layer, name):
        positive, negative, beta, least = (self.t[f"{name}mlp.act_fn.{part}"] for part in ("alpha_p", "alpha_n", "beta", "eps"))
        positive, negative = softplus(positive), beta + softplus(negative)
        x = self.linear(x, name + self.up)
        x = np.where(x > 0, positive * x * x + beta * x, (np.expm1(np.minimum(x, least)) - x) * negative + beta * x)
        return self.linear(x, name + self.down)


class Starcoder2(Ungated, Windowed):
    up, down, mean_norms = "mlp.c_fc", "mlp.c_proj", True


class Phi(Ungated):
    up, down, out, final = "mlp.fc1", "mlp.fc2", "self_attn.dense", "final_layernorm"
    mean_norms, parallel = True, True


class StableLm(Plain):
    mean_norms = True


class Adjacent(Plain):
    adjacent = True


class Cohere2(Adjacent):
    """Only layers with a window turn."""

    mean_norms, parallel = True, True

    def kind(self, layer):
        return SLIDING if (layer + 1) % self.config["sliding_window_pattern"] else FULL

    def turned(self, x, layer):
        return super().turned(x, layer) if self.kind(layer) == SLIDING else x

    def ended(self, logits):
        return logits * self.config["logit_scale"]


class Granite(Plain):
    def scale(self):
        return self.config["attention_multiplier"]


class MiniCpm(Plain):
    def __init__(self, config, tensors):
        super().__init__(config | {
            "embedding_multiplier": config["scale_emb"], "residual_multiplier": config["scale_depth"] / config["num_hidden_layers"] ** 0.5,
            "logits_scaling": config["hidden_size"] / config["dim_model_base"]}, tensors)


class NormsAfter(Plain):
    """OLMo 2 and 3: norms of the outputs of both halves, none of their inputs."""

    def layer(self, x, layer, name):
        x = x + self.norm(self.attended(x, layer, name), name + "post_attention_layernorm")
        return x + self.norm(self.fed(x, layer, name), name + "post_feedforward_layernorm")


class Exaone4(NormsAfter):
    """If some layers have a window, the others do not turn."""

    def turned(self, x, layer):
        return super().turned(x, layer) if self.kind(layer) == SLIDING or not self.config["sliding_window"] else x


class Olmo3(NormsAfter):
    def rope(self, layer):
        rope, base = super().rope(layer)
        return (rope if self.kind(layer) == FULL else {}), base


class Phi3(Windowed):
    """q, k and v in one matrix, gate and up in another."""

    def projected(self, x, name):
        heads = self.linear(x, name + "self_attn.qkv_proj").reshape(len(x), -1, self.head_dim)
        queries, keys = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        return np.split(heads, [queries, queries + keys], axis=1)

    def fed(self, x, layer, name):
        gate, up = np.split(self.linear(x, name + "mlp.gate_up_proj"), 2, axis=-1)
        return self.linear(self.act(gate) * up, name + "mlp.down_proj")


class Glm4(Phi3):
    """Norms of inputs and outputs of both halves."""

    adjacent, projected = True, Plain.projected

    def window(self, layer):
        return None

    def layer(self, x, layer, name):
        x = x + self.norm(self.attended(self.norm(x, name + self.attention_norm), layer, name), name + "post_self_attn_layernorm")
        return x + self.norm(self.fed(self.norm(x, name + self.feed_norm), layer, name), name + "post_mlp_layernorm")


class Hunyuan(Plain):
    """Norms of heads after the rotation."""

    query_norm = "self_attn.query_layernorm", "self_attn.key_layernorm"

    def attended(self, x, layer, name):
        q, k, v = self.projected(x, name)
        q, k = (self.normed(self.turned(part, layer), name + norm) for part, norm in zip((q, k), self.query_norm))
        return self.linear(attend(q, k, v, self.scale()), name + self.out)


# --- mixtures of experts --------------------------------------------------------------------------

def best_groups(choices, count, kept, best):
    """Scores of groups that are not kept become -inf; a group's score is the sum of its `best` largest ones."""
    groups = choices.reshape(len(choices), count, -1)
    scores = np.sort(groups, -1)[..., -best:].sum(-1)
    order = np.argsort(-scores, -1)[:, :kept]
    held = np.zeros_like(scores, bool)
    np.put_along_axis(held, order, True, -1)
    return np.where(held[..., None], groups, -np.inf).reshape(choices.shape)


def mixed(x, scores, choices, count, run, factor=lambda chosen: chosen):
    """Of each row the `count` experts of the largest choices, run(expert, row), times factor(their scores)."""
    out = 0
    chosen = np.argsort(-choices, -1)[:, :count]
    weights = np.array([factor(scores[row, chosen[row]]) for row in range(len(x))])
    for expert in range(choices.shape[1]):
        weight = np.where(chosen == expert, weights, 0).sum(-1)
        if weight.any():
            out = out + weight[:, None] * run(expert)
    return out


def shares(chosen):
    return chosen / chosen.sum()


class Mixture(Plain):
    """Stored one by one; chosen by the softmax of all scores, whose shares count."""

    router, experts, names = "mlp.gate", "mlp.experts.", ("gate_proj", "up_proj", "down_proj")

    def expert(self, x, name, number):
        return self.gated(x, f"{name}{self.experts}{number}.", self.names)

    def chosen(self, scores):
        """(scores, choices, count, factor) of the router's scores."""
        scores = softmax(scores)
        factor = shares if self.config.get("norm_topk_prob", True) else lambda chosen: chosen
        return scores, scores, self.config["num_experts_per_tok"], factor

    def dense(self, layer):
        return False

    def beside(self, x, name):
        """What every row gets besides."""
        return 0

    def fed(self, x, layer, name):
        if self.dense(layer):
            return super().fed(x, layer, name)
        self.bias = self.t.get(name + self.router + ".e_score_correction_bias")
        scores, choices, count, factor = self.chosen(self.linear(x, name + self.router))
        return mixed(x, scores, choices, count, lambda number: self.expert(x, name, number), factor) + self.beside(x, name)


class Stacked(Mixture):
    """Matrices of all experts in one tensor, a gate's rows before those of up."""

    stack = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"

    def expert(self, x, name, number):
        gate, up = np.split(x @ self.t[name + self.stack[0]][number].T, 2, axis=-1)
        return (self.act(gate) * up) @ self.t[name + self.stack[1]][number].T


class Qwen3MoeMixed(Stacked):
    def dense(self, layer):
        return layer in self.config["mlp_only_layers"] or (layer + 1) % self.config["decoder_sparse_step"] > 0


class GraniteMoe(Stacked, Granite):
    """Softmax of the chosen scores."""

    router, stack = "block_sparse_moe.router.layer", ("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight")

    def chosen(self, scores):
        return scores, scores, self.config["num_experts_per_tok"], softmax


class GptOss(Mixture):
    """Gates and ups with bounds; softmax of the chosen scores."""

    router = "mlp.router"

    def chosen(self, scores):
        return scores, scores, self.config["num_experts_per_tok"], softmax

    def expert(self, x, name, number):
        most = self.config["swiglu_limit"]
        gate, up = (x @ self.t[f"{name}mlp.experts.{part}_proj.weight"][number].T + self.t[f"{name}mlp.experts.{part}_proj.bias"][number]
                    for part in ("gate", "up"))
        gate, up = np.minimum(gate, most), np.clip(up, -most, most)
        at = name + "mlp.experts.down_proj."
        return ((up + 1) * gate * sigmoid(1.702 * gate)) @ self.t[at + "weight"][number].T + self.t[at + "bias"][number]


class Sigmoids(Mixture):
    """Chosen by sigmoids and a bias, of the groups whose two best are best; an expert for all rows."""

    def dense(self, layer):
        return layer < self.config["first_k_dense_replace"]

    def chosen(self, scores):
        config, scores = self.config, sigmoid(scores)
        choices = scores if self.bias is None else scores + self.bias.reshape(-1)
        if config.get("n_group", 1) > 1:
            choices = best_groups(choices, config["n_group"], config["topk_group"], 2)
        share = shares if config.get("norm_topk_prob", True) else lambda chosen: chosen
        return scores, choices, config["num_experts_per_tok"], lambda chosen: share(chosen) * config.get("routed_scaling_factor", 1.0)

    def beside(self, x, name):
        return self.gated(x, name + "mlp.shared_experts.")


class MiniMaxM2(Sigmoids):
    router, experts, names = "block_sparse_moe.gate", "block_sparse_moe.experts.", ("w1", "w3", "w2")

    def dense(self, layer):
        return False

    def columns(self):
        return self.config["rotary_dim"]

    def beside(self, x, name):
        return 0

    def fed(self, x, layer, name):
        self.t[name + self.router + ".e_score_correction_bias"] = self.t[name + "block_sparse_moe.e_score_correction_bias"]
        return super().fed(x, layer, name)


class Ernie45Moe(Mixture):
    adjacent = True

    def dense(self, layer):
        return layer < self.config["moe_layer_start_index"]

    def fed(self, x, layer, name):
        if not self.dense(layer):
            self.t[name + "mlp.gate.e_score_correction_bias"] = self.t[name + "mlp.moe_statics.e_score_correction_bias"]
        return super().fed(x, layer, name)

    def chosen(self, scores):
        scores = softmax(scores)
        return scores, scores + self.bias.reshape(-1), self.config["moe_k"], shares

    def beside(self, x, name):
        return self.gated(x, name + "mlp.shared_experts.")


class HunyuanMoe(Mixture, Hunyuan):
    router = "mlp.gate.wg"

    def chosen(self, scores):
        scores = softmax(scores)
        return scores, scores, self.config["moe_topk"][0], shares

    def beside(self, x, name):
        return self.gated(x, name + "mlp.shared_mlp.")


class Latent(Sigmoids):
    """DeepSeek V3: keys and values of all heads from a latent; one rotated key for all heads. Norms of latents have an epsilon of their own."""

    def norm(self, x, name):
        if not name.endswith("_a_layernorm"):
            return super().norm(x, name)
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-6) * self.t[name + ".weight"]

    def attended(self, x, layer, name):
        config, at = self.config, name + "self_attn."
        plain, rope, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
        if config["q_lora_rank"]:
            q = self.linear(self.norm(self.linear(x, at + "q_a_proj"), at + "q_a_layernorm"), at + "q_b_proj")
        else:
            q = self.linear(x, at + "q_proj")
        q = q.reshape(len(x), -1, plain + rope)
        latent, key = np.split(self.linear(x, at + "kv_a_proj_with_mqa"), [config["kv_lora_rank"]], axis=-1)
        both = self.linear(self.norm(latent, at + "kv_a_layernorm"), at + "kv_b_proj").reshape(len(x), -1, plain + value)
        key = np.repeat(self.rotary(key[:, None], layer), both.shape[1], axis=1)
        q = np.concatenate([q[..., :plain], self.rotary(q[..., plain:], layer)], -1)
        return self.linear(attend(q, np.concatenate([both[..., :plain], key], -1), both[..., plain:], self.scale()), name + self.out)

    def rotary(self, x, layer):
        rope, base = self.rope(layer)
        found, magnitude = frequencies(rope, base, self.config["qk_rope_head_dim"], self.config["max_position_embeddings"])
        return turned(x, np.outer(np.arange(len(x)), found), magnitude, self.config.get("rope_interleave", True))

    def scale(self):
        rope, _ = self.rope(0)
        grown = yarn_magnitude(rope["factor"], rope["mscale_all_dim"]) if rope.get("mscale_all_dim") else 1.0
        return (self.config["qk_nope_head_dim"] + self.config["qk_rope_head_dim"]) ** -0.5 * grown ** 2


class DeepseekV2(Latent):
    """Chosen by softmax, of the groups whose best one is best."""

    def chosen(self, scores):
        config, scores = self.config, softmax(scores)
        choices = best_groups(scores, config["n_group"], config["topk_group"], 1) if config["topk_method"] != "greedy" else scores
        return scores, choices, config["num_experts_per_tok"], lambda chosen: chosen * config["routed_scaling_factor"]


FAMILIES = {
    "llama": Plain, "mistral": Windowed, "ministral3": Ministral3, "qwen2": Qwen2, "qwen3": Plain, "seed_oss": Plain, "smollm3": SmolLm3,
    "arcee": Ungated, "apertus": Apertus, "starcoder2": Starcoder2, "phi": Phi, "phi3": Phi3, "stablelm": StableLm, "ernie4_5": Adjacent,
    "cohere2": Cohere2, "granite": Granite, "minicpm": MiniCpm, "olmo2": NormsAfter, "olmo3": Olmo3, "exaone4": Exaone4, "glm4": Glm4,
    "hunyuan_v1_dense": Hunyuan, "hunyuan_v1_moe": HunyuanMoe, "qwen3_moe": Mixture, "qwen3_moe_mixed": Qwen3MoeMixed,
    "granitemoe": GraniteMoe, "gpt_oss": GptOss, "glm4_moe": Sigmoids, "minimax_m2": MiniMaxM2, "ernie4_5_moe": Ernie45Moe,
    "deepseek_v2": DeepseekV2, "deepseek_v3": Latent, "glm4_moe_lite": Latent,
}
