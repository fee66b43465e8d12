"""What hears and follows motion in the demo model: an audio tower as Qwen2.5-Omni's, and low-rank changes of the text layers."""

import math

import torch
import torch.nn.functional as F

import speech

WIDTH, LAYERS, HEADS, INNER, CHUNK = 128, 3, 4, 384, 200  # CHUNK: frames that attend each other
RANK, SCALE = 16, 2.0
CHANGED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
TOKENS = {"<|audio_bos|>": 4096, "<|audio_eos|>": 4097, "<|AUDIO|>": 4098}  # behind the vocabulary of the demo model


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = torch.nn.ModuleDict({name: torch.nn.Linear(WIDTH, WIDTH, bias=name != "k_proj")
                                              for name in ("q_proj", "k_proj", "v_proj", "out_proj")})
        self.self_attn_layer_norm, self.final_layer_norm = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.fc1, self.fc2 = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH)

    def forward(self, x):
        before = self.self_attn_layer_norm(x)
        q, k, v = (self.self_attn[name](before).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("q_proj", "k_proj", "v_proj"))
        x = x + self.self_attn["out_proj"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class Ear(torch.nn.Module):
    """The audio tower; its tensors are named as Qwen2.5-Omni's."""

    def __init__(self, hidden):
        super().__init__()
        self.conv1 = torch.nn.Conv1d(speech.BINS, WIDTH, 3, padding=1)
        self.conv2 = torch.nn.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.layers = torch.nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_post, self.proj = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, hidden)
        steps = math.log(10000) / (WIDTH // 2 - 1)
        angles = torch.arange(CHUNK // 2)[:, None] * torch.exp(-steps * torch.arange(WIDTH // 2))[None]
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def chunk(self, mel):
        """[clips, bins, at most CHUNK frames] to [clips, frames / 4, WIDTH]"""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        x = x + self.positions[:x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x[:, :x.shape[1] // 2 * 2].unflatten(1, (-1, 2)).mean(2)

    def forward(self, mel):
        """mel: [clips, bins, frames], frames a multiple of four. (features [clips, frames / 4, hidden], what they are made of)"""
        heard = self.ln_post(torch.cat([self.chunk(part) for part in mel.split(CHUNK, 2)], 1))
        return self.proj(heard), heard


class Changed(torch.nn.Module):
    """A linear layer that is as it was, and a product of low rank that learns."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.a = torch.nn.Parameter(torch.randn(RANK, linear.in_features) / math.sqrt(linear.in_features))
        self.b = torch.nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x):
        return self.linear(x) + SCALE * F.linear(F.linear(x, self.a), self.b)


def change(text):
    """Puts a Changed in the place of each linear layer of the text model: {name: it}."""
    found = {}
    for number, layer in enumerate(text.layers):
        for name in CHANGED:
            part, leaf = layer.get_submodule(name.split(".")[0]), name.split(".")[1]
            found[f"layers.{number}.{name}"] = Changed(getattr(part, leaf))
            setattr(part, leaf, found[f"layers.{number}.{name}"])
    return found
