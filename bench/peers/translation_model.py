"""The encoder-decoder Transformer of the peers, as models/translation.cpp builds it: pre-norm, sinusoidal positions, ReLU, one table of the vocabulary."""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Sizes:
    layers: int             # of the encoder, and of the decoder
    width: int
    heads: int
    inner: int              # of the feed-forward layers
    longest: int            # tokens of a side
    vocabulary: int


SMALL = Sizes(layers=3, width=384, heads=6, inner=1536, longest=128, vocabulary=8192)       # 15.5 M parameters


def split(x, parts, heads):
    """[B, T, parts * width] -> parts tensors [B, heads, T, D]."""
    return x.view(*x.shape[:2], parts, heads, -1).permute(2, 0, 3, 1, 4)


def joined(y):
    return y.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self, sizes, causal):
        super().__init__()
        self.heads, self.causal = sizes.heads, causal
        self.qkv, self.out = nn.Linear(sizes.width, 3 * sizes.width), nn.Linear(sizes.width, sizes.width)

    def forward(self, x, mask):
        q, k, v = split(self.qkv(x), 3, self.heads)
        # Padding is at the end, so that no word of a target sees any: a decoder needs no mask.
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=None if self.causal else mask, is_causal=self.causal)))


class CrossAttention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads = sizes.heads
        self.q, self.kv, self.out = (nn.Linear(sizes.width, n * sizes.width) for n in (1, 2, 1))

    def forward(self, x, memory, mask):
        k, v = split(self.kv(memory), 2, self.heads)
        return self.out(joined(F.scaled_dot_product_attention(split(self.q(x), 1, self.heads)[0], k, v, attn_mask=mask)))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm = nn.LayerNorm(sizes.width)
        self.into, self.out = nn.Linear(sizes.width, sizes.inner), nn.Linear(sizes.inner, sizes.width)

    def forward(self, x):
        return x + self.out(F.relu(self.into(self.norm(x))))


class EncoderLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm, self.attention, self.feed_forward = nn.LayerNorm(sizes.width), SelfAttention(sizes, False), FeedForward(sizes)

    def forward(self, x, mask):
        return self.feed_forward(x + self.attention(self.norm(x), mask))


class DecoderLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(sizes.width), SelfAttention(sizes, True)
        self.cross_norm, self.cross_attention = nn.LayerNorm(sizes.width), CrossAttention(sizes)
        self.feed_forward = FeedForward(sizes)

    def forward(self, x, memory, mask):
        x = x + self.self_attention(self.self_norm(x), None)
        return self.feed_forward(x + self.cross_attention(self.cross_norm(x), memory, mask))


def sinusoids(sizes):
    frequency = torch.exp(torch.arange(0, sizes.width, 2) * (-math.log(10000.0) / sizes.width))
    angles = torch.arange(sizes.longest)[:, None] * frequency
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Translation(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.root = math.sqrt(sizes.width)
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        nn.init.normal_(self.tokens.weight, std=1 / self.root)
        self.register_buffer("positions", sinusoids(sizes))
        self.encoder = nn.ModuleList(EncoderLayer(sizes) for _ in range(sizes.layers))
        self.decoder = nn.ModuleList(DecoderLayer(sizes) for _ in range(sizes.layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)

    def embedded(self, ids):
        return self.tokens(ids) * self.root + self.positions[:ids.shape[1]]

    def forward(self, source, target, labels, mask):
        memory = self.embedded(source)
        for layer in self.encoder:
            memory = layer(memory, mask)
        memory = self.encoder_norm(memory)
        x = self.embedded(target)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        logits = F.linear(self.decoder_norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
