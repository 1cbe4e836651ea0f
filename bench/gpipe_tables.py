#!/usr/bin/env python3
"""Plans the models of GPipe's tables 1 and 2 (arXiv 1811.06965) with `sluice plan` and prints them beside the paper's figures, in Markdown.

usage: bench/gpipe_tables.py SLUICE [memory] [largest] [throughput] [trained]    SLUICE: the program, such as build/cli/sluice; default: all tables

The first three are counted on described devices: nothing is trained, no GPU or TPU is needed. The last one is table 1's claim at a scale that
this machine has: it trains, on CPU devices of 256 MiB. AmoebaNet is trained by RMSProp: 16 bytes a parameter with gradient and states, where the
paper reckons with 12. Transformer-L is trained by SGD with momentum, 12 bytes as in the paper.
"""
import json
import resource
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30

# (layers, filters, devices) of table 1, and the paper's parameters, parameter memory and peak activation memory in GB.
AMOEBANETS = [((18, 208, 1), "82M", 1.05, 6.26), ((18, 416, 1), "318M", 3.8, 3.46), ((18, 544, 2), "542M", 6.45, 8.11),
              ((36, 544, 4), "1.05B", 12.53, 15.21), ((72, 512, 8), "1.8B", 24.62, 26.24)]
TRANSFORMERS = [((3, 1), "282.2M", 3.15, 11.7), ((13, 1), "785.8M", 8.8, 6.4), ((103, 8), "5.3B", 59.5, 50.9),
                ((415, 32), "21.0B", 235.1, 199.9), ((1663, 128), "83.9B", 937.9, 796.1)]
# Normalised throughput of table 2 by (devices, micro-batches).
PAPER = {"amoebanet": {(2, 1): 1, (4, 1): 1.13, (8, 1): 1.38, (2, 4): 1.07, (4, 4): 1.26, (8, 4): 1.72, (2, 32): 1.21, (4, 32): 1.84, (8, 32): 3.48},
         "transformer": {(2, 1): 1, (4, 1): 1.07, (8, 1): 1.3, (2, 4): 1.7, (4, 4): 3.2, (8, 4): 4.8, (2, 32): 1.8, (4, 32): 3.4, (8, 32): 6.3}}


class Planner:
    def __init__(self, program):
        self.program = program

    def run(self, verb, config, *settings):
        """The JSON of a verb, with its seconds and peak MiB of memory."""
        command = [self.program, verb, config, "--json", "-"]
        for setting in settings:
            command += ["--set", setting]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 4):
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        result = json.loads(done.stdout)
        result["seconds"] = time.monotonic() - start
        result["max_rss_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        return result

    def plan(self, config, *settings):
        return self.run("plan", config, *settings)


OPEN = ["pipeline.schedule=auto", "pipeline.virtual_stages=auto", "pipeline.remat=auto", "pipeline.partition=auto"]


def amoebanet(planner, layers, filters, devices, *settings, device="tpuv2"):
    return planner.plan("amoebanet-d-18-208", f"model.layers={layers}", f"model.filters={filters}",
                        f'pipeline.devices="{devices}x {device}"', *settings)


def transformer(planner, layers, devices, *settings, device="tpuv3"):
    return planner.plan("transformer-l", "optimizer.name=sgd", "optimizer.momentum=0.9", f"model.layers={layers}", f'pipeline.devices="{devices}x {device}"', *settings)


def sums(plan):
    states = sum(d["parameter_bytes"] + d["gradient_bytes"] + d["optimizer_bytes"] for d in plan["devices"])
    return states / GIB, sum(d["activation_peak_bytes"] for d in plan["devices"]) / GIB


def memory_row(name, devices, plan, paper):
    states, activations = sums(plan)
    fits = "yes" if plan["fits"] else "no: " + plan["reason"]
    print(f"| {name} | {devices} | {plan['parameters']:,} | {paper[0]} | {states:.2f} | {paper[1]} | {activations:.2f} | {paper[2]} | "
          f"{plan['schedule']}, M {plan['micro_batches']} | {fits} | {plan['seconds']:.1f} s, {plan['max_rss_mib']:.0f} MiB |", flush=True)


def memory_table(planner):
    print("\n| model | devices | parameters | paper | states GiB | paper GB | peak activations GiB | paper GB | plan | fits | planned in |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for (layers, filters, devices), *paper in AMOEBANETS:
        plan = amoebanet(planner, layers, filters, devices, "pipeline.micro_batches=auto", *OPEN)
        memory_row(f"AmoebaNet-D ({layers}, {filters})", devices, plan, paper)
    for (layers, devices), *paper in TRANSFORMERS:
        settings = ["pipeline.micro_batches=32", "pipeline.schedule=1f1b", "pipeline.remat=auto"] if devices > 8 else ["pipeline.micro_batches=auto", *OPEN]
        memory_row(f"Transformer-L {layers}", devices, transformer(planner, layers, devices, *settings), paper)


def largest(fits, low, step):
    """The largest size that fits, in multiples of `step` from `low`, which fits."""
    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
    while high - low > step:
        middle = low + (high - low) // (2 * step) * step
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_table(planner):
    print("\n| devices | paper's largest | largest here |\n|---|---|---|")
    for (layers, filters, devices), *_ in AMOEBANETS[1:]:
        found = largest(lambda d: amoebanet(planner, layers, d, devices, "pipeline.micro_batches=128", "pipeline.schedule=1f1b", "pipeline.remat=auto")["fits"],
                        filters, 16)
        print(f"| {devices} of 8 GiB | AmoebaNet-D ({layers}, {filters}) | ({layers}, {found}) |", flush=True)
    for (layers, devices), *_ in TRANSFORMERS[1:]:
        step = max(1, layers // 50)
        found = largest(lambda n: transformer(planner, n, devices, "pipeline.micro_batches=32", "pipeline.schedule=1f1b", "pipeline.remat=auto")["fits"],
                        layers, step)
        print(f"| {devices} of 16 GiB | Transformer-L {layers} | L {found} (to {step}) |", flush=True)


def samples_per_second(plan_with, micro_batches, start):
    """Of the largest batch that fits, from `start` down, as the paper adjusts it."""
    batch = start
    while batch >= micro_batches:
        plan = plan_with(f"train.batch={batch}", f"pipeline.micro_batches={micro_batches}")
        if plan["fits"]:
            return batch / plan["step_seconds"], plan, batch
        batch //= 2
    return None, None, None


def throughput_table(planner):
    models = {"amoebanet": (lambda k, *s: amoebanet(planner, 18, 256, k, *s, device="tpuv3"), 128),
              "transformer": (lambda k, *s: transformer(planner, 48, k, *s), 32)}
    for name, (plan_of, batch) in models.items():
        alone = max(batch / plan_of(1, f"train.batch={batch}", f"pipeline.micro_batches={m}", "pipeline.remat=none", "pipeline.memory=4000GiB",
                                    "pipeline.schedule=1f1b")["step_seconds"] for m in (1, 4, 32))
        print(f"\n{name}: samples a second against one device with room for all, without rematerialization, at its best M")
        print("| devices | M | paper, to K = 2, M = 1 | gpipe, remat full | to K = 2, M = 1 | auto | bound | auto's plan |\n|---|---|---|---|---|---|---|---|")
        first = None
        for devices in (2, 4, 8):
            for micro_batches in (1, 4, 32):
                with_k = lambda *s: lambda *more: plan_of(devices, *more, *s)
                gpipe, _, _ = samples_per_second(with_k("pipeline.schedule=gpipe", "pipeline.remat=full", "pipeline.partition=auto"), micro_batches, batch)
                auto, plan, size = samples_per_second(with_k(*OPEN), micro_batches, batch)
                first = first or gpipe
                shown = lambda value, unit: f"{value / unit:.2f}" if value and unit else "no batch fits"
                bound = f"{size / plan['bound_seconds'] / alone:.2f}" if plan and plan["bound_seconds"] else ""
                print(f"| {devices} | {micro_batches} | {PAPER[name][devices, micro_batches]} | {shown(gpipe, alone)} | {shown(gpipe, first)} | "
                      f"{shown(auto, alone)} | {bound} | {plan['schedule'] if plan else ''} |", flush=True)


def trained_row(planner, devices, name, *settings):
    """The largest D that a plan says fits, trained for two steps."""
    def small(filters):
        return ["amoebanet-d-18-208", f"model.filters={filters}", "model.image_size=64", "model.classes=100", "train.batch=32", "train.steps=2",
                f'pipeline.devices="{devices}x cpu"', "pipeline.memory=256MiB", "pipeline.partition=auto", *settings]
    filters = largest(lambda d: planner.plan(*small(d))["fits"], 16, 4)
    with tempfile.TemporaryDirectory() as folder:
        run = planner.run("train", *small(filters), f"output.dir={folder}")
    peaks = [device["peak_bytes"] for device in run["devices"]]
    predicted = [device["predicted_peak_bytes"] for device in run["devices"]]
    print(f"| {devices} | {name} | {filters} | {run['parameters']:,} | {16 * run['parameters'] / (1 << 20):.0f} | {max(peaks):,} | "
          f"{'equal' if peaks == predicted else f'not equal: {predicted}'} | {run['step_ms']['median'] / 1e3:.2f} s |", flush=True)


def trained_table(planner):
    print("\nAmoebaNet-D (18, D), 64 px, mini-batches of 32, trained on CPU devices of 256 MiB")
    print("| devices | how | largest D | parameters | states MiB | largest peak, bytes | predicted | step |\n|---|---|---|---|---|---|---|---|")
    trained_row(planner, 1, "whole mini-batch, no rematerialization", "pipeline.micro_batches=1", "pipeline.schedule=gpipe")
    for devices in (1, 2, 4, 8):
        trained_row(planner, devices, "32 micro-batches, remat auto", "pipeline.micro_batches=32", "pipeline.schedule=1f1b", "pipeline.remat=auto")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    planner, tables = Planner(sys.argv[1]), sys.argv[2:]
    known = {"memory": memory_table, "largest": largest_table, "throughput": throughput_table, "trained": trained_table}
    for table in tables or known:
        if table not in known:
            raise SystemExit(f"unknown table '{table}'; known are {', '.join(known)}")
        known[table](planner)


if __name__ == "__main__":
    main()
