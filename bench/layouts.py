#!/usr/bin/env python3
"""Holds what `sluice plan --compare` predicts for CPU ranks against steps over MPI.

    bench/layouts.py build/cli/sluice CONFIG [CONFIG ...] [--ranks 2] [--launcher "mpirun --bind-to none"] [--set KEY=VALUE]

Each layout (one pipeline, the whole model on each rank with and without shards of the optimizer, a mix) is planned with times that are
measured on this machine, and its steps run with one device a rank, in turns over the layouts, so that a disturbed moment hits all alike. A
line a layout has the median step and its prediction, and the bytes that passed between ranks a step, which must be those of the plan: the
program ends with 1 if they are not. A machine with fewer cores than ranks measures nothing.
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
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launcher", default="mpirun --bind-to none")
    parser.add_argument("--turns", type=int, default=3, help="trainings of each layout")
    parser.add_argument("--steps", type=int, default=12, help="of a training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


class Layouts:
    def __init__(self, options, config, folder):
        self.options, self.folder = options, folder
        self.keys = [f'pipeline.devices=["{options.ranks}x cpu"]', "data.kind=synthetic", "train.baseline=false", f"output.dir={folder}", f"output.report={folder}/report.html", *options.set]
        self.config = config

    def settings(self, more=()):
        return [word for key in [*self.keys, *more] for word in ("--set", key)]

    def run(self, command):
        fresh = dict(os.environ, SLUICE_CACHE_DIR=self.folder)  # times that were measured at another moment are of another machine
        done = subprocess.run(command, capture_output=True, text=True, env=fresh)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)}\nanswered {done.returncode}: {done.stderr.strip()}")

    def planned(self):
        answer = os.path.join(self.folder, "plan.json")
        self.run([self.options.program, "plan", self.config, "--compare", "--profile", "--json", answer, *self.settings()])
        with open(answer, encoding="utf-8") as file:
            return [layout for layout in json.load(file)["comparisons"][0]["layouts"] if not layout["refusal"]]

    def step(self, plan):
        """The median step of one training, in ms, and the bytes between ranks: what passed and what was planned."""
        answer = os.path.join(self.folder, "train.json")
        fixed = [f"pipeline.replicas={plan['replicas']}", f"pipeline.shard_optimizer={str(plan['shard_optimizer']).lower()}",
                 f"pipeline.micro_batches={plan['micro_batches']}", f"pipeline.partition={plan['partition']}",
                 f"train.steps={self.options.steps}", f"output.save_every={10**9}"]
        self.run([*shlex.split(self.options.launcher), "-n", str(self.options.ranks), self.options.program, "train", self.config,
                  "--json", answer, *self.settings(fixed)])
        with open(answer, encoding="utf-8") as file:
            result = json.load(file)
        return result["step_ms"]["median"], result["between_ranks"]["step_bytes"], result["between_ranks"]["planned_step_bytes"]

    def compare(self):
        layouts = self.planned()
        seen = {layout["name"]: [] for layout in layouts}
        for _ in range(self.options.turns):
            for layout in layouts:
                seen[layout["name"]].append(self.step(layout["plan"]))
        right = True
        for layout in layouts:
            steps = seen[layout["name"]]
            measured, predicted = statistics.median(step[0] for step in steps), 1e3 * layout["plan"]["step_seconds"]
            came, planned = steps[-1][1], layout["sent_bytes"]
            right = right and all(step[1] == step[2] == planned for step in steps)
            print(f"| {os.path.basename(self.config)} | {layout['name']} | {predicted:.0f} | {measured:.0f} | "
                  f"{100 * (predicted / measured - 1):+.0f} % | {planned:,} | {came:,} |", flush=True)
        return right


def main():
    options = arguments()
    if len(os.sched_getaffinity(0)) < options.ranks:
        sys.exit(f"needs a core a rank, got {len(os.sched_getaffinity(0))} for {options.ranks}: steps would be those of a crowded machine")
    print("| model | layout | predicted ms | measured ms | off | planned bytes | bytes |\n|---|---|---|---|---|---|---|", flush=True)
    right = True
    for config in options.configs:
        with tempfile.TemporaryDirectory() as folder:
            right = Layouts(options, config, folder).compare() and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
