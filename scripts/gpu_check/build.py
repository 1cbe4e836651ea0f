"""Section build: a release build for the one GPU that is here, of the programs that the other sections run."""
import os

from result import FAILED, PASSED, Result, Skipped, sentence
from runner import first_error

# What most sections need comes first: were the time to run out, they could still run.
PROGRAMS = [["bench/step_bench", "bench/op_bench", "tests/ops/test_ops"],
            ["tests/test_parallel", "tests/test_core", "tests/test_training", "bench/ladder/ladder_bench", "bench/epilogue_bench"]]


def run(runner, machine, arguments):
    if not machine.cuda:
        raise Skipped("no nvcc on the PATH or in /usr/local/cuda: install the CUDA toolkit, or add its bin folder to the PATH")
    if not machine.tool("meson"):
        raise Skipped("no meson here and no .gpu-check folder: run scripts/gpu-check-prepare beforehand and carry that folder")
    options = ["--buildtype=release", "-Dcuda=enabled", f"-Dgpu_arch={machine.architecture}", "-Dtests=enabled", "-Dbench=enabled"]
    known = ["--reconfigure"] if (arguments.build_dir / "build.ninja").exists() else []
    configured = runner.run(["meson", "setup", *known, arguments.build_dir, *options])
    if configured.code != 0:
        return Result(FAILED, f"Meson {configured.ending}: {first_error(configured.output)}")
    troubles = []
    for programs in PROGRAMS:
        built = runner.run(["ninja", "-C", arguments.build_dir, f"-j{os.cpu_count()}", "-k0", *programs])
        if built.code != 0:
            troubles.append(f"ninja {built.ending}: {first_error(built.output)}")
    wanted = [program for programs in PROGRAMS for program in programs]
    missing = [program for program in wanted if not (arguments.build_dir / program).exists()]
    if not troubles and not missing:
        return Result(PASSED, f"{len(wanted)} programs for sm_{machine.architecture}")
    return Result(FAILED, sentence(*troubles, f"missing: {', '.join(missing) or 'nothing, but some may be old'}"))


def program(machine, arguments, name):
    """The path of a built program, for a section that needs a GPU too."""
    if not machine.gpu:
        raise Skipped("no GPU: nvidia-smi names none")
    path = arguments.build_dir / name
    if not path.exists():
        raise Skipped(f"{name} is not built")
    return path
