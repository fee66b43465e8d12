"""Drafters of the demo model as torch modules: an MTP layer (names of Qwen 3.5), an EAGLE-3 head and a DFlash drafter.

Their state dicts have the names of their published formats. `rounds` and `blocks` compute, in one pass over whole sequences, what a worker
computes round by round with the sequence's own tokens as accepted drafts: what the first, second, ... draft at every place is made of. The
forms are those of worker/model/build/{ahead,eagle,dflash}_blocks.h.
"""

import torch
import torch.nn.functional as F
from network import turned, walked, with_features

CONTEXT_TAPS = [3, 4, 5]  # the model's state after so many of its 6 layers
EAGLE_TAPS = [2, 4, 5]
EAGLE_INNER, FLASH_INNER, FLASH_LAYERS = 384, 384, 2
BLOCK, DRAFT_TOKENS = 8, 512
MASK_TOKEN = 6  # of videos: in no text of the demo model


def norm_of(config):
    return torch.nn.RMSNorm(config.hidden_size, config.rms_norm_eps)


def linear(columns, rows, bias=False):
    return torch.nn.Linear(columns, rows, bias=bias)


class Attention(torch.nn.Module):
    def __init__(self, config, inputs, bias, head_norms):
        super().__init__()
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size = config.hidden_size // self.heads
        self.q_proj = linear(inputs, self.heads * self.size, bias)
        self.k_proj, self.v_proj = (linear(inputs, self.kv_heads * self.size, bias) for _ in range(2))
        self.o_proj = linear(self.heads * self.size, config.hidden_size)
        self.q_norm, self.k_norm = (torch.nn.RMSNorm(self.size, config.rms_norm_eps) if head_norms else None for _ in range(2))

    def queries(self, x, rotation):
        """[batch, heads, length, size]"""
        q = self.q_proj(x).unflatten(-1, (-1, self.size))
        return turned(self.q_norm(q) if self.q_norm else q, *rotation).transpose(1, 2)

    def cells(self, x, rotation):
        """Keys and values, each [batch, heads, length, size]"""
        k, v = (projection(x).unflatten(-1, (-1, self.size)) for projection in (self.k_proj, self.v_proj))
        k = turned(self.k_norm(k) if self.k_norm else k, *rotation)
        return [part.repeat_interleave(self.heads // self.kv_heads, -2).transpose(1, 2) for part in (k, v)]

    def out(self, attended):
        return self.o_proj(attended.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self, config, inner, inputs=None, bias=False, head_norms=False):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = norm_of(config), norm_of(config)
        self.self_attn = Attention(config, inputs or config.hidden_size, bias, head_norms)
        self.mlp = FeedForward(config.hidden_size, inner)

    def end(self, x, attended):
        x = x + self.self_attn.out(attended)
        return x + self.mlp(self.post_attention_layernorm(x))


class Rotations:
    """cos and sin [batch, length, 1, size] of positions [3, batch, length]; of row i those `ahead` rows later."""

    def __init__(self, text, positions, dtype):
        self.cos, self.sin = (part[:, :, None].to(dtype) for part in text.rotary_emb(torch.empty((), dtype=dtype, device=positions.device),
                                                                                     positions))

    def at(self, ahead, length):
        return self.cos[:, ahead:ahead + length], self.sin[:, ahead:ahead + length]


def chained(q, first, own):
    """Attention of rows that see the first round's cells up to their place, and of later rounds their own chain's: own: [(keys, values)]."""
    scale, length = q.shape[-1] ** -0.5, q.shape[2]
    if not own:
        return F.scaled_dot_product_attention(q, *first, is_causal=True)
    hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (scale * q @ first[0].transpose(-1, -2)).masked_fill(hidden, float("-inf"))
    others = [scale * (q * keys).sum(-1, keepdim=True) for keys, _ in own]
    shares = torch.cat([scores, *others], -1).softmax(-1)
    return shares[..., :length] @ first[1] + sum(shares[..., length + i, None] * values for i, (_, values) in enumerate(own))


class Chain(torch.nn.Module):
    """A drafter whose rows have the token after their position, and whose further rows have their own state."""

    def chain(self, layer, embedded, state, rotations, count):
        """Yields the own states [batch, length, hidden] of each round. embedded: [batch, length + count - 1, hidden] of the token after each
        position; state: [batch, length, hidden] of the first round."""
        length, first, own = state.shape[1], None, []
        for ahead in range(count):
            x, residual = self.joined(embedded[:, ahead:ahead + length], state)
            rotation = rotations.at(ahead, length)
            q, cells = layer.self_attn.queries(x, rotation), layer.self_attn.cells(x, rotation)
            if ahead == 0:
                first = cells
            else:
                own.append(cells)
            state = self.kept(layer.end(residual, chained(q, first, own)))
            yield state


class Ahead(Chain):
    def __init__(self, model):
        super().__init__()
        text = model.model.language_model
        self.fc = linear(2 * text.config.hidden_size, text.config.hidden_size)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (norm_of(text.config) for _ in range(3))
        self.layers = torch.nn.ModuleList([Layer(text.config, text.config.intermediate_size, bias=True)])
        self.layers[0].load_state_dict(text.layers[-1].state_dict())
        self.norm.load_state_dict(text.norm.state_dict())
        with torch.no_grad():  # it begins as the sum of both inputs
            eye = torch.eye(text.config.hidden_size)
            self.fc.weight.copy_(torch.cat([0.1 * eye, eye], 1))

    def joined(self, embedded, state):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(state)], -1))
        return self.layers[0].input_layernorm(x), x

    def kept(self, x):
        return self.norm(x)

    def rounds(self, seen, count):
        length = seen.ids.shape[1] - count
        return self.chain(self.layers[0], seen.embedded[:, 1:], seen.states[:, :length], seen.rotations, count)

    def logits(self, seen, states):
        return F.linear(states, seen.head)

    def own_token(self, tokens):
        return tokens

    def stored(self):
        return {f"mtp.{name}": value for name, value in self.state_dict().items()}


class Eagle(Chain):
    def __init__(self, model, tokens):
        """tokens: the model's token of each of its own, ascending"""
        super().__init__()
        text = model.model.language_model
        self.fc = linear(len(EAGLE_TAPS) * text.config.hidden_size, text.config.hidden_size)
        self.midlayer = Layer(text.config, EAGLE_INNER, inputs=2 * text.config.hidden_size)
        self.midlayer.hidden_norm, self.norm = norm_of(text.config), norm_of(text.config)
        self.lm_head = linear(text.config.hidden_size, len(tokens))
        self.register_buffer("tokens", tokens, persistent=False)
        self.norm.load_state_dict(text.norm.state_dict())
        with torch.no_grad():
            eye = torch.eye(text.config.hidden_size)
            self.fc.weight.copy_(torch.cat([0.1 * eye, 0.3 * eye, 0.6 * eye], 1))
            self.lm_head.weight.copy_(model.lm_head.weight[tokens])

    def joined(self, embedded, state):
        return torch.cat([self.midlayer.input_layernorm(embedded), self.midlayer.hidden_norm(state)], -1), state

    def kept(self, x):
        return x

    def rounds(self, seen, count):
        length = seen.ids.shape[1] - count
        taps = torch.cat([seen.after[i - 1] for i in EAGLE_TAPS], -1)[:, :length]
        return self.chain(self.midlayer, seen.of_tokens[:, 1:], self.fc(taps), seen.plain_rotations, count)

    def logits(self, seen, states):
        return self.lm_head(self.norm(states))

    def own_token(self, tokens):
        """-1: it has none"""
        at = torch.searchsorted(self.tokens, tokens).clamp(max=len(self.tokens) - 1)
        return torch.where(self.tokens[at] == tokens, at, -1)

    def stored(self):
        kept = torch.zeros(4096, dtype=torch.bool)
        kept[self.tokens.cpu()] = True
        return self.state_dict() | {"d2t": self.tokens.cpu() - torch.arange(len(self.tokens)), "t2d": kept}


class Flash(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        config = model.model.language_model.config
        self.fc = linear(len(CONTEXT_TAPS) * config.hidden_size, config.hidden_size)
        self.hidden_norm, self.norm = norm_of(config), norm_of(config)
        self.layers = torch.nn.ModuleList([Layer(config, FLASH_INNER, head_norms=True) for _ in range(FLASH_LAYERS)])
        self.norm.load_state_dict(model.model.language_model.norm.state_dict())

    def blocks(self, seen, anchors, size):
        """States [batch, anchors, size - 1, hidden] of the drafts after the tokens at `anchors` [batch, anchors]."""
        context = self.hidden_norm(self.fc(torch.cat([seen.after[i - 1] for i in CONTEXT_TAPS], -1)))
        batch, count = anchors.shape
        rows = (anchors[:, :, None] + torch.arange(size, device=anchors.device)).flatten(1)
        begin = seen.of_tokens.gather(1, anchors[..., None].expand(-1, -1, seen.of_tokens.shape[-1]))
        x = seen.mask_row.expand(batch, count, size, -1).clone()
        x[:, :, 0] = begin
        x = x.flatten(1, 2)
        rotation = [part[0, rows] for part in (seen.plain_rotations.cos, seen.plain_rotations.sin)]
        unseen = torch.arange(context.shape[1], device=anchors.device) >= anchors[..., None].expand(-1, -1, size).flatten(1)[..., None]
        for layer in self.layers:
            before = layer.input_layernorm(x)
            q, (k, v) = layer.self_attn.queries(before, rotation), layer.self_attn.cells(before, rotation)
            keys, values = layer.self_attn.cells(context, seen.plain_rotations.at(0, context.shape[1]))
            far = (q @ keys.transpose(-1, -2)).masked_fill(unseen[:, None], float("-inf"))
            q, k, v = (part.unflatten(2, (count, size)) for part in (q, k, v))
            near = (q @ k.transpose(-1, -2)).flatten(2, 3)
            shares = (torch.cat([far, near], -1) * q.shape[-1] ** -0.5).softmax(-1)
            of_block = shares[..., context.shape[1]:].unflatten(2, (count, size)) @ v
            x = layer.end(x, shares[..., :context.shape[1]] @ values + of_block.flatten(2, 3))
        return self.norm(x).unflatten(1, (count, size))[:, :, 1:]

    def logits(self, seen, states):
        return F.linear(states, seen.head)

    def own_token(self, tokens):
        return tokens

    def stored(self):
        return self.state_dict()


class Seen:
    """What the model has of sequences ids [batch, length] at positions [3, batch, length], with features of their images or None."""

    def __init__(self, model, ids, positions, features):
        text = model.model.language_model
        table = text.embed_tokens
        self.positions, self.features = positions, features
        self.ids, self.of_tokens, self.head, self.after = ids, table(ids), model.lm_head.weight, []
        self.embedded = self.of_tokens
        if features is not None:
            self.embedded = with_features(self.of_tokens, ids, model.config.image_token_id, features)
        self.states = walked(text, self.embedded, positions, self.after)
        self.mask_row = table.weight[MASK_TOKEN]
        self.rotations = Rotations(text, positions, self.embedded.dtype)
        length = ids.shape[1]
        plain = torch.arange(length + BLOCK, device=ids.device).expand(3, 1, -1)
        self.plain_rotations = Rotations(text, plain, self.embedded.dtype)


LAYER = {"hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False}


def shared_config(config, inner, layers):
    text = config.text_config
    return {"hidden_size": text.hidden_size, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": text.num_attention_heads, "num_key_value_heads": text.num_key_value_heads,
            "head_dim": text.hidden_size // text.num_attention_heads, "rms_norm_eps": text.rms_norm_eps, "vocab_size": text.vocab_size,
            "max_position_embeddings": text.max_position_embeddings, "rope_theta": text.rope_parameters["rope_theta"], **LAYER}


def eagle_config(config):
    """Numbers of layers are those whose output is read."""
    return {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": DRAFT_TOKENS,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [tap - 1 for tap in EAGLE_TAPS], "use_aux_hidden_state": True},
            **shared_config(config, EAGLE_INNER, 1)}


def flash_config(config):
    return {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": BLOCK,
            "num_target_layers": config.text_config.num_hidden_layers,
            "dflash_config": {"mask_token_id": MASK_TOKEN, "target_layer_ids": [tap - 1 for tap in CONTEXT_TAPS]},
            **shared_config(config, FLASH_INNER, FLASH_LAYERS)}
