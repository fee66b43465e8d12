"""Gemma's text models in plain numpy, in double precision (plain_causal.py): the formulas of transformers' modeling_gemma.py, 2, 3, 3n
and 4."""

import math
import statistics

import numpy as np

from plain_causal import FULL, SLIDING, Plain, attend, frequencies, gelu_tanh, mixed, shares, softmax, turned


class Gemma(Plain):
    """Norms' weights lack their 1; the embedding is scaled."""

    unit = 1

    def act(self, x):
        return gelu_tanh(x)

    def embedded(self, ids):
        return super().embedded(ids) * math.sqrt(self.config["hidden_size"])


class Gemma2(Gemma):
    """Norms of inputs and outputs of both halves; a window in every other layer."""

    def kind(self, layer):
        return FULL if layer % 2 else SLIDING

    def scale(self):
        return self.config["query_pre_attn_scalar"] ** -0.5

    def layer(self, x, layer, name):
        x = x + self.norm(self.attended(self.norm(x, name + self.attention_norm), layer, name), name + "post_attention_layernorm")
        fed = self.fed(self.norm(x, name + "pre_feedforward_layernorm"), layer, name)
        return x + self.norm(fed, name + "post_feedforward_layernorm")


class Gemma3(Gemma2):
    """Layers with a window turn by a base of their own."""

    def kind(self, layer):
        return SLIDING if (layer + 1) % self.config["sliding_window_pattern"] else FULL

    def rope(self, layer):
        return super().rope(layer) if self.kind(layer) == FULL else ({}, self.config["rope_local_base_freq"])


class Shared(Plain):
    """Gemma 3n and 4: values are normed too; the last layers take keys and values of the last layer of their kind before them; each
    layer adds its part of an embedding."""

    act = Gemma.act

    def embedded(self, ids):
        return super().embedded(ids) * math.sqrt(self.config["hidden_size"])

    def bare_norm(self, x):
        return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + self.epsilon)

    def columns_of(self, layer):
        return self.head_dim

    def attended(self, x, layer, name):
        at, columns = name + "self_attn.", self.columns_of(layer)
        q = self.rotary(self.norm(self.linear(x, at + "q_proj").reshape(len(x), -1, columns), at + "q_norm"), layer)
        if layer < self.count - self.config["num_kv_shared_layers"]:
            k = self.linear(x, at + "k_proj").reshape(len(x), -1, columns)
            v = self.linear(x, at + "v_proj").reshape(len(x), -1, columns) if at + "v_proj.weight" in self.t else k
            self.kept[self.kind(layer)] = self.rotary(self.norm(k, at + "k_norm"), layer), self.bare_norm(v)
        return self.linear(attend(q, *self.kept[self.kind(layer)], 1.0, self.window(layer)), name + self.out)

    def rotary(self, x, layer):
        return self.turned(x, layer)

    def parts(self, x, ids):
        """[rows, layers, columns] of the embedding of each layer."""
        columns = self.config["hidden_size_per_layer_input"]
        if not columns:
            return None
        table = self.t["model.embed_tokens_per_layer.weight"]
        parts = table[np.where(np.array(ids) < len(table), ids, 0)].reshape(len(x), -1, columns) * math.sqrt(columns)
        own = self.linear(x, "model.per_layer_model_projection") * self.config["hidden_size"] ** -0.5
        return (self.norm(own.reshape(parts.shape), "model.per_layer_projection_norm") + parts) / math.sqrt(2)

    def part(self, x, layer, name):
        gate = self.act(self.linear(x, name + "per_layer_input_gate")) * self.given[:, layer]
        return self.norm(self.linear(gate, name + "per_layer_projection"), name + "post_per_layer_input_norm")

    def logits(self, ids):
        self.kept, self.given = {}, self.parts(self.embedded(ids), ids)
        return super().logits(ids)


class Gemma4(Shared):
    """Global layers have heads of their own size, of which a part turns; experts beside the dense half, if there are some."""

    def columns_of(self, layer):
        return self.config["global_head_dim"] if self.kind(layer) == FULL else self.head_dim

    def rotary(self, x, layer):
        rope, columns = self.config["rope_parameters"][self.kind(layer)], self.columns_of(layer)
        found, _ = frequencies({}, rope["rope_theta"], columns, 0)
        found[int(rope.get("partial_rotary_factor", 1.0) * columns // 2):] = 0
        return turned(x, np.outer(np.arange(len(x)), found), 1.0, False)

    def mixture(self, x, name):
        routed = self.bare_norm(x) * self.t[name + "router.scale"] * self.config["hidden_size"] ** -0.5
        scores, inner = softmax(self.linear(routed, name + "router.proj")), self.norm(x, name + "pre_feedforward_layernorm_2")

        def run(number):
            gate, up = np.split(inner @ self.t[name + "experts.gate_up_proj"][number].T, 2, axis=-1)
            return (self.act(gate) * up) @ self.t[name + "experts.down_proj"][number].T * self.t[name + "router.per_expert_scale"][number]
        return self.norm(mixed(x, scores, scores, self.config["top_k_experts"], run, shares), name + "post_feedforward_layernorm_2")

    def layer(self, x, layer, name):
        x = x + self.norm(self.attended(self.norm(x, name + self.attention_norm), layer, name), name + "post_attention_layernorm")
        fed = self.fed(self.norm(x, name + "pre_feedforward_layernorm"), layer, name)
        if self.config["enable_moe_block"]:
            fed = self.norm(fed, name + "post_feedforward_layernorm_1") + self.mixture(x, name)
        x = x + self.norm(fed, name + "post_feedforward_layernorm")
        if self.given is not None:
            x = x + self.part(x, layer, name)
        return x * self.t[name + "layer_scalar"]


class Gemma3n(Shared):
    """Streams that each layer predicts and corrects (AltUp), a low-rank half (LAuReL), gates of which only the largest pass."""

    def rope(self, layer):
        return {}, self.config["rope_theta" if self.kind(layer) == FULL else "rope_local_base_freq"]

    def sized(self, x, like):
        """With the root mean square of each row of `like`."""
        size = np.sqrt((like ** 2).mean(-1, keepdims=True))
        return x * size / np.sqrt(np.maximum((x ** 2).mean(-1, keepdims=True), 1e-5))

    def modalities(self, x, name):
        return np.tanh(self.linear(self.norm(x, name + "altup.router_norm") / self.config["hidden_size"], name + "altup.modality_router"))

    def fed_sparsely(self, x, layer, name):
        gate, part = self.linear(x, name + "mlp.gate_proj"), self.config["activation_sparsity_pattern"][layer]
        if part > 0:
            cut = gate.mean(-1, keepdims=True) + gate.std(-1, keepdims=True) * statistics.NormalDist().inv_cdf(part)
            gate = np.maximum(gate - cut, 0)
        return self.linear(self.act(gate) * self.linear(x, name + "mlp.up_proj"), name + "mlp.down_proj")

    def layer(self, streams, layer, name):
        """streams [streams, rows, hidden]"""
        count, active = len(streams), self.config["altup_active_idx"]
        mixing = self.linear(self.modalities(streams[active], name), name + "altup.prediction_coefs").reshape(-1, count, count)
        predicted = streams + np.einsum("rts,srh->trh", mixing, streams)
        x = predicted[active]
        normed = self.norm(x, name + self.attention_norm)
        low = self.linear(self.linear(normed, name + "laurel.linear_left"), name + "laurel.linear_right")
        low = normed + self.norm(low, name + "laurel.post_laurel_norm")
        attended = x + self.norm(self.attended(normed, layer, name), name + "post_attention_layernorm")
        both = (attended + low) / math.sqrt(2)
        fed = self.fed_sparsely(self.norm(both, name + "pre_feedforward_layernorm"), layer, name)
        x = both + self.norm(fed, name + "post_feedforward_layernorm")
        weights = self.linear(self.modalities(x, name), name + "altup.correction_coefs") + 1
        corrected = predicted + weights.T[..., None] * (x - predicted[active])
        first = corrected[active] * (self.t[name + "altup.correct_output_scale"] if self.config["altup_correct_scale"] else 1)
        corrected[1:] += self.part(first, layer, name)
        return corrected

    def logits(self, ids):
        x = self.embedded(ids)
        self.kept, self.given, others = {}, self.parts(x, ids), range(self.config["altup_num_inputs"] - 1)
        streams = np.stack([x] + [self.sized(self.linear(x, f"model.altup_projections.{i}"), x) for i in others])
        for layer in range(self.count):
            streams = self.layer(streams, layer, f"model.layers.{layer}.")
        first = streams[0]
        out = [first] + [self.sized(self.linear(streams[i + 1], f"model.altup_unembed_projections.{i}"), first) for i in others]
        return self.ended(self.norm(np.mean(out, 0), "model.norm") @ self.t["model.embed_tokens.weight"].T)


FAMILIES = {"gemma": Gemma, "gemma2": Gemma2, "gemma3": Gemma3, "gemma3n": Gemma3n, "gemma4": Gemma4, "gemma4_moe": Gemma4}
