"""Builds Sluice for the GPU of this machine, tests, checks and times it there, and compares it with PyTorch.

Writes gpu-check.md (the table, also printed), gpu-check.json and one log a section. Each section has a time budget and a verdict of its
own: a failing one never stops the later ones. Exit code 0 only when no section failed. What the machine lacks to build is taken from
.gpu-check/, which scripts/gpu-check-prepare fills beforehand on a machine with package registries.
"""
import argparse
import os
import pathlib
import sys
import time
import traceback

import beside_cudnn
import build
import kernels
import report
import sanitizer
import steps
import tests
from machine import Machine
from result import Result, Skipped
from runner import Runner

TOTAL_S = 530

# (name, most seconds, function). Later sections need the programs of `build`; they say so when one is missing.
SECTIONS = [
    ("build", 200, build.run),
    ("tests", 90, tests.run),
    ("sanitizer", 60, sanitizer.run),
    ("kernels", 80, kernels.run),
    ("ladder", 30, kernels.run_ladder),
    ("cudnn", 60, beside_cudnn.run),
    ("steps", 110, steps.run),
]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT", "gpu-check-out")),
                        help="folder of the results; default $OUT, else ./gpu-check-out")
    parser.add_argument("--section", action="append", choices=[name for name, _, _ in SECTIONS], help="only this one; may be given again")
    parser.add_argument("--quick", action="store_true", help="fewer cases, rows and steps: whether things run, not how fast")
    parser.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build-gpu"))
    return parser.parse_args()


def run_section(name, budget_s, function, machine, arguments, end):
    began = time.monotonic()
    runner = Runner(log=arguments.out / f"{name}.log", end=min(end, began + budget_s), environment=machine.environment)
    try:
        result = function(runner, machine, arguments)
    except Skipped as skipped:
        result = Result("skipped", str(skipped))
    except Exception as error:  # noqa: BLE001 (a broken section must not stop the later ones)
        runner.note(traceback.format_exc())
        result = Result("failed", f"{type(error).__name__}: {error}")
    result.name, result.seconds = name, time.monotonic() - began
    print(f"{name:10} {result.verdict:8} {result.seconds:6.1f} s  {result.detail}", flush=True)
    return result


def main():
    arguments = parse_arguments()
    arguments.out, arguments.build_dir = arguments.out.resolve(), arguments.build_dir.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    machine = Machine()
    print(machine.describe(), flush=True)
    end = time.monotonic() + TOTAL_S
    results = [run_section(name, budget_s, function, machine, arguments, end)
               for name, budget_s, function in SECTIONS if not arguments.section or name in arguments.section]
    report.write(arguments.out, machine, results)
    return 1 if any(result.verdict == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
