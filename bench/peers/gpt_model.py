"""The language models of the peers: GPT-2 form, pre-norm, learned positions, output head tied to the token embedding, no dropout."""
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Sizes:
    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int


SMALL = Sizes(layers=6, width=384, heads=6, context=256, vocabulary=8192)           # 13.9 M parameters
GPT2 = Sizes(layers=12, width=768, heads=12, context=1024, vocabulary=50257)        # 124.4 M


def causal_attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)      # PyTorch 1.x has no fused attention
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(future, float("-inf")).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width = sizes.width
        self.heads = sizes.heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn_in, self.ffn_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        heads = self.qkv(x).view(*x.shape[:2], 3, self.heads, x.shape[-1] // self.heads).permute(2, 0, 3, 1, 4)   # [3, B, H, T, D]
        y = causal_attention(*heads)
        return self.attention_out(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.ffn_out(F.gelu(self.ffn_in(self.ffn_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(sizes.vocabulary, sizes.width), nn.Embedding(sizes.context, sizes.width)
        self.blocks = nn.Sequential(*[Block(sizes) for _ in range(sizes.layers)])
        self.norm = nn.LayerNorm(sizes.width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
