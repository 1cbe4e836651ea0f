"""One training step of a GPT-2 style model in PyTorch, timed: the peer that step_bench is compared with.

Prints one JSON line with the parameters, then {"step_ms": [...]}.  With --serve it runs one step for every line on
stdin and answers {"step_ms": x}, so that `run` can alternate it with our program.
"""
import cpu_peer

arguments = cpu_peer.parser(__doc__, batch=8).parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from adam_trainer import train  # noqa: E402
from gpt_model import SMALL, Gpt  # noqa: E402

torch.manual_seed(0)
model = Gpt(SMALL)
samples = torch.randint(SMALL.vocabulary, (arguments.batch, SMALL.context + 1))
train(model, [(samples[:, :-1], samples[:, 1:].contiguous())], arguments)
