"""Builds Sluice for the GPU of this machine, tests, checks and times it there, and compares it with PyTorch.

Writes gpu-check.md (a table, of which the sections and bars are printed too), gpu-check.json and gpu-check-logs.tar.gz anew after every
section, so that what was seen is there even when this is ended; running.log is the log of the section in progress. Each section has a
verdict of its own: a failing one never stops the later ones. Exit code 0 only when all sections ran and none failed. What the machine
lacks to build is taken from .gpu-check/, which scripts/gpu-check-prepare fills beforehand on a machine with package registries.
"""
import argparse
import os
import pathlib
import resource
import shutil
import signal
import sys
import time
import traceback

import beside_cudnn
import build
import kernels
import report
import sanitizer
import smoke
import steps
import tests
import warpgroups
from machine import Machine
from result import FAILED, NOT_RUN, SKIPPED, Result, Skipped
from runner import ROOT, Runner

TOTAL_S = 550           # a command of 10 minutes with time to spare for its start and the way back of its files
ENDING_S = 4            # of every section at most, for ending what hangs

# (name, seconds, function), what is most worth knowing first. Later sections need the programs of `build`; they say so when one is missing.
SECTIONS = [
    ("build", 150, build.run),
    ("smoke", 25, smoke.run),
    ("tests", 95, tests.run),
    ("steps", 130, steps.run),
    ("warpgroups", 30, warpgroups.run),
    ("kernels", 45, kernels.run),
    ("ladder", 15, kernels.run_ladder),
    ("epilogues", 10, kernels.run_epilogues),
    ("cudnn", 35, beside_cudnn.run),
    ("sanitizer", 15, sanitizer.run),
]


def parse_arguments():
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT", "gpu-check-out")),
                        help="folder of the results; default $OUT, else ./gpu-check-out")
    parser.add_argument("--section", action="append", choices=[name for name, _, _ in SECTIONS], help="only this one; may be given again")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help=f"of all chosen sections together, default {TOTAL_S}")
    parser.add_argument("--quick", action="store_true", help="fewer cases, rows and steps: whether things run, not how fast")
    parser.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build-gpu"), help="logs go beside it")
    parser.add_argument("--prepared", type=pathlib.Path, default=ROOT / ".gpu-check",
                        help="what gpu-check-prepare filled; default .gpu-check")
    return parser.parse_args()


def ends_of(sections, seconds):
    """{section: (end, its own seconds)}, ends counted from the start. The time is shared out in the ratio of the table and the last end is
    the whole: no section can take what belongs to a later one, and what one leaves over goes to the next."""
    whole = sum(budget for _, budget, _ in sections)
    ends, end = {}, 0
    for name, budget, _ in sections:
        end += budget * seconds / whole
        ends[name] = (end, budget * seconds / whole)
    return ends


def run_section(function, runner, machine, arguments):
    try:
        return function(runner, machine, arguments)
    except Skipped as skipped:
        return Result(SKIPPED, str(skipped))
    except Exception as error:  # noqa: BLE001 (a broken section must not stop the later ones)
        runner.note(traceback.format_exc())
        return Result(FAILED, f"{type(error).__name__}: {error}")


def timed_section(name, function, end, ending_s, machine, arguments, logs):
    began = time.monotonic()
    if began + ending_s >= end:
        return Result(NOT_RUN, "out of time", name=name)
    log = arguments.out / "running.log"
    result = run_section(function, Runner(log, end, ending_s, machine.environment), machine, arguments)
    shutil.move(log, logs / f"{name}.log")
    result.name, result.seconds = name, time.monotonic() - began
    return result


def run(arguments, machine, logs):
    chosen = [section for section in SECTIONS if not arguments.section or section[0] in arguments.section]
    results = {name: Result(NOT_RUN, "not reached", name=name) for name, _, _ in chosen}
    began, ends = time.monotonic(), ends_of(chosen, arguments.seconds)
    for name, _, function in chosen:
        end, own_s = ends[name]
        results[name] = Result(NOT_RUN, "in progress: see running.log", name=name)
        report.write(arguments.out, logs, machine, results.values())
        result = timed_section(name, function, began + end, min(ENDING_S, own_s / 10), machine, arguments, logs)
        results[name] = result
        print(f"{name:10} {result.verdict:8} {result.seconds:6.1f} s  {result.detail}", flush=True)
    report.write(arguments.out, logs, machine, results.values())
    return list(results.values())


def main():
    arguments = parse_arguments()
    arguments.out, arguments.build_dir = arguments.out.resolve(), arguments.build_dir.resolve()
    logs = arguments.build_dir.with_name(arguments.build_dir.name + "-logs")
    for folder in (arguments.out, logs):
        folder.mkdir(parents=True, exist_ok=True)
    for old in logs.glob("*.log"):
        old.unlink()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # as Ctrl-C: what runs is ended first
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))    # of a crash the log says enough, and a core file takes long to write
    machine = Machine(arguments.prepared.resolve())
    print(machine.describe(), flush=True)
    results = run(arguments, machine, logs)
    print("\n" + report.summary(machine, results), flush=True)
    return 1 if any(result.verdict in (FAILED, NOT_RUN) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
