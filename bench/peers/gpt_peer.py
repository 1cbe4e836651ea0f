"""One training step of a GPT-2 style model in PyTorch, timed: the peer that step_bench is compared with.

Prints one JSON line with the parameters, then {"step_ms": [...]}.  With --serve it runs one step for every line on
stdin and answers {"step_ms": x}, so that `run` can alternate it with our program.
"""
import contextlib

import cpu_peer

arguments = cpu_peer.parser(__doc__, batch=8).parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from gpt_model import SMALL, Gpt  # noqa: E402


class Trainer:
    def __init__(self, batch, precision, compiled, fused):
        torch.manual_seed(0)
        self.model = Gpt(SMALL)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        fused = {"fused": True} if fused and int(torch.__version__.split(".")[0]) >= 2 else {}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, **fused)
        self.samples = torch.randint(SMALL.vocabulary, (batch, SMALL.context + 1))
        self.precision = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        if compiled:
            self.model.compile()

    def step(self):
        """Forward, backward and Adam on one mini-batch [B, T]."""
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision:
            loss = self.model(self.samples[:, :-1], self.samples[:, 1:].contiguous())
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    torch.set_num_threads(arguments.threads)
    tuned = arguments.tuning != "default"
    torch.set_flush_denormal(tuned)
    trainer = Trainer(arguments.batch, arguments.precision, arguments.compile, fused=tuned)
    cpu_peer.say(peer="PyTorch " + torch.__version__, tuning=arguments.tuning, precision=arguments.precision,
                 threads=arguments.threads, batch=arguments.batch, parameters=trainer.parameters)
    cpu_peer.answer(trainer.step, arguments)


main()
