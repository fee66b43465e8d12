"""Shapes of checkpoints with random weights: the tensors and keys of a GGUF file of a shape, and the bytes of it that a decode step reads.

A tensor without `fill` is Q4_0. One with `fill` is F32: a number for all elements, a tuple of all numbers, or a Spread. Names and keys are
those of llama.cpp's converter. PRESETS holds shapes of published models (sizes from their config.json), and under the same name with
`-tiny` the same layout in some hundred kilobytes.

The bytes of a step are computed from the file: every matrix once for any number of rows, of the embeddings a row for each token, of a
mixture's stacks each expert that at least one row chose, and each row's own positions of the cache. Recurrent state is left out.
"""

import collections
import dataclasses
import math

Shape = collections.namedtuple("Shape", "layers hidden heads kv_heads head_dim feed_forward")
Experts = collections.namedtuple("Experts", "count chosen")
Delta = collections.namedtuple("Delta", "key_heads value_heads head_dim taps")  # of a gated delta net
Tensor = collections.namedtuple("Tensor", "name size fill", defaults=(None,))
Spread = collections.namedtuple("Spread", "deviation")
Cache = collections.namedtuple("Cache", "kv_heads head_dim window")  # of a layer; window 0: all positions
StepBytes = collections.namedtuple("StepBytes", "dense experts kv distinct")
BLOCK_BYTES, BLOCK_WEIGHTS = 18, 32  # of Q4_0: an f16 scale and 16 bytes of nibbles
KV_BYTES = 2  # an f16


def tensor_bytes(tensor):
    elements = math.prod(tensor.size)
    return elements // BLOCK_WEIGHTS * BLOCK_BYTES if tensor.fill is None else elements * 4


@dataclasses.dataclass(frozen=True)
class Llama:
    shape: Shape
    vocab: int
    untied: bool = False
    context: int = 8192
    architecture = "llama"
    has_mean = True  # of weights, half a step of Q4_0 below zero
    epsilon = 1e-5
    rope_base = 1e5

    def caches(self):
        return [Cache(self.shape.kv_heads, self.shape.head_dim, 0)] * self.shape.layers

    def ends(self):
        """Tensors outside layers."""
        size = (self.shape.hidden, self.vocab)
        output = [Tensor("output.weight", size)] if self.untied else []
        return [Tensor("token_embd.weight", size), Tensor("output_norm.weight", size[:1], 1.0), *output]

    def attention(self, layer):
        hidden, cache = self.shape.hidden, self.caches()[layer]
        queries, keys = self.shape.heads * cache.head_dim, cache.kv_heads * cache.head_dim
        return [Tensor("attn_norm.weight", (hidden,), 1.0), Tensor("attn_q.weight", (hidden, queries)),
                Tensor("attn_k.weight", (hidden, keys)), Tensor("attn_v.weight", (hidden, keys)),
                Tensor("attn_output.weight", (queries, hidden))]

    def feed_forward(self):
        hidden, wide = self.shape.hidden, self.shape.feed_forward
        return [Tensor("ffn_norm.weight", (hidden,), 1.0), Tensor("ffn_gate.weight", (hidden, wide)),
                Tensor("ffn_up.weight", (hidden, wide)), Tensor("ffn_down.weight", (wide, hidden))]

    def layer_tensors(self, layer):
        return [tensor._replace(name=f"blk.{layer}.{tensor.name}") for tensor in self.attention(layer) + self.feed_forward()]

    def tensors(self):
        return self.ends() + [tensor for layer in range(self.shape.layers) for tensor in self.layer_tensors(layer)]

    def own_keys(self):
        return {"attention.head_count_kv": self.shape.kv_heads, "attention.key_length": self.shape.head_dim,
                "attention.value_length": self.shape.head_dim, "rope.dimension_count": self.shape.head_dim}

    def keys(self):
        """Values by name: an int is a U32, a float an F32, a list an array of U32 or of booleans."""
        shape = self.shape
        values = {"block_count": shape.layers, "context_length": self.context, "embedding_length": shape.hidden,
                  "feed_forward_length": shape.feed_forward, "attention.head_count": shape.heads,
                  "attention.layer_norm_rms_epsilon": self.epsilon, "rope.freq_base": self.rope_base} | self.own_keys()
        return {f"{self.architecture}.{name}": value for name, value in values.items()}


@dataclasses.dataclass(frozen=True)
class Qwen3Moe(Llama):
    """The feed-forward size is that of one expert."""
    experts: Experts = Experts(128, 8)
    architecture = "qwen3moe"
    has_mean = False

    def attention(self, layer):
        norm = (self.shape.head_dim,)
        return super().attention(layer) + [Tensor("attn_q_norm.weight", norm, 1.0), Tensor("attn_k_norm.weight", norm, 1.0)]

    def feed_forward(self):
        hidden, wide, count = self.shape.hidden, self.shape.feed_forward, self.experts.count
        return [Tensor("ffn_norm.weight", (hidden,), 1.0),
                Tensor("ffn_gate_inp.weight", (hidden, count), Spread(hidden ** -0.5)),
                Tensor("ffn_gate_exps.weight", (hidden, wide, count)), Tensor("ffn_up_exps.weight", (hidden, wide, count)),
                Tensor("ffn_down_exps.weight", (wide, hidden, count))]

    def own_keys(self):
        return super().own_keys() | {"expert_count": self.experts.count, "expert_used_count": self.experts.chosen,
                                     "expert_feed_forward_length": self.shape.feed_forward}


@dataclasses.dataclass(frozen=True)
class Gemma4(Llama):
    """A dense half and experts in each layer; every `period`th layer is global, with heads of its own, and has keys for values."""
    experts: Experts = Experts(128, 8)
    expert_feed_forward: int = 704
    global_kv_heads: int = 2
    global_head_dim: int = 512
    window: int = 1024
    period: int = 6
    architecture = "gemma4"
    has_mean = False
    epsilon = 1e-6
    rope_base = 1e6

    def is_global(self, layer):
        return layer % self.period == self.period - 1

    def caches(self):
        sliding = Cache(self.shape.kv_heads, self.shape.head_dim, self.window)
        return [Cache(self.global_kv_heads, self.global_head_dim, 0) if self.is_global(layer) else sliding
                for layer in range(self.shape.layers)]

    def ends(self):
        """With a divisor for each pair of a global head: a quarter rotates, 1e30 keeps the others still."""
        half = self.global_head_dim // 2
        return super().ends() + [Tensor("rope_freqs.weight", (half,), (1.0,) * (half // 4) + (1e30,) * (half - half // 4))]

    def attention(self, layer):
        """Scores are not scaled by the head's size here: the norms are."""
        head_dim = self.caches()[layer].head_dim
        found = [tensor for tensor in super().attention(layer) if not (self.is_global(layer) and "attn_v" in tensor.name)]
        return found + [Tensor("post_attention_norm.weight", (self.shape.hidden,), 1.0),
                        Tensor("attn_q_norm.weight", (head_dim,), head_dim ** -0.25),
                        Tensor("attn_k_norm.weight", (head_dim,), head_dim ** -0.25)]

    def feed_forward(self):
        hidden, wide, count = self.shape.hidden, self.expert_feed_forward, self.experts.count
        norms = ("post_ffw_norm", "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2")
        return super().feed_forward() + [Tensor(f"{norm}.weight", (hidden,), 1.0) for norm in norms] + [
            Tensor("ffn_gate_inp.weight", (hidden, count), Spread(1.0)), Tensor("ffn_gate_inp.scale", (hidden,), 1.0),
            Tensor("ffn_down_exps.scale", (count,), 1.0), Tensor("ffn_gate_up_exps.weight", (hidden, 2 * wide, count)),
            Tensor("ffn_down_exps.weight", (wide, hidden, count)), Tensor("layer_output_scale.weight", (1,), 1.0)]

    def own_keys(self):
        shape, wide = self.shape, self.global_head_dim
        return {
            "attention.head_count_kv": [cache.kv_heads for cache in self.caches()], "attention.key_length": wide,
            "attention.value_length": wide, "attention.key_length_swa": shape.head_dim,
            "attention.value_length_swa": shape.head_dim, "attention.sliding_window": self.window,
            "attention.sliding_window_pattern": [not self.is_global(layer) for layer in range(shape.layers)],
            "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0, "final_logit_softcapping": 30.0,
            "rope.freq_base_swa": 1e4, "rope.dimension_count": wide, "rope.dimension_count_swa": shape.head_dim,
            "expert_count": self.experts.count, "expert_used_count": self.experts.chosen,
            "expert_feed_forward_length": self.expert_feed_forward,
        }


@dataclasses.dataclass(frozen=True)
class Qwen35(Llama):
    """Gated delta nets; every `period`th layer attends, with a gate beside each query head. `ahead`: with a layer that predicts a further
    token."""
    delta: Delta = Delta(16, 16, 128, 4)
    period: int = 4
    ahead: bool = False
    architecture = "qwen35"
    has_mean = False
    epsilon = 1e-6
    rope_base = 1e7

    def attends(self, layer):
        return layer % self.period == self.period - 1 or layer == self.shape.layers

    def caches(self):
        """The last one is that of the layer ahead, if there is one."""
        cache = Cache(self.shape.kv_heads, self.shape.head_dim, 0)
        return [cache if self.attends(layer) else Cache(0, 0, 0) for layer in range(self.shape.layers + self.ahead)]

    def tensors(self):
        if not self.ahead:
            return super().tensors()
        hidden, at = self.shape.hidden, f"blk.{self.shape.layers}."
        own = [Tensor("nextn.eh_proj.weight", (2 * hidden, hidden))] + [
            Tensor(f"nextn.{norm}.weight", (hidden,), 1.0) for norm in ("enorm", "hnorm", "shared_head_norm")]
        return super().tensors() + self.layer_tensors(self.shape.layers) + [tensor._replace(name=at + tensor.name) for tensor in own]

    def keys(self):
        ahead = {f"{self.architecture}.block_count": self.shape.layers + 1, f"{self.architecture}.nextn_predict_layers": 1}
        return super().keys() | (ahead if self.ahead else {})

    def attention(self, layer):
        if self.attends(layer):
            norm, gated = (self.shape.head_dim,), (self.shape.hidden, 2 * self.shape.heads * self.shape.head_dim)
            found = [tensor._replace(size=gated) if "attn_q." in tensor.name else tensor for tensor in super().attention(layer)]
            return found + [Tensor("attn_q_norm.weight", norm, 1.0), Tensor("attn_k_norm.weight", norm, 1.0)]
        hidden, delta = self.shape.hidden, self.delta
        values = delta.value_heads * delta.head_dim
        mixed = 2 * delta.key_heads * delta.head_dim + values
        return [Tensor("attn_norm.weight", (hidden,), 1.0), Tensor("attn_qkv.weight", (hidden, mixed)),
                Tensor("attn_gate.weight", (hidden, values)), Tensor("ssm_beta.weight", (hidden, delta.value_heads)),
                Tensor("ssm_alpha.weight", (hidden, delta.value_heads)), Tensor("ssm_conv1d.weight", (delta.taps, mixed), Spread(0.5)),
                Tensor("ssm_a", (delta.value_heads,), -0.6), Tensor("ssm_dt.bias", (delta.value_heads,), 0.0),
                Tensor("ssm_norm.weight", (delta.head_dim,), 1.0), Tensor("ssm_out.weight", (values, hidden))]

    def feed_forward(self):
        return [tensor._replace(name=tensor.name.replace("ffn_norm", "post_attention_norm")) for tensor in super().feed_forward()]

    def own_keys(self):
        delta = self.delta
        return super().own_keys() | {
            "rope.dimension_count": self.shape.head_dim // 4, "full_attention_interval": self.period, "ssm.conv_kernel": delta.taps,
            "ssm.state_size": delta.head_dim, "ssm.group_count": delta.key_heads, "ssm.time_step_rank": delta.value_heads,
            "ssm.inner_size": delta.value_heads * delta.head_dim}


@dataclasses.dataclass(frozen=True)
class Qwen35Moe(Qwen35):
    """The feed-forward size is that of one expert and of the shared one."""
    experts: Experts = Experts(256, 8)
    architecture = "qwen35moe"

    def feed_forward(self):
        hidden, wide, count = self.shape.hidden, self.shape.feed_forward, self.experts.count
        return [Tensor("post_attention_norm.weight", (hidden,), 1.0),
                Tensor("ffn_gate_inp.weight", (hidden, count), Spread(hidden ** -0.5)),
                Tensor("ffn_gate_exps.weight", (hidden, wide, count)), Tensor("ffn_up_exps.weight", (hidden, wide, count)),
                Tensor("ffn_down_exps.weight", (wide, hidden, count)), Tensor("ffn_gate_inp_shexp.weight", (hidden,), 0.0),
                Tensor("ffn_gate_shexp.weight", (hidden, wide)), Tensor("ffn_up_shexp.weight", (hidden, wide)),
                Tensor("ffn_down_shexp.weight", (wide, hidden))]

    def own_keys(self):
        wide = self.shape.feed_forward
        return super().own_keys() | {"expert_count": self.experts.count, "expert_used_count": self.experts.chosen,
                                     "expert_feed_forward_length": wide, "expert_shared_feed_forward_length": wide}


PRESETS = {
    "30b-a3b": Qwen3Moe(Shape(48, 2048, 32, 4, 128, 768), 151936, untied=True),
    "26b-a4b": Gemma4(Shape(30, 2816, 16, 8, 256, 2112), 262144),
    "qwen3.5-0.8b": Qwen35(Shape(24, 1024, 8, 2, 256, 3584), 248320),
    "qwen3.5-27b": Qwen35(Shape(64, 5120, 24, 4, 256, 17408), 248320, untied=True, delta=Delta(16, 48, 128, 4), ahead=True),
    "qwen3.5-35b-a3b": Qwen35Moe(Shape(40, 2048, 16, 2, 256, 512), 248320, untied=True, delta=Delta(16, 32, 128, 4), ahead=True),
    "30b-a3b-tiny": Qwen3Moe(Shape(2, 128, 4, 2, 32, 32), 768, untied=True, experts=Experts(16, 2)),
    "26b-a4b-tiny": Gemma4(Shape(3, 96, 4, 2, 16, 64), 768, experts=Experts(16, 2), expert_feed_forward=32,
                           global_kv_heads=1, global_head_dim=32, window=16, period=3),
    "qwen3.5-0.8b-tiny": Qwen35(Shape(4, 64, 4, 2, 16, 96), 768, delta=Delta(2, 4, 32, 4)),
    "qwen3.5-27b-tiny": Qwen35(Shape(4, 64, 4, 2, 16, 96), 768, untied=True, delta=Delta(2, 4, 32, 4), ahead=True),
    "qwen3.5-35b-a3b-tiny": Qwen35Moe(Shape(4, 64, 4, 2, 16, 32), 768, untied=True, delta=Delta(2, 4, 32, 4), ahead=True,
                                      experts=Experts(16, 2)),
}


def distinct_experts(experts, rows):
    """How many of a layer's experts `rows` rows want together, if each chooses by lot."""
    return experts.count * (1 - (1 - experts.chosen / experts.count) ** rows)


def step_bytes(model, rows, positions):
    """Of a decode step of `rows` sequences, each of which sees `positions` positions, its own among them."""
    distinct = distinct_experts(model.experts, rows)
    dense = stacks = 0
    for tensor in model.tensors():
        if tensor.name.endswith("_exps.weight"):
            stacks += tensor_bytes(tensor)
        elif tensor.name != "token_embd.weight":
            dense += tensor_bytes(tensor)
        else:
            dense += tensor_bytes(tensor) * rows // model.vocab + (0 if model.untied else tensor_bytes(tensor))
    seen = sum(2 * cache.kv_heads * cache.head_dim * min(positions, cache.window or positions) for cache in model.caches())
    return StepBytes(dense, stacks * distinct / model.experts.count, rows * seen * KV_BYTES, distinct)
