"""One training step of AmoebaNet in PyTorch, timed: the peer that step_bench --model amoebanet is compared with.

Images are channels_last, the optimizer is fused SGD. With --stages 2 the step runs under torchgpipe over so many CPU stages, a thread
each, with --micro-batches chunks.  Answers as gpt_peer.py does.
"""
import contextlib
import warnings

import cpu_peer

parser = cpu_peer.parser(__doc__, batch=32)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--filters", type=int, default=64)
parser.add_argument("--image-size", type=int, default=64)
parser.add_argument("--layout", choices=["channels_last", "contiguous"], default="channels_last", help="of images in memory")
parser.add_argument("--exact", action="store_true", help="TensorFlow's padding in strided convolutions, which costs a pass")
parser.add_argument("--stages", type=int, default=1, help="2: torchgpipe; stages balanced by their measured times")
parser.add_argument("--micro-batches", type=int, default=8, help="chunks of torchgpipe")
arguments = parser.parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from amoebanet_model import amoebanet  # noqa: E402
from torch import nn  # noqa: E402

CLASSES = 10


def pipelined(model, images):
    """The model under torchgpipe, cut by the times that it measures."""
    warnings.filterwarnings("ignore", category=UserWarning)
    from torchgpipe import GPipe
    from torchgpipe.balance import balance_by_time
    balance = balance_by_time(arguments.stages, model, images[: max(1, len(images) // arguments.micro_batches)], timeout=1.0,
                              device=torch.device("cpu"))
    cpu_peer.say(torchgpipe_balance=list(balance))
    return GPipe(model, balance, devices=["cpu"] * arguments.stages, chunks=arguments.micro_batches, checkpoint="never")


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        layout = getattr(torch, "channels_last" if arguments.layout == "channels_last" else "contiguous_format")
        size = arguments.image_size
        self.images = torch.randn(arguments.batch, 3, size, size).contiguous(memory_format=layout)
        self.labels = torch.randint(CLASSES, (arguments.batch,))
        self.model = amoebanet("d", arguments.layers, arguments.filters, CLASSES, arguments.exact).to(memory_format=layout)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        if arguments.stages > 1:
            self.model = pipelined(self.model, self.images)
        fused = {"fused": True} if arguments.tuning != "default" and int(torch.__version__.split(".")[0]) >= 2 else {}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, **fused)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.precision = torch.autocast("cpu", torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
        if arguments.compile:
            self.model.compile()

    def step(self):
        """Forward, backward and SGD on one mini-batch."""
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision:
            loss = self.loss(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(arguments.tuning != "default")
    trainer = Trainer()
    cpu_peer.say(peer="PyTorch " + torch.__version__, tuning=arguments.tuning, precision=arguments.precision, threads=arguments.threads,
                 batch=arguments.batch, stages=arguments.stages, layout=arguments.layout, parameters=trainer.parameters)
    cpu_peer.answer(trainer.step, arguments)


main()
