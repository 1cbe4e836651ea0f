#!/usr/bin/env python3
"""How much of the exchange between replicas a step waits for.

    bench/overlap.py build/cli/sluice CONFIG [--replicas 2] [--stages 2] [--launcher "mpirun --bind-to none"] [--set KEY=VALUE]

Trains over CPU ranks, one device each, and reads the trace of the last step: from the end of the last work on a micro-batch to the end of the
step, what the device that was last spends on sums, the norm and the optimizer is the exchange's own arithmetic, and the rest is waiting. Ends
with 1 when that is more than --limit of the step (medians over --turns trainings).
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("config")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--launcher", default="mpirun --bind-to none")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=16, help="of a training; from 13 on it predicts by measured times")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


def end(event):
    return event["ts"] + event["dur"]


def waiting(trace):
    """Of a step in a Chrome trace: its seconds, and those of its end that the device which was last spent on nothing."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == 1]
    compute = [event for event in events if event["cat"] == "compute"]
    last = max((event for event in compute if event["args"]["micro_batch"] >= 0), key=end)
    finish = max(end(event) for event in events)
    own = sum(event["dur"] for event in compute if event["tid"] == last["tid"] and event["ts"] >= end(last))
    return (finish - min(event["ts"] for event in events)) / 1e6, (finish - end(last)) / 1e6, own / 1e6


def train(options, folder):
    ranks = options.replicas * options.stages
    keys = [f'pipeline.devices=["{ranks}x cpu"]', f"pipeline.replicas={options.replicas}", "pipeline.threads=1", "data.kind=synthetic",
            "train.baseline=false", f"train.steps={options.steps}", f"output.dir={folder}/run", f"output.report={folder}/report.html",
            f"output.save_every={10**9}", *options.set]
    command = [*shlex.split(options.launcher), "-n", str(ranks), options.program, "train", options.config, "--json", f"{folder}/train.json",
               "--trace", f"{folder}/trace.json", *(word for key in keys for word in ("--set", key))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}\nanswered {done.returncode}: {done.stderr.strip()}")
    with open(f"{folder}/train.json", encoding="utf-8") as file:
        result = json.load(file)
    with open(f"{folder}/trace.json", encoding="utf-8") as file:
        return result["step_ms"], waiting(json.load(file))


def main():
    options = arguments()
    ranks = options.replicas * options.stages
    if len(os.sched_getaffinity(0)) < ranks:
        print(f"{ranks} devices share {len(os.sched_getaffinity(0))} cores: what one waits for, another one may compute")
    seen = []
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as folder:
            seen.append(train(options, folder))
    median = lambda pick: statistics.median(pick(one) for one in seen)
    step, tail, own = (median(lambda one, i=i: one[1][i]) for i in range(3))
    share = median(lambda one: (one[1][1] - one[1][2]) / one[1][0])
    print(f"{options.replicas} replicas of {options.stages} devices: step {1e3 * step:.0f} ms, after the last micro-batch {1e3 * tail:.1f} ms, "
          f"of which own arithmetic {1e3 * own:.1f} ms; waiting {100 * share:.1f} % of the step")
    predicted = [one[0]["predicted"]["measured"] for one in seen]
    if all(predicted):
        off = statistics.median(100 * (one[0]["predicted"]["measured"] / one[0]["median"] - 1) for one in seen)
        print(f"median step {median(lambda one: one[0]['median']):.0f} ms, predicted by measured times {statistics.median(predicted):.0f} ms: {off:+.1f} %")
    return 0 if share <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
