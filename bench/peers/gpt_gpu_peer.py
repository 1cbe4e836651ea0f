"""One training step of GPT-2 124M in PyTorch on a GPU, timed: the peer that step_bench --device cuda:0 is compared with.

With --serve it runs one step for every line on stdin and answers {"step_ms": x}, as `run` asks; without, it prints the median of --steps.
bf16 is autocast over f32 weights, the usual recipe; attention is scaled_dot_product_attention, Adam is the fused one.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import torch
from gpt_model import GPT2, Gpt


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="bf16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5, help="untimed steps before the first; not used by --serve")
    parser.add_argument("--serve", action="store_true", help="one step for every line on stdin")
    return parser.parse_args()


class Trainer:
    def __init__(self, arguments):
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("highest" if arguments.precision == "f32" else "high")
        with torch.device(arguments.device):
            self.model = Gpt(GPT2)
            self.samples = torch.randint(GPT2.vocabulary, (arguments.batch, GPT2.context + 1))
        self.inputs, self.targets = self.samples[:, :-1].contiguous(), self.samples[:, 1:].contiguous()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.autocast = torch.autocast("cuda", torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
        if arguments.compile:
            self.model.compile()

    def step_ms(self):
        """Forward, backward and Adam on one mini-batch [B, T]; the loss's item() waits for the forward pass, the last line for all."""
        begin = time.perf_counter()
        with self.autocast:
            loss = self.model(self.inputs, self.targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss = loss.item()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin)


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    arguments = parse_arguments()
    trainer = Trainer(arguments)
    if arguments.serve:
        for _ in sys.stdin:
            say(step_ms=trainer.step_ms())
        return
    for _ in range(arguments.warmup):
        trainer.step_ms()
    say(peer="PyTorch " + torch.__version__, step_ms=round(statistics.median(trainer.step_ms() for _ in range(arguments.steps)), 2),
        loss=trainer.loss)


main()
