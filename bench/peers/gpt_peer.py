"""One training step of a GPT-2 style model in PyTorch, timed: the peer that step_bench is compared with.

Prints one JSON line with the parameters, then {"step_ms": [...]}.  With --serve it runs one step for every line on
stdin and answers {"step_ms": x}, so that `run` can alternate it with our program.
"""
import argparse
import contextlib
import json
import os
import pathlib
import sys
import time


def tuned_environment(threads, tuning):
    """What makes PyTorch fast on a CPU; all of it is read before main, so it must be set before Python starts."""
    environment = {
        "MALLOC_MMAP_MAX_": "0",                    # keep freed memory: fresh pages cost more than the arithmetic on them
        "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
        "OPENBLAS_CORETYPE": "SKYLAKEX",            # builds with OpenBLAS, such as Debian's
        "OPENBLAS_NUM_THREADS": str(threads),
        "ATEN_CPU_CAPABILITY": "avx512",
        "PEER_TUNED": "1",
    }
    mkl_as_on_intel = pathlib.Path(sys.prefix) / "lib" / "mkl_as_on_intel.so"
    if tuning == "tuned" and mkl_as_on_intel.exists():  # beyond what PyTorch's own settings reach: MKL's AVX-512 kernels on every maker's processor
        environment["LD_PRELOAD"] = str(mkl_as_on_intel)
    if threads > 1:
        environment["OMP_WAIT_POLICY"] = "passive"
    return environment


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before the first; not used by --serve")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16 is autocast: weights stay f32")
    parser.add_argument("--tuning", choices=["tuned", "settings", "default"], default="tuned",
                        help="settings: all but the library that makes MKL take an AMD processor for Intel's")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (needs a C++ compiler)")
    parser.add_argument("--serve", action="store_true", help="one step for every line on stdin")
    return parser.parse_args()


arguments = parse_arguments()
if arguments.tuning != "default" and "PEER_TUNED" not in os.environ:
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **tuned_environment(arguments.threads, arguments.tuning)})

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

    def step_ms(self):
        """Forward, backward and Adam on one mini-batch [B, T]."""
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision:
            loss = self.model(self.samples[:, :-1], self.samples[:, 1:].contiguous())
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()
        return 1e3 * (time.perf_counter() - begin)


def say(**fields):
    print(json.dumps(fields), flush=True)


def main():
    torch.set_num_threads(arguments.threads)
    tuned = arguments.tuning != "default"
    torch.set_flush_denormal(tuned)
    trainer = Trainer(arguments.batch, arguments.precision, arguments.compile, fused=tuned)
    say(peer="PyTorch " + torch.__version__, tuning=arguments.tuning, precision=arguments.precision,
        threads=arguments.threads, batch=arguments.batch, parameters=trainer.parameters)
    if arguments.serve:
        for _ in sys.stdin:
            say(step_ms=trainer.step_ms())
        return
    for _ in range(arguments.warmup):
        trainer.step_ms()
    say(step_ms=[round(trainer.step_ms(), 2) for _ in range(arguments.steps)], loss=trainer.loss)


main()
