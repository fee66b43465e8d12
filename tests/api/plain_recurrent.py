"""Text models with short convolutions, gated delta nets or state space mixers in plain numpy, in double precision, row by row
(plain_causal.py): the formulas of transformers' modeling_lfm2.py, modeling_qwen3_5.py, modeling_mamba2.py, modeling_falcon_h1.py,
modeling_bamba.py, modeling_granitemoehybrid.py and modeling_nemotron_h.py."""

import numpy as np

from plain_causal import FULL, Granite, Mixture, Plain, Stacked, attend, best_groups, mixed, shares, sigmoid, silu, softplus


def convolved(x, kernel, bias=0):
    """x [rows, columns], kernel [columns, 1, taps]: each row with those before it."""
    taps = kernel.shape[-1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return sum(padded[tap:tap + len(x)] * kernel[:, 0, tap] for tap in range(taps)) + bias


class Lfm2(Plain):
    final, out, feed = "embedding_norm", "self_attn.out_proj", "feed_forward."
    attention_norm, feed_norm = "operator_norm", "ffn_norm"
    query_norm = "self_attn.q_layernorm", "self_attn.k_layernorm"
    names = ("w1", "w3", "w2")

    def attended(self, x, layer, name):
        if self.kind(layer) == FULL:
            return super().attended(x, layer, name)
        b, c, inner = np.split(self.linear(x, name + "conv.in_proj"), 3, axis=-1)
        found = convolved(b * inner, self.t[name + "conv.conv.weight"], self.t.get(name + "conv.conv.bias", 0))
        return self.linear(c * found, name + "conv.out_proj")

    def fed(self, x, layer, name):
        return self.gated(x, name + self.feed, self.names)


class Lfm2Moe(Lfm2):
    def fed(self, x, layer, name):
        config, at = self.config, name + self.feed
        if layer < config["num_dense_layers"]:
            return super().fed(x, layer, name)
        scores = sigmoid(self.linear(x, at + "gate"))
        return mixed(x, scores, scores + self.t.get(at + "expert_bias", 0), config["num_experts_per_tok"],
                     lambda number: self.gated(x, f"{at}experts.{number}.", self.names), shares)


class Qwen35(Plain):
    """Gated delta nets; attention whose output is gated; norms' weights lack their 1, except a delta net's."""

    unit = 1

    def columns(self):
        return int(self.head_dim * self.config["rope_parameters"]["partial_rotary_factor"])

    def attended(self, x, layer, name):
        if self.kind(layer) != FULL:
            return self.delta(x, name + "linear_attn.")
        at = name + "self_attn."
        q, gate = np.split(self.linear(x, at + "q_proj").reshape(len(x), -1, 2 * self.head_dim), 2, axis=-1)
        k, v = (self.linear(x, f"{at}{part}_proj").reshape(len(x), -1, self.head_dim) for part in "kv")
        q, k = (self.turned(self.norm(part, at + norm), layer) for part, norm in ((q, "q_norm"), (k, "k_norm")))
        return self.linear(attend(q, k, v, self.scale()) * sigmoid(gate.reshape(len(x), -1)), at + "o_proj")

    def delta(self, x, at):
        config, t = self.config, self.t
        heads, key_dim, value_dim = (config[f"linear_{what}"] for what in ("num_value_heads", "key_head_dim", "value_head_dim"))
        keys = config["linear_num_key_heads"] * key_dim
        mixture = silu(convolved(self.linear(x, at + "in_proj_qkv"), t[at + "conv1d.weight"]))
        q, k, v = np.split(mixture, [keys, 2 * keys], axis=-1)
        q, k = (part.reshape(len(x), -1, key_dim).repeat(heads // config["linear_num_key_heads"], axis=1) for part in (q, k))
        q, k = (part / np.sqrt((part ** 2).sum(-1, keepdims=True) + 1e-6) for part in (q, k))
        v, strength = v.reshape(len(x), heads, value_dim), sigmoid(self.linear(x, at + "in_proj_b"))
        kept = np.exp(-np.exp(t[at + "A_log"]) * softplus(self.linear(x, at + "in_proj_a") + t[at + "dt_bias"]))
        state, out = np.zeros((heads, key_dim, value_dim)), np.zeros_like(v)
        for row in range(len(x)):
            state *= kept[row][:, None, None]
            change = (v[row] - np.einsum("hkv,hk->hv", state, k[row])) * strength[row][:, None]
            state += np.einsum("hk,hv->hkv", k[row], change)
            out[row] = np.einsum("hkv,hk->hv", state, q[row]) * key_dim ** -0.5
        out = out / np.sqrt((out ** 2).mean(-1, keepdims=True) + self.epsilon) * t[at + "norm.weight"]
        return self.linear((out * silu(self.linear(x, at + "in_proj_z").reshape(out.shape))).reshape(len(x), -1), at + "out_proj")


class Qwen35Moe(Qwen35, Stacked):
    """One expert for all rows, times the sigmoid of its score."""

    def fed(self, x, layer, name):
        return Stacked.fed(self, x, layer, name)

    def beside(self, x, name):
        return self.gated(x, name + "mlp.shared_expert.") * sigmoid(self.linear(x, name + "mlp.shared_expert_gate"))


def mixer(model, x, at, heads, groups, state, limit=None, factors=None, norm="after"):
    """A state space mixer (Mamba 2): gates, values, inputs, outputs and steps in one product, which `factors` multiplies.

    norm: of each group, "after" the gates, "before" them, or None."""
    t = model.t
    columns = t[at + "out_proj.weight"].shape[1]
    wide = groups * state
    projected = model.linear(x, at + "in_proj")
    cuts = np.cumsum([columns, columns, wide, wide])
    if factors:
        projected = np.concatenate([part * factor for part, factor in zip(np.split(projected, cuts, axis=-1), factors)], -1)
    gate, mixture, steps = np.split(projected, [columns, 2 * columns + 2 * wide], axis=-1)
    mixture = silu(convolved(mixture, t[at + "conv1d.weight"], t.get(at + "conv1d.bias", 0)))
    values, inputs, outputs = np.split(mixture, [columns, columns + wide], axis=-1)
    values = values.reshape(len(x), heads, -1)
    inputs, outputs = (part.reshape(len(x), groups, state).repeat(heads // groups, axis=1) for part in (inputs, outputs))
    steps = softplus(steps + t[at + "dt_bias"])
    steps = np.clip(steps, *limit) if limit else steps
    kept = np.exp(-np.exp(t[at + "A_log"]) * steps)
    held, found = np.zeros(values.shape[1:] + (state,)), np.zeros_like(values)
    for row in range(len(x)):
        held = held * kept[row][:, None, None] + np.einsum("h,hd,hs->hds", steps[row], values[row], inputs[row])
        found[row] = np.einsum("hds,hs->hd", held, outputs[row]) + t[at + "D"][:, None] * values[row]
    found = found.reshape(len(x), columns)
    if norm != "before":
        found = found * silu(gate)
    if norm:
        parts = found.reshape(len(x), groups, -1)
        found = (parts / np.sqrt((parts ** 2).mean(-1, keepdims=True) + model.epsilon)).reshape(found.shape) * t[at + "norm.weight"]
    if norm == "before":
        found = found * silu(gate)
    return model.linear(found, at + "out_proj")


class Mamba2(Plain):
    at, final, embedding = "backbone.", "norm_f", "embeddings"

    def layer(self, x, layer, name):
        config = self.config
        return x + mixer(self, self.norm(x, name + "norm"), name + "mixer.", config["num_heads"], config["n_groups"], config["state_size"],
                         config.get("time_step_limit"))


class Mixers(Plain):
    """Bamba: layers attend or mix; half of a head turns, whatever the config says."""

    final, feed, feed_norm = "final_layernorm", "feed_forward.", "pre_ff_layernorm"

    def attends(self, layer):
        return layer in self.config["attn_layer_indices"]

    def columns(self):
        return self.head_dim // 2

    def attended(self, x, layer, name):
        if self.attends(layer):
            return super().attended(x, layer, name)
        config = self.config
        return mixer(self, x, name + "mamba.", config["mamba_n_heads"], config["mamba_n_groups"], config["mamba_d_state"])


class GraniteHybrid(Mixers, Stacked, Granite):
    """No rotation; experts beside a part for all rows."""

    final, feed_norm = Plain.final, Plain.feed_norm
    router, stack = "block_sparse_moe.router.layer", ("block_sparse_moe.input_linear.weight", "block_sparse_moe.output_linear.weight")

    def attends(self, layer):
        return self.config["layer_types"][layer] == "attention"

    def turned(self, x, layer):
        return x

    def chosen(self, scores):
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return scores, scores, self.config["num_experts_per_tok"], shares

    def beside(self, x, name):
        gate, up = np.split(self.linear(x, name + "shared_mlp.input_linear"), 2, axis=-1)
        return self.linear(silu(gate) * up, name + "shared_mlp.output_linear")


class FalconH1(Plain):
    """Attention and a mixer beside each other, and factors everywhere."""

    final, feed_norm = "final_layernorm", "pre_ff_layernorm"

    def projected(self, x, name):
        q, k, v = super().projected(x * self.config["attention_in_multiplier"], name)
        return q, k * self.config["key_multiplier"], v

    def attended(self, x, layer, name):
        config = self.config
        norm = "before" if config["mamba_norm_before_gate"] else "after"
        mixture = mixer(self, x * config["ssm_in_multiplier"], name + "mamba.", config["mamba_n_heads"], config["mamba_n_groups"],
                        config["mamba_d_state"], config.get("time_step_limit"), config["ssm_multipliers"],
                        norm if config["mamba_rms_norm"] else None)
        return super().attended(x, layer, name) * config["attention_out_multiplier"] + mixture * config["ssm_out_multiplier"]

    def fed(self, x, layer, name):
        gate, down = self.config["mlp_multipliers"]
        at = name + "feed_forward."
        return self.linear(self.act(self.linear(x, at + "gate_proj") * gate) * self.linear(x, at + "up_proj"), at + "down_proj") * down

    def ended(self, logits):
        return logits * self.config["lm_head_multiplier"]


class NemotronH(Plain):
    """Each layer is one part: a mixer, attention without rotation, a part without gates, or experts over a latent."""

    at, final, embedding, out = "backbone.", "norm_f", "embeddings", "o_proj"
    LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}

    def act(self, x):
        return np.maximum(x, 0) ** 2

    def kind(self, layer):
        pattern = self.config.get("hybrid_override_pattern")
        return self.LETTERS[pattern[layer]] if pattern else self.config["layers_block_type"][layer]

    def turned(self, x, layer):
        return x

    def projected(self, x, name):
        return tuple(self.linear(x, f"{name}{part}_proj").reshape(len(x), -1, self.head_dim) for part in "qkv")

    def window(self, layer):
        return None

    def ungated(self, x, at):
        return self.linear(self.act(self.linear(x, at + "up_proj")), at + "down_proj")

    def mixture(self, x, at):
        config, scores = self.config, sigmoid(self.linear(x, at + "gate"))
        choices = scores + self.t[at + "gate.e_score_correction_bias"]
        if config["n_group"] > 1:
            choices = best_groups(choices, config["n_group"], config["topk_group"], 2)
        share = shares if config["norm_topk_prob"] else lambda chosen: chosen
        inner = self.linear(x, at + "fc1_latent_proj")
        routed = mixed(x, scores, choices, config["num_experts_per_tok"], lambda number: self.ungated(inner, f"{at}experts.{number}."),
                       lambda chosen: share(chosen) * config["routed_scaling_factor"])
        return self.linear(routed, at + "fc2_latent_proj") + self.ungated(x, at + "shared_experts.")

    def layer(self, x, layer, name):
        config, at, kind, normed = self.config, name + "mixer.", self.kind(layer), self.norm(x, name + "norm")
        if kind == "mamba":
            return x + mixer(self, normed, at, config["mamba_num_heads"], config["n_groups"], config["ssm_state_size"])
        return x + (self.attended(normed, layer, at) if kind == "attention" else self.ungated(normed, at) if kind == "mlp"
                    else self.mixture(normed, at))


FAMILIES = {"lfm2": Lfm2, "lfm2_moe": Lfm2Moe, "qwen3_5": Qwen35, "qwen3_5_moe": Qwen35Moe, "mamba2": Mamba2, "bamba": Mixers,
            "granitemoehybrid": GraniteHybrid, "falcon_h1": FalconH1, "nemotron_h": NemotronH, "nemotron_h_moe": NemotronH}
