#!/usr/bin/env python3
"""Compiles CUDA kernels for GPU architectures that the build folder's own objects leave out; nothing is linked or run.

usage: kernels_compile.py --architectures 80,100 [--jobs N] SOURCE... -- COMPILER ARGUMENT...
Exit 1 when one fails, after all its messages; 77 when no architecture is left to compile for.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77


def compile_one(source, command, architectures, folder):
    gencode = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in architectures]
    target = pathlib.Path(folder) / (source.replace("/", "_") + ".o")
    done = subprocess.run([*command, *gencode, "-c", source, "-o", str(target)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def main():
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--architectures", required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("sources", nargs="+")
    arguments = parser.parse_args(sys.argv[1:split])
    architectures = [name for name in arguments.architectures.split(",") if name]
    if not architectures:
        print("the build folder compiles for every architecture itself")
        return SKIPPED
    failed = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(compile_one, source, sys.argv[split + 1:], architectures, folder): source for source in arguments.sources}
        for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            code, output = job.result()
            failed += code != 0
            print(f"[{done}/{len(jobs)}] {jobs[job]}: {'failed' if code else 'compiled'} for {', '.join(architectures)}\n{output}", end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
