#!/usr/bin/env python3
"""Trains over a line of some latency between two hosts, which are network namespaces of this machine, and compares the time of a step with what
the planner says of such a line. Needs root.

usage: bench/delay_line.py openmpi|mpich PROGRAM [--milliseconds 1] [--repetitions 3] [--steps 60] [--schedules gpipe,1f1b,auto]
       [--json FILE] [--set table.key=value]...

The line carries packets between two TUN devices through this program, which holds each one back. Prints, for gpipe, 1f1b and the plan of
`pipeline.schedule = "auto"`, the measured step over a veth and over the line, and both as predicted with measured costs.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "cluster"))
import two_hosts

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TERM": "dumb"}
# Little work a micro-batch and small activations: latency shows best.
MODEL = ["train.batch=16", "pipeline.micro_batches=8", "model.layers=6", "model.dim=64", "model.dropout=0"]


class Trials:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def link(self, name, latency, bandwidth):
        file = self.folder / f"{name}.toml"
        file.write_text(f'[link]\nname = "{name}"\nbytes_per_second = {bandwidth:.6g}\nlatency_seconds = {latency:.6g}\n')
        return file

    def sets(self, schedule, link):
        keys = [*MODEL, 'pipeline.devices="2x cpu"', f"pipeline.schedule={schedule}", f"pipeline.link={link}", "pipeline.costs=measured",
                f"output.dir={self.folder}/run", *self.arguments.set]
        return [word for key in keys for word in ("--set", key)]

    def predicted(self, schedule, link):
        done = subprocess.run([self.arguments.program, "plan", "tiny", "--json", "-", *self.sets(schedule, link)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["step_seconds"]

    def measured(self, hosts, schedule, link):
        """The JSON of a training."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        result = self.folder / "result.json"
        done = subprocess.run(list(map(str, [*hosts.launcher(self.arguments.launcher, 2), self.arguments.program, "train", "tiny", "--json", result,
                                             *self.sets(schedule, link), "--set", f"train.steps={self.arguments.steps}"])),
                              capture_output=True, text=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL, timeout=300)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return json.loads(result.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("launcher", choices=("openmpi", "mpich"))
    parser.add_argument("program", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--milliseconds", type=float, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--schedules", default="gpipe,1f1b,auto", type=lambda text: text.split(","))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    if reason := two_hosts.why_not():
        print(reason)
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-line-"))
    near = far = None
    try:
        near, far = two_hosts.TwoHosts(), two_hosts.TwoHosts(arguments.milliseconds * 1e-3)
        trials = Trials(arguments, folder)
        links = {}
        for name, hosts in ("veth", near), ("line", far):
            latency, bandwidth = two_hosts.measured_link(hosts)
            print(f"{name}: {latency * 1e3:.3f} ms one way, {bandwidth / 1e9:.3f} GB/s")
            links[name] = trials.link(name, latency, bandwidth)
        schedules = arguments.schedules
        # In turns, so that a disturbed moment hits all alike. The plan of "auto" is that for the line in both.
        steps = collections.defaultdict(list)
        for _ in range(arguments.repetitions):
            for schedule in schedules:
                for name, hosts in ("veth", near), ("line", far):
                    steps[schedule, name].append(trials.measured(hosts, schedule, links["line" if schedule == "auto" else name])["step_ms"]["median"])
        rows = []
        for schedule in schedules:
            measured = {name: min(steps[schedule, name]) for name in links}
            predicted = {name: trials.predicted(schedule, links[name]) * 1e3 for name in links}
            added, foreseen = measured["line"] - measured["veth"], predicted["line"] - predicted["veth"]
            rows.append(dict(schedule=schedule, measured=measured, predicted=predicted, all=[steps[schedule, name] for name in links]))
            print(f"{schedule:6} measured {measured['veth']:7.2f} -> {measured['line']:7.2f} ms ({added:+.2f})   "
                  f"predicted {predicted['veth']:7.2f} -> {predicted['line']:7.2f} ms ({foreseen:+.2f})   "
                  f"{100 * (measured['line'] / predicted['line'] - 1):+.1f} % of the step over the line")
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=2))
    finally:
        for hosts in near, far:
            if hosts:
                hosts.end()
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
