"""What the peers on a CPU share: the environment that makes PyTorch fast, their options, and the protocol of `run`."""
import argparse
import json
import os
import pathlib
import sys
import time


def has_avx512():
    return "avx512f" in pathlib.Path("/proc/cpuinfo").read_text().split()


def tuned_environment(threads, tuning):
    """What makes PyTorch fast on a CPU; all of it is read before main, so it must be set before Python starts."""
    wide = has_avx512()                             # libraries that are told to use what is not there end by SIGILL
    environment = {
        "MALLOC_MMAP_MAX_": "0",                    # keep freed memory: fresh pages cost more than the arithmetic on them
        "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
        "OPENBLAS_CORETYPE": "SKYLAKEX" if wide else "HASWELL",  # builds with OpenBLAS, such as Debian's
        "OPENBLAS_NUM_THREADS": str(threads),
        "ATEN_CPU_CAPABILITY": "avx512" if wide else "avx2",
        "PEER_TUNED": "1",
    }
    mkl_as_on_intel = pathlib.Path(sys.prefix) / "lib" / "mkl_as_on_intel.so"
    if tuning == "tuned" and mkl_as_on_intel.exists():  # beyond what PyTorch's own settings reach: MKL's widest kernels on every maker's processor
        environment["LD_PRELOAD"] = str(mkl_as_on_intel)
    if threads > 1:
        environment["OMP_WAIT_POLICY"] = "passive"
    return environment


def parser(description, batch):
    """The options of every peer; a peer adds its own."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--batch", type=int, default=batch)
    found.add_argument("--steps", type=int, default=7)
    found.add_argument("--warmup", type=int, default=2, help="untimed steps before the first; not used by --serve")
    found.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16 is autocast: weights stay f32")
    found.add_argument("--tuning", choices=["tuned", "settings", "default"], default="tuned",
                       help="settings: all but the library that makes MKL take an AMD processor for Intel's")
    found.add_argument("--compile", action="store_true", help="torch.compile the model (needs a C++ compiler)")
    found.add_argument("--serve", action="store_true", help="one step for every line on stdin")
    return found


def restart_tuned(arguments):
    """Call it before torch is imported. Returns in the tuned process."""
    if arguments.tuning != "default" and "PEER_TUNED" not in os.environ:
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **tuned_environment(arguments.threads, arguments.tuning)})


def say(**fields):
    print(json.dumps(fields), flush=True)


def timed(step):
    """Milliseconds of one step: wall, and those that this process's threads computed, which neighbours disturb less."""
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return {"step_ms": 1e3 * (time.perf_counter() - wall), "cpu_ms": 1e3 * (time.process_time() - cpu)}


def answer(step, arguments):
    """--serve: a step for every line on stdin; else the times of --steps."""
    if arguments.serve:
        for _ in sys.stdin:
            say(**timed(step))
        return
    for _ in range(arguments.warmup):
        step()
    say(step_ms=[round(timed(step)["step_ms"], 2) for _ in range(arguments.steps)], loss=step())
