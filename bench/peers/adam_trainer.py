"""Training steps of a PyTorch model under Adam on a CPU: what the peers of language models time. Import it in the tuned process alone."""
import contextlib

import cpu_peer
import torch


class AdamTrainer:
    """`model(*batch)` gives the loss of a mini-batch."""

    def __init__(self, model, batches, arguments):
        self.model, self.batches = model, batches
        self.parameters = sum(p.numel() for p in model.parameters())
        is_fused = arguments.tuning != "default" and int(torch.__version__.split(".")[0]) >= 2
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **({"fused": True} if is_fused else {}))
        self.precision = torch.autocast("cpu", torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
        if arguments.compile:
            model.compile()

    def step(self):
        """Forward, backward and Adam on each mini-batch. Returns the last loss."""
        for batch in self.batches:
            self.optimizer.zero_grad(set_to_none=True)
            with self.precision:
                loss = self.model(*batch)
            loss.backward()
            self.optimizer.step()
        return loss.item()


def train(model, batches, arguments):
    """Says what is trained and answers as cpu_peer.answer."""
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(arguments.tuning != "default")
    trainer = AdamTrainer(model, batches, arguments)
    cpu_peer.say(peer="PyTorch " + torch.__version__, tuning=arguments.tuning, precision=arguments.precision, threads=arguments.threads,
                 batches=[list(batch[0].shape) for batch in batches], parameters=trainer.parameters)
    cpu_peer.answer(trainer.step, arguments)
