#!/usr/bin/env python3
"""Trains for many tiny steps over four ranks: no rank's memory or number of open files may grow after the first tenth.

usage: soak.py openmpi|mpich PROGRAM [STEPS]      100,000 where it is not said; prints a line for each rank; exit 1 when one grows
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

STEPS = int(sys.argv.pop(3)) if len(sys.argv) > 3 else 100_000

from job_test import PROGRAM, RANKS, SMALL, Launch, processes_of, sets

MOST_GROWTH = 0.01
SAMPLES = 50


def look(process):
    """Bytes of memory of its own share (PSS), and open files. A rank over shared memory has no fixed part of it in its RSS."""
    text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(re.search(r"^Pss: +(\d+) kB", text, re.M)[1]) * 1024, len(os.listdir(f"/proc/{process}/fd"))


def train(folder):
    """{rank: [(bytes, files)]}, at steps that are equally far apart."""
    keys = dict(SMALL, output__dir=folder / "run", pipeline__devices=f'"{RANKS}x cpu"', train__steps=STEPS, output__save_every=STEPS // 20)
    launch = Launch(folder, [PROGRAM, "train", "tiny", *sets(**keys)], limit=24 * 3600)
    samples, done = {rank: [] for rank in range(RANKS)}, 0
    try:
        while line := launch.process.stdout.readline():
            step = re.match(r"step (\d+)/", line)
            if not step or int(step[1]) < done * STEPS / SAMPLES or int(step[1]) > STEPS * 0.98:
                continue
            done = int(step[1]) * SAMPLES // STEPS + 1
            for rank, process in processes_of(folder).items():
                if rank >= 0:
                    samples[rank].append(look(process))
        if launch.process.wait() != 0:
            sys.exit(f"soak: needed a training that ends well, got {launch.process.returncode} and:\n{launch.process.stderr.read()}")
        return samples
    finally:
        launch.kill()


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-soak-"))
    try:
        samples = train(folder)
    finally:
        shutil.rmtree(folder)
    grown = False
    for rank, row in samples.items():
        (first, files), (last, _) = row[len(row) // 10], row[-1]
        growth, descriptors = last / first - 1, sorted({count for _, count in row[len(row) // 10:]})
        print(f"rank {rank}: {STEPS} steps, {len(row)} looks, {first / 2**20:.2f} MiB after the first tenth, {last / 2**20:.2f} MiB at the end "
              f"({growth:+.2%}), {descriptors} open files")
        grown |= growth > MOST_GROWTH or row[-1][1] > files
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
