"""One training step of an encoder-decoder Transformer in PyTorch, timed: the peer that step_bench --model translation is compared with.

It trains on the mini-batches that `step_bench --write-batches` wrote; a step is one on each of them.  Where none of them has padding the
masks are left out, so that PyTorch takes its fastest attention.  With --serve it runs a step for every line on stdin.
"""
import contextlib
import json

import cpu_peer

parser = cpu_peer.parser(__doc__, batch=16)
parser.add_argument("--batches", required=True, help="the file of step_bench --write-batches; it says how many samples a batch has")
arguments = parser.parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from translation_model import SMALL, Translation  # noqa: E402


class Batch:
    """A mini-batch, and a mask of the source's keys [B, 1, 1, S] where some are padding."""

    def __init__(self, written):
        self.source, self.target = torch.tensor(written["source"]), torch.tensor(written["target"])
        self.labels = torch.tensor(written["labels"])
        lengths = torch.tensor(written["source_length"])
        is_padded = bool((lengths < self.source.shape[1]).any())
        self.mask = (torch.arange(self.source.shape[1]) < lengths[:, None])[:, None, None, :] if is_padded else None


class Trainer:
    def __init__(self, batches, precision, compiled, fused):
        torch.manual_seed(0)
        self.model = Translation(SMALL)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        fused = {"fused": True} if fused and int(torch.__version__.split(".")[0]) >= 2 else {}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, **fused)
        self.batches = batches
        self.precision = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()
        if compiled:
            self.model.compile(dynamic=False)

    def step(self):
        """Forward, backward and Adam on each mini-batch."""
        for batch in self.batches:
            self.optimizer.zero_grad(set_to_none=True)
            with self.precision:
                loss = self.model(batch.source, batch.target, batch.labels, batch.mask)
            loss.backward()
            self.optimizer.step()
        return loss.item()


def main():
    torch.set_num_threads(arguments.threads)
    tuned = arguments.tuning != "default"
    torch.set_flush_denormal(tuned)
    with open(arguments.batches) as file:
        batches = [Batch(written) for written in json.load(file)]
    trainer = Trainer(batches, arguments.precision, arguments.compile, fused=tuned)
    cpu_peer.say(peer="PyTorch " + torch.__version__, tuning=arguments.tuning, precision=arguments.precision, threads=arguments.threads,
                 batches=[list(batch.source.shape) for batch in batches], parameters=trainer.parameters)
    cpu_peer.answer(trainer.step, arguments)


main()
