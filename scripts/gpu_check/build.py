"""Section build: a release build for the one GPU that is here, of the programs that the other sections run."""
import os

from result import Result, Skipped
from runner import last_line

PROGRAMS = ["tests/ops/test_ops", "tests/test_parallel", "bench/op_bench", "bench/ladder/ladder_bench", "bench/step_bench"]


def run(runner, machine, arguments):
    if not machine.cuda:
        raise Skipped("no nvcc on the PATH or in /usr/local/cuda")
    if not machine.tool("meson"):
        raise Skipped("no meson here and no .gpu-check folder: run scripts/gpu-check-prepare beforehand and carry that folder")
    options = ["--buildtype=release", "-Dcuda=enabled", f"-Dgpu_arch={machine.architecture}", "-Dtests=enabled", "-Dbench=enabled"]
    known = ["--reconfigure"] if (arguments.build_dir / "build.ninja").exists() else []
    configured = runner.run(["meson", "setup", *known, arguments.build_dir, *options])
    if configured.code != 0:
        return Result("failed", f"Meson: {last_line(configured.output)}")
    built = runner.run(["ninja", "-C", arguments.build_dir, f"-j{os.cpu_count()}", "-k0", *PROGRAMS])
    if built.code == 0:
        return Result("passed", f"{len(PROGRAMS)} programs for sm_{machine.architecture}")
    missing = [program for program in PROGRAMS if not (arguments.build_dir / program).exists()]
    why = "the time ran out" if built.timed_out else last_line(built.output)
    return Result("failed", f"{why}; missing: {', '.join(missing) or 'nothing, but some are old'}")


def program(machine, arguments, name):
    """The path of a built program, for a section that needs a GPU too."""
    if not machine.gpu:
        raise Skipped("no GPU: nvidia-smi names none")
    path = arguments.build_dir / name
    if not path.exists():
        raise Skipped(f"{name} is not built")
    return path
