"""The demo model's shape, and its forward pass for training: transformers' Qwen2.5-VL modules, walked in the one way that repeats fast.

transformers' own forward asks the device for sizes many times a step and attends image by image. In training every batch of a group has
the same sizes, so all that depends on them (window masks, rotations) is made once and a whole step can be recorded as a CUDA graph.
`check` holds this walk to transformers' forward.
"""

import torch
import torch.nn.functional as F
from pictures import COLOURS, MARKS
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

PATCH, MERGE, TEMPORAL, WINDOW = 14, 2, 2, 112
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
VOCAB = 4096


def configuration(tokens):
    """tokens: ids of the special tokens by name."""
    vision = dict(depth=4, hidden_size=192, intermediate_size=480, num_heads=6, out_hidden_size=256, patch_size=PATCH, in_channels=3,
                  spatial_merge_size=MERGE, temporal_patch_size=TEMPORAL, window_size=WINDOW, fullatt_block_indexes=[1, 3],
                  tokens_per_second=2)
    text = dict(vocab_size=VOCAB, hidden_size=256, intermediate_size=576, num_hidden_layers=6, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=4096, rms_norm_eps=1e-6, tie_word_embeddings=True,
                bos_token_id=tokens["<|endoftext|>"], eos_token_id=tokens["<|im_end|>"], pad_token_id=tokens["<|endoftext|>"],
                rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[8, 12, 12]))
    return Qwen2_5_VLConfig(vision_config=vision, text_config=text, tie_word_embeddings=True,
                            image_token_id=tokens["<|image_pad|>"], video_token_id=tokens["<|video_pad|>"],
                            vision_start_token_id=tokens["<|vision_start|>"], vision_end_token_id=tokens["<|vision_end|>"])


def new_model(tokens, seed):
    torch.manual_seed(seed)
    return Qwen2_5_VLForConditionalGeneration(configuration(tokens))


class Marker(torch.nn.Module):
    """Says of each patch which shape or digit has its centre there, and of which colour; trained with the tower and then thrown away.
    Answers alone tell a tower little: a few words for a whole picture. This tells it in every patch of every picture what it should have
    seen there, and where, which is what counts, places and comparisons are made of."""

    NOTHING_WEIGHT = 0.1  # of patches with nothing in them, which are most

    def __init__(self, width):
        super().__init__()
        self.mark, self.colour = torch.nn.Linear(width, MARKS + 1), torch.nn.Linear(width, len(COLOURS) + 1)
        for name, count in (("mark_weights", MARKS), ("colour_weights", len(COLOURS))):
            self.register_buffer(name, torch.tensor([1.0] * count + [self.NOTHING_WEIGHT]))

    def loss(self, seen, marks, colours):
        """seen: [pictures, patches, width]; marks, colours: [pictures, patches]"""
        return (F.cross_entropy(self.mark(seen).float().flatten(0, 1), marks.flatten(), self.mark_weights)
                + F.cross_entropy(self.colour(seen).float().flatten(0, 1), colours.flatten(), self.colour_weights))


def positions_of(ids, image_token, grid):
    """Qwen2-VL's three positions [3][length] of a sequence whose pictures all have `grid` (patch rows, columns)."""
    rows, columns = grid[0] // MERGE, grid[1] // MERGE
    positions, at, i = [], 0, 0
    while i < len(ids):
        if ids[i] == image_token:
            positions += [(at, at + y, at + x) for y in range(rows) for x in range(columns)]
            at += max(rows, columns)
            i += rows * columns
        else:
            positions.append((at, at, at))
            at += 1
            i += 1
    return list(zip(*positions))


def normed(norm, x):
    """What transformers' RMSNorm computes, in one call."""
    return F.rms_norm(x, norm.weight.shape, norm.weight, norm.variance_epsilon)


def turned(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Tower:
    """The vision tower over a batch of pictures of one size."""

    def __init__(self, model, grid, device):
        self.visual, self.grid = model.model.visual, grid
        config = model.config.vision_config
        self.heads = config.num_heads
        rows, columns = grid
        blocks = torch.arange(rows * columns).view(rows // MERGE, MERGE, columns // MERGE, MERGE).permute(0, 2, 1, 3).flatten()
        self.order = blocks.to(device)  # which patch of the picture, row by row, stands at each place
        y, x = blocks // columns, blocks % columns
        size = config.hidden_size // config.num_heads
        inverse = 1 / (10000.0 ** (torch.arange(0, size // 2, 2).float() / (size // 2)))
        angles = torch.cat((y[:, None] * inverse, x[:, None] * inverse), -1).repeat(1, 2).to(device)
        self.cos, self.sin = angles.cos(), angles.sin()
        side = WINDOW // PATCH
        window = (y // side) * columns + x // side
        self.mask = (window[:, None] == window[None, :]).to(device)
        self.scale = torch.tensor([1 / (255 * std) for std in STD], device=device)
        self.shift = torch.tensor([mean / std for mean, std in zip(MEAN, STD)], device=device)

    def patches(self, pictures, times=TEMPORAL):
        """[pictures, height, width, 3] of 0..255 to [pictures, patches, 3 * times * 14 * 14], as the processor orders them."""
        rows, columns = self.grid
        x = pictures.float() * self.scale - self.shift
        x = x.view(-1, rows // MERGE, MERGE, PATCH, columns // MERGE, MERGE, PATCH, 3).permute(0, 1, 4, 2, 5, 7, 3, 6)
        x = x.reshape(x.shape[0], rows * columns, 3, 1, PATCH, PATCH)
        return x.expand(-1, -1, -1, times, -1, -1).flatten(2)

    def __call__(self, pictures):
        """([pictures, rows * columns / 4, hidden of the text], the patches that these were made of)"""
        weight = self.visual.patch_embed.proj.weight
        return self.walk(F.linear(self.patches(pictures, 1), weight.sum(2).flatten(1)))  # both moments show the same

    def videos(self, frames):
        """[videos, frames, height, width, 3], an even number of frames, to [videos, frames / 2 * rows * columns / 4, hidden of the text]"""
        weight, pairs = self.visual.patch_embed.proj.weight, frames.flatten(0, 1).unflatten(0, (-1, TEMPORAL)).unbind(1)
        x = sum(F.linear(self.patches(moment, 1), weight[:, :, i].flatten(1)) for i, moment in enumerate(pairs))
        return self.walk(x)[0].reshape(frames.shape[0], -1, self.visual.config.out_hidden_size)

    def walk(self, x):
        visual = self.visual
        for layer, block in enumerate(visual.blocks):
            qkv = block.attn.qkv(normed(block.norm1, x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(qkv[0], self.cos, self.sin).to(qkv.dtype), turned(qkv[1], self.cos, self.sin).to(qkv.dtype)
            mask = None if layer in visual.fullatt_block_indexes else self.mask
            attended = F.scaled_dot_product_attention(q, k, qkv[2], attn_mask=mask)
            x = x + block.attn.proj(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(normed(block.norm2, x))
        x = normed(visual.merger.ln_q, x)
        return visual.merger.mlp(x.unflatten(1, (-1, MERGE * MERGE)).flatten(2)), x


def walked(text, x, positions, after=None):
    """What the head makes logits of, of embeddings x [batch, length, hidden] at positions [3, batch, length]. The list `after` gets the
    residual after each layer."""
    cos, sin = text.rotary_emb(x, positions)
    cos, sin = cos[:, None], sin[:, None]
    for layer in text.layers:
        attention, before = layer.self_attn, normed(layer.input_layernorm, x)
        q, k, v = (projection(before).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
                   for projection in (attention.q_proj, attention.k_proj, attention.v_proj))
        q, k = turned(q, cos, sin).to(v.dtype), turned(k, cos, sin).to(v.dtype)
        k, v = (part.repeat_interleave(attention.num_key_value_groups, 1) for part in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + attention.o_proj(attended.transpose(1, 2).flatten(2))
        x = x + layer.mlp(normed(layer.post_attention_layernorm, x))
        if after is not None:
            after.append(x)
    return normed(text.norm, x)


def with_features(x, ids, image_token, features):
    """Embeddings x of ids, with the rows of image tokens replaced by features in order."""
    features = features.flatten(0, -2).to(x.dtype)
    there = ids == image_token
    place = (there.flatten().cumsum(0) - 1).clamp(min=0, max=features.shape[0] - 1)
    return torch.where(there[..., None], features[place].view_as(x), x)


def hidden_of(model, tower, ids, positions, pictures):
    """ids [batch, length], positions [3, batch, length], pictures [batch * pictures of each, height, width, 3] or None.
    (what the head makes logits of [batch, length, hidden], the tower's patches [pictures, patches, width] or None)"""
    text = model.model.language_model
    x, seen = text.embed_tokens(ids), None
    if pictures is not None:
        features, seen = tower(pictures)
        x = with_features(x, ids, model.config.image_token_id, features)
    return walked(text, x, positions), seen


def logits_of(model, tower, ids, positions, pictures):
    return model.lm_head(hidden_of(model, tower, ids, positions, pictures)[0])


@torch.no_grad()
def check(model, ids, positions, pictures, grid):
    """The largest difference of logits between this walk and transformers' forward, of one sequence, as a share of the largest logit."""
    tower = Tower(model, grid, ids.device)
    ours = logits_of(model, tower, ids, positions, pictures)
    patches = tower.patches(pictures).flatten(0, 1)
    sizes = torch.tensor([[1, *grid]] * pictures.shape[0], device=ids.device)
    types = (ids == model.config.image_token_id).int()
    theirs = model(input_ids=ids, pixel_values=patches, image_grid_thw=sizes, mm_token_type_ids=types).logits
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()
