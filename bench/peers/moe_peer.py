"""One training step of two layers of experts in PyTorch, timed: the peer that step_bench --model moe is compared with.

The routing is that of layers/mixture_of_experts.h: the likeliest 2 of 8 experts a token, each with room for a share of every sample's
tokens, first choices first. The experts run one after another, each on the tokens that chose it.  Answers as gpt_peer.py does.
"""
import math

import cpu_peer

arguments = cpu_peer.parser(__doc__, batch=8).parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from adam_trainer import train  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

TOKENS, WIDTH, INNER, EXPERTS, CHOSEN, FACTOR = 256, 384, 1536, 8, 2, 1.25
CAPACITY = math.ceil(FACTOR * CHOSEN * TOKENS / EXPERTS)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.into = nn.Parameter(torch.randn(EXPERTS, WIDTH, INNER) / math.sqrt(WIDTH))
        self.out = nn.Parameter(torch.randn(EXPERTS, INNER, WIDTH) / math.sqrt(INNER))

    def forward(self, x):
        """The mixture of x [B, T, WIDTH], and its balance loss."""
        probabilities = F.softmax(self.router(x).float(), dim=-1)
        weights, chosen = probabilities.topk(CHOSEN, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        order = chosen.transpose(1, 2).flatten(1)                                   # first choices of all tokens first
        places = F.one_hot(order, EXPERTS).cumsum(1).gather(2, order[..., None])[..., 0]
        is_kept = places <= CAPACITY
        rows, y = x.flatten(0, 1), torch.zeros_like(x).flatten(0, 1)
        tokens = (torch.arange(len(x))[:, None] * TOKENS + torch.arange(TOKENS).repeat(CHOSEN)).flatten()
        by_choice = weights.transpose(1, 2).flatten()
        for expert in range(EXPERTS):
            taken = ((order == expert) & is_kept).flatten().nonzero()[:, 0]
            found = tokens[taken]
            hidden = F.gelu(rows[found] @ self.into[expert], approximate="tanh")
            y = y.index_add(0, found, (hidden @ self.out[expert] * by_choice[taken, None]).to(y.dtype))
        used = F.one_hot(chosen, EXPERTS).float().mean(dim=(1, 2))
        return y.view_as(x), EXPERTS * (used * probabilities.mean(dim=1)).sum(dim=1).mean()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mixtures = nn.ModuleList(Mixture() for _ in range(2))

    def forward(self, x, target):
        total = 0
        for norm, mixture in zip(self.norms, self.mixtures):
            y, balance = mixture(norm(x))
            x, total = x + y, total + 0.01 * balance
        return F.mse_loss(x, target) + total


torch.manual_seed(0)
train(Model(), [(torch.randn(arguments.batch, TOKENS, WIDTH), torch.randn(arguments.batch, TOKENS, WIDTH))], arguments)
