"""Stands in for every program that scripts/gpu-check runs, by the name it is called by; prints and writes what the real one would.

STAND_IN in the environment, a JSON object, says what goes wrong: {"op_bench": "crash"}, or "hang" or "fail"; of tests also
{"test_ops": {"/softmax_": "fault"}}, of cases whose names have that part: a failure that spoils the rest of its process, or "wrong", one
that spoils nothing, "crash", "hang", "slow", a tenth of a second, or "quit": the process ends after it. STAND_IN_OPS: so many ops more.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

NAME = pathlib.Path(sys.argv[0]).name
BEHAVIOUR = json.loads(os.environ.get("STAND_IN", "{}"))
PROGRAMS = ["bench/step_bench", "bench/op_bench", "bench/ladder/ladder_bench", "bench/epilogue_bench", "tests/ops/test_ops",
            "tests/test_parallel", "tests/test_core", "tests/test_training"]
OPS = ["add", "attention", "attention_packed", "matmul", "softmax", *(f"op{n}" for n in range(int(os.environ.get("STAND_IN_OPS", 0))))]
OP_TESTS = ["ComputesTheReferenceInEveryDtype", "HasTheGradientOfTheCpu", "RefusesBadInput"]
CASES = {"test_ops": [f"Ops/OpTest.{test}/{op}_{case}_on_cuda" for op in OPS for test in OP_TESTS for case in ("small", "odd")],
         "test_parallel": [f"CudaTraining.{test}" for test in ("FollowsTheLossesOfTheCpu", "HasTheSameAnswerWithGraphs",
                           "HasOneAnswerWhateverThePartitionScheduleAndRematerialization")] + ["CudaNccl.MovesMessages"],
         "test_training": ["CudaDecoder.Works", "CudaTranslator.Works"],
         "test_core": ["CudaHandOver.Works", "CudaArena.Works", "CudaGraphs.Work"]}
ROWS = [f"{row}/{direction}" for row in ("matmul/8192", "attention/width_64", "attention/width_128", "attention/gpt2", "softmax/tokens",
                                         "convolution/amoebanet_1x7") for direction in ("forward", "backward")] + ["adamw/gpt2/forward"]


def option(name, otherwise=None):
    """The value of --name=value or of --name value."""
    for place, word in enumerate(sys.argv):
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
        if word == f"--{name}":
            return sys.argv[place + 1]
    return otherwise


def hang():
    """With a child, and deaf to SIGTERM, as a program is that waits for its driver."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["/bin/sleep", "1000"])
    pathlib.Path(os.environ["STAND_IN_PIDS"]).open("a").write(f"{os.getpid()} {child.pid}\n")
    time.sleep(1000)


def misbehave(how):
    if how == "hang":
        hang()
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "fail":
        print("error: it went wrong")
        sys.exit(3)


def matching(cases, patterns):
    """Patterns as GoogleTest has them: whole names, most of them, or with stars."""
    def fits(case, names, stars):
        return case in names or any(re.fullmatch(re.escape(one).replace(r"\*", ".*"), case) for one in stars)

    split = [({one for one in part.split(":") if "*" not in one}, [one for one in part.split(":") if "*" in one])
             for part in patterns.partition(":-")[::2]]
    return [case for case in cases if fits(case, *split[0]) and not fits(case, *split[1])]


def chosen_cases():
    """By --gtest_filter, or by the line of --gtest_flagfile."""
    patterns = option("gtest_filter", "*")
    if flags := option("gtest_flagfile"):
        patterns = pathlib.Path(flags).read_text().strip().removeprefix("--gtest_filter=")
    return matching(CASES[NAME], patterns)


def list_cases(cases):
    print("Running main() from ./googletest/src/gtest_main.cc")
    for suite in dict.fromkeys(case.split(".")[0] for case in cases):
        print(f"{suite}.")
        print("\n".join(f"  {case.split('.')[1]}  # GetParam() = a case" for case in cases if case.startswith(suite + ".")))


def print_failure(case):
    named = "kernel softmax_rows" if os.environ.get("SLUICE_SYNC") else "cudaStreamSynchronize"
    print(f'C++ exception with description "cuda: {named} failed: an illegal memory access" thrown in the test body.')
    print(f"[  FAILED  ] {case}, where GetParam() = a case (2 ms)", flush=True)


def print_left_out(cases):
    """What GoogleTest says of all that --gtest_fail_fast leaves out."""
    for case in cases:
        print(f"[ RUN      ] {case}\ntests/a.cpp:1: Skipped\n\n[  SKIPPED ] {case} (0 ms)")
    print(f"[  SKIPPED ] {len(cases)} tests, listed below:", *(f"[  SKIPPED ] {case}" for case in cases), sep="\n")


def run_cases():
    chosen = chosen_cases()
    if "--gtest_list_tests" in sys.argv:
        return list_cases(chosen)
    wrong, failed, is_spoiled = BEHAVIOUR.get(NAME, {}), 0, False
    for place, case in enumerate(chosen):
        how = next((how for part, how in wrong.items() if part in case), None)
        print(f"[ RUN      ] {case}", flush=True)
        if how in ("wrong", "fault") or is_spoiled:
            print_failure(case)
            failed, is_spoiled = 1, is_spoiled or how == "fault"
            if "--gtest_fail_fast" in sys.argv:
                print_left_out(chosen[place + 1:])
                break
            continue
        if how == "slow":
            time.sleep(0.1)
        misbehave(how)
        print(f"[       OK ] {case} (1 ms)", flush=True)
        if how == "quit":
            sys.exit(0)
    sys.exit(failed)


def step_bench():
    print("gpt2-124m cuda:0 K=1 M=1 1f1b remat=none threads=1 batch=32 bf16: median 70.00 ms  468114 tokens/s  400.00 TFLOP/s (6N + 6LCT)")
    if "--nodes" in sys.argv:
        print("node embedding                        forward     0.5000 ms  backward     0.7000 ms")
        for block in range(2):
            print(f"node block{block}.attention                 forward     1.5000 ms  backward     3.0000 ms")
        print("norm and update 2.0000 ms; all together 12.2000 ms of a step of 13.0000 ms")


def op_bench():
    pattern = option("benchmark_filter", "")
    chosen = [row for row in ROWS if bool(re.search(pattern.removeprefix("-"), row)) != pattern.startswith("-")]
    rows = [{"name": f"{row}/iterations:1/manual_time", "real_time": 100.0, "GB/s": 4000.0, "GFLOP/s": 700e3, "%limit": 90.0,
             "label": "memory" if row.startswith("softmax") else "arithmetic"} for row in chosen]
    context = {"copy_GB/s": "4300", "product_TFLOP/s": "780", "cuDNN": os.environ.get("STAND_IN_CUDNN", "9.19.0")}
    pathlib.Path(option("benchmark_out")).write_text(json.dumps({"context": context, "benchmarks": rows}))


def ladder_bench():
    print(json.dumps({"kernel": "softmax", "equal": True, "difference": 0, "naive_us": 10, "shipped_us": 1, "naive_percent": 9,
                      "shipped_percent": 90}))


def epilogue_bench():
    for fused_us in (110.5, -1):
        print(json.dumps({"row": "a layer", "apart_us": 120.0, "fused_us": fused_us, "bias_difference": 1e-7, "same_bits": True}))


def python3():
    """PyTorch's side of the comparisons."""
    script = pathlib.Path(sys.argv[1]).name
    misbehave(BEHAVIOUR.get(script))
    if script == "run":
        times = {name: {"median_ms": 75.0, "min_ms": 74.0} for name in ("ours", "PyTorch eager", "PyTorch compiled")}
        pathlib.Path(option("json")).write_text(json.dumps(times))
    else:
        print(json.dumps({"matmul/8192/forward": 0.1, "attention/width_64/forward": 0.09}))


def meson():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.ninja").touch()


def ninja():
    folder = pathlib.Path(option("C", sys.argv[2]))
    for name in PROGRAMS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(pathlib.Path(sys.argv[0]).resolve())


def compute_sanitizer():
    print("[       OK ] Ops/OpTest.ComputesTheReferenceInEveryDtype/softmax_small_on_cuda (5 ms)\n========= ERROR SUMMARY: 0 errors")


def nvidia_smi():
    print(os.environ.get("STAND_IN_GPU", "NVIDIA H200, 9.0, 580.1, 143771 MiB"))


if isinstance(BEHAVIOUR.get(NAME), str):
    misbehave(BEHAVIOUR[NAME])
run_cases() if NAME in CASES else globals()[NAME.replace("-", "_")]()
