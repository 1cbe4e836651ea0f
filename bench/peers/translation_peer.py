"""One training step of an encoder-decoder Transformer in PyTorch, timed: the peer that step_bench --model translation is compared with.

It trains on the mini-batches that `step_bench --write-batches` wrote; a step is one on each of them.  Where none of them has padding the
masks are left out, so that PyTorch takes its fastest attention.  With --serve it runs a step for every line on stdin.
"""
import json

import cpu_peer

parser = cpu_peer.parser(__doc__, batch=16)
parser.add_argument("--batches", required=True, help="the file of step_bench --write-batches; it says how many samples a batch has")
arguments = parser.parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from adam_trainer import train  # noqa: E402
from translation_model import SMALL, Translation  # noqa: E402


def tensors(written):
    """A mini-batch: source, target, labels, and a mask of the source's keys [B, 1, 1, S], or None where no key is padding."""
    source, target, labels, lengths = (torch.tensor(written[name]) for name in ("source", "target", "labels", "source_length"))
    mask = (torch.arange(source.shape[1]) < lengths[:, None])[:, None, None, :]
    return source, target, labels, None if mask.all() else mask


torch.manual_seed(0)
with open(arguments.batches) as file:
    batches = [tensors(written) for written in json.load(file)]
train(Translation(SMALL), batches, arguments)
