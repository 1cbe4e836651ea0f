#!/usr/bin/env python3
"""GPipe's translation models (arXiv 1811.06965, section 5 and table 2) as plans: nothing is trained.

    bench/translation_plans.py build/cli/sluice [--device tpuv3] [--precision bf16]

Prints two tables in Markdown. The first has the bytes of the fullest of K devices, for the paper's five sizes, with a micro-batch of one
sample and all activations recomputed. The second has the speed of T(24, 8192, 16), 48 layers, in micro-batches of 8 samples, over that with
K = 2 and M = 1, and in brackets what the paper measured of its Transformer-48.
"""
import argparse
import json
import subprocess
import sys

SIZES = {"t-6-8192-16": "T(6, 8192, 16)", "t-24-8192-16": "T(24, 8192, 16)", "t-12-16384-32": "T(12, 16384, 32)",
         "t-32-16384-32": "T(32, 16384, 32)", "t-64-16384-32": "T(64, 16384, 32)"}
DEVICES = (2, 4, 8, 16)
# Table 2 of the paper, Transformer-48: by M, then K = 2, 4, 8.
PAPER = {1: (1, 1.07, 1.3), 4: (1.7, 3.2, 4.8), 32: (1.8, 3.4, 6.3)}


def plan(options, config, devices, **keys):
    keys = {"pipeline.devices": f'"{devices}x {options.device}"', "train.precision": options.precision, "pipeline.schedule": "gpipe",
            "pipeline.remat": "full", "pipeline.memory": 0, **keys}
    command = [options.program, "plan", config, "--json", "-", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 4):  # 4: the devices are too small, which the answer says, too
        sys.exit(f"{' '.join(command)}\nanswered {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def bytes_table(options):
    print("| model | parameters | " + " | ".join(f"K = {devices}" for devices in DEVICES) + " |")
    print("|---" * (len(DEVICES) + 2) + "|")
    for config, name in SIZES.items():
        plans = [plan(options, config, devices, **{"train.batch": 32, "pipeline.micro_batches": 32}) for devices in DEVICES]
        cells = [f"{max(device['peak_bytes'] for device in answer['devices']) / 2**30:.2f} GiB{'' if answer['fits'] else ', does not fit'}" for answer in plans]
        print(f"| {name} | {plans[0]['parameters']:,} | " + " | ".join(cells) + " |")


def speed_table(options):
    print("| | " + " | ".join(f"K = {devices}" for devices in DEVICES[:3]) + " |")
    print("|---" * 4 + "|")
    speed = {}  # samples a second
    for micro_batches, paper in PAPER.items():
        for devices in DEVICES[:3]:
            samples = 8 * micro_batches
            answer = plan(options, "t-24-8192-16", devices, **{"train.batch": samples, "pipeline.micro_batches": micro_batches})
            speed[micro_batches, devices] = samples / answer["step_seconds"] if answer["fits"] else 0
        cells = (f"{speed[micro_batches, devices] / speed[1, 2]:.2f} ({measured})" for devices, measured in zip(DEVICES, paper))
        print(f"| M = {micro_batches} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--device", default="tpuv3")
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()
    bytes_table(options)
    print()
    speed_table(options)


if __name__ == "__main__":
    main()
