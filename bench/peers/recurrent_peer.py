"""One training step of an LSTM or a GRU in PyTorch, timed: the peer that step_bench --model lstm and gru are compared with. Answers as gpt_peer.py does."""
import cpu_peer

options = cpu_peer.parser(__doc__, batch=32)
options.add_argument("--layer", choices=["lstm", "gru"], default="lstm")
options.add_argument("--sequence", type=int, default=512, help="items of each sample")
arguments = options.parse_args()
cpu_peer.restart_tuned(arguments)

import torch  # noqa: E402  (after the environment it reads)
from adam_trainer import train  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

WIDTH = 256


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {"lstm": nn.LSTM, "gru": nn.GRU}[arguments.layer](WIDTH, WIDTH, batch_first=True)

    def forward(self, x, target):
        return F.mse_loss(self.layer(x)[0], target)


torch.manual_seed(0)
shape = (arguments.batch, arguments.sequence, WIDTH)
train(Model(), [(torch.randn(shape), torch.randn(shape))], arguments)
