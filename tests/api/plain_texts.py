"""Small text models in plain numpy, in double precision: the formulas of transformers' modeling_llama.py with positions by axes, and what
modeling_hunyuan_vl.py, modeling_glm4v_moe.py and modeling_ernie4_5_vl_moe.py, and mlx-vlm's deepseek_vl_v2, have instead. Tensors have their names in the folder."""

import numpy as np

from plain_vision import attention, linear, rms_norm, rotated, silu


def gated(x, t, at):
    return linear(silu(linear(x, t, at + "gate_proj")) * linear(x, t, at + "up_proj"), t, at + "down_proj")


class Llama:
    """Sections of pairs take the axes in turn, if the config has some."""

    def __init__(self, text, tensors, at, head):
        self.text, self.t, self.at, self.head = text, tensors, at, head

    def turns(self, positions):
        """[rows, pairs] of positions [rows, 3] by time, line and column."""
        pairs = self.text["head_dim"] // 2
        axes = np.repeat([0, 1, 2], self.text["sections"]) if "sections" in self.text else np.zeros(pairs, int)
        return positions[:, axes] * self.text["rope_theta"] ** (-np.arange(pairs) / pairs)

    def turned(self, x, turns, name):
        return rotated(x, turns)

    def fed(self, x, name, layer, images):
        return gated(x, self.t, name + "mlp.")

    def logits(self, x, positions, images):
        """After the last row of x [rows, hidden]; images: which rows are an image's or beside one."""
        text, t, turns = self.text, self.t, self.turns(positions)
        epsilon = text["rms_norm_eps"]
        for layer in range(text["num_hidden_layers"]):
            name = f"{self.at}layers.{layer}."
            normed = rms_norm(x, t[name + "input_layernorm.weight"], epsilon)
            q, k, v = (linear(normed, t, f"{name}self_attn.{part}_proj").reshape(len(x), -1, text["head_dim"]) for part in "qkv")
            q, k = self.turned(q, turns, name + "self_attn.query"), self.turned(k, turns, name + "self_attn.key")
            x = x + linear(attention(q, k, v, True), t, name + "self_attn.o_proj")
            x = x + self.fed(rms_norm(x, t[name + "post_attention_layernorm.weight"], epsilon), name, layer, images)
        return rms_norm(x[-1], t[self.at + "norm.weight"], epsilon) @ t[self.head].T


class Hunyuan(Llama):
    """Columns of both halves of a head take axes in turn, twice as many as the sections say; norms of heads come after the rotation."""

    def turns(self, positions):
        rope, dim = self.text["rope_parameters"], self.text["head_dim"]
        base = rope["rope_theta"] * rope.get("alpha", 1.0) ** (dim / (dim - 2))
        axes = np.repeat(np.arange(len(rope["mrope_section"])), 2 * np.array(rope["mrope_section"]))
        return positions[:, axes] * np.tile(base ** (-2 * np.arange(dim // 2) / dim), 2)

    def turned(self, x, turns, name):
        half = x.shape[-1] // 2
        across = np.concatenate([-x[..., half:], x[..., :half]], -1)
        x = x * np.cos(turns)[:, None] + across * np.sin(turns)[:, None]
        return rms_norm(x, self.t[name + "_layernorm.weight"], self.text["rms_norm_eps"])


def mixed(x, t, at, scores, choices, count, factor):
    """The `count` experts of each row of the largest choices, each times its score, which factor() scales."""
    out = np.zeros_like(x)
    for row in range(len(x)):
        chosen = np.argsort(-choices[row])[:count]
        weights = factor(scores[row, chosen])
        for expert, weight in zip(chosen, weights):
            out[row] += weight * gated(x[row:row + 1], t, f"{at}experts.{expert}.")[0]
    return out


class Glm(Llama):
    """The first values of a head turn; a dense layer, then mixtures by sigmoids and a bias, and an expert for all rows."""

    def turns(self, positions):
        rope = self.text["rope_parameters"]
        axes = np.repeat([0, 1, 2], rope["mrope_section"])
        return positions[:, axes] * rope["rope_theta"] ** (-np.arange(len(axes)) / len(axes))

    def turned(self, x, turns, name):
        width = 2 * turns.shape[1]
        return np.concatenate([rotated(x[..., :width], turns), x[..., width:]], -1)

    def fed(self, x, name, layer, images):
        text, t, at = self.text, self.t, name + "mlp."
        if layer < text["first_k_dense_replace"]:
            return gated(x, t, at)
        scores = 1 / (1 + np.exp(-linear(x, t, at + "gate")))

        def factor(chosen):
            return chosen / (chosen.sum() + 1e-20 if text["norm_topk_prob"] else 1) * text["routed_scaling_factor"]
        routed = mixed(x, t, at, scores, scores + t[at + "gate.e_score_correction_bias"], text["num_experts_per_tok"], factor)
        return routed + gated(x, t, at + "shared_experts.")


class Deepseek(Llama):
    """Dense layers, then mixtures by the softmax of all scores, which are not divided by the sum of the chosen, and an expert for all rows."""

    def fed(self, x, name, layer, images):
        text, t, at = self.text, self.t, name + "mlp."
        if layer < text["first_k_dense_replace"]:
            return gated(x, t, at)
        scores = np.exp(linear(x, t, at + "gate"))
        scores /= scores.sum(-1, keepdims=True)
        routed = mixed(x, t, at, scores, scores, text["num_experts_per_tok"], lambda chosen: chosen * text["routed_scaling_factor"])
        return routed + gated(x, t, at + "shared_experts.")


class Ernie(Llama):
    """Adjacent pairs turn by line and column in turn, the last ones by time; rows of images have experts and scores of their own."""

    def turns(self, positions):
        text, sections = self.text, self.text["rope_parameters"]["mrope_section"]
        pairs = text["head_dim"] // 2
        axes = [1 + pair % 2 if pair < 2 * sections[0] else 0 for pair in range(pairs)]
        return positions[:, axes] * text["rope_parameters"]["rope_theta"] ** (-np.arange(pairs) / pairs)

    def turned(self, x, turns, name):
        cos, sin, even, odd = np.cos(turns)[:, None], np.sin(turns)[:, None], x[..., ::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(x.shape)

    def fed(self, x, name, layer, images):
        text, t, at, count = self.text, self.t, name + "mlp.", self.text["moe_num_experts"]
        if text["mlp_layer_types"][layer] == "dense":
            return gated(x, t, at)
        out = gated(x, t, at + "shared_experts.")
        biases = t[at + "moe_statics.e_score_correction_bias"]
        for kind, rows in enumerate((~images, images)):
            scores = np.exp(x[rows] @ t[at + "gate.weight" + ("_1" if kind else "")])
            scores /= scores.sum(-1, keepdims=True)
            experts = {expert.replace(f"experts.{kind * count + i}.", f"experts.{i}."): array for i in range(count)
                       for expert, array in t.items() if f"{at}experts.{kind * count + i}." in expert}
            out[rows] += mixed(x[rows], experts, at, scores, scores + biases[kind], text["moe_k"], lambda chosen: chosen / chosen.sum())
        return out
