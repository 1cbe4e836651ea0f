"""Section smoke: everything that a GPU brings with it, once and small, so that what does not work here shows before anything long runs."""
from build import program
from op_bench import errors_in, run_rows
from result import FAILED, PASSED, Result, Skipped, passed_if, sentence
from runner import last_line
from tests import error_in, run_group

VALUES = "Ops/OpTest.ComputesTheReferenceInEveryDtype/"
# (what, program, filter of its tests)
TESTS = [
    ("CUDA runtime", "tests/test_core", "CudaHandOver*:CudaArena*"),
    ("own kernels", "tests/ops/test_ops", VALUES + "softmax_*_on_cuda"),
    ("cuBLASLt", "tests/ops/test_ops", VALUES + "matmul_*_on_cuda"),
    ("CUDA graphs", "tests/test_core", "CudaGraphs*"),
]
CUDNN_ROWS = "^(convolution/amoebanet_1x7|attention/gpt2_one_sample)/forward"     # the second is compiled by nvrtc


def test_row(runner, machine, arguments, what, name, pattern):
    cases, wrong, why, output = run_group(runner, program(machine, arguments, name), pattern, runner.left_s() / 3)
    passed = list(cases.values()).count(PASSED)
    if wrong or why:
        return [what, FAILED, sentence(why, wrong, error_in(output))]
    return [what, passed_if(passed), f"{passed} cases"]


def step_row(runner, machine, arguments):
    path = program(machine, arguments, "bench/step_bench")
    outcome = runner.run([path, "--steps", 1, "--model", "gpt", "--device", "cuda:0", "--precision", "bf16", "--batch", 2],
                         runner.left_s() / 2)
    ok = outcome.code == 0 and "median" in outcome.output
    said = last_line(outcome.output) if ok else sentence(f"step_bench {outcome.ending}", error_in(outcome.output))
    return ["a training step", passed_if(ok), said]


def cudnn_row(runner, machine, arguments):
    """cuDNN and, for attention, nvrtc: its absence is no failure, but is said with the cure."""
    path = program(machine, arguments, "bench/op_bench")
    rows, context, output = run_rows(runner, path, arguments.build_dir / "smoke.json", CUDNN_ROWS, environment={"SLUICE_CUDNN": "1"}, tune="full")
    if not context["cuDNN"][:1].isdigit():
        return ["cuDNN", "missing", context["cuDNN"]]
    # An algorithm that deviates is left out with a warning, which is as it should be; the section cudnn counts those.
    warnings = [line for line in output.splitlines() if "sluice: warning" in line and "deviates" not in line]
    troubles = [*errors_in(rows), *warnings]
    return ["cuDNN", passed_if(not troubles), sentence(context["cuDNN"], *troubles)]


def guarded(what, row, *arguments):
    try:
        return row(*arguments)
    except (Skipped, RuntimeError) as error:
        return [what, FAILED, str(error)]


def run(runner, machine, arguments):
    program(machine, arguments, "bench/step_bench")     # without a GPU or a build there is nothing to look at
    rows = [guarded(what, test_row, runner, machine, arguments, what, name, pattern) for what, name, pattern in TESTS]
    rows.append(guarded("a training step", step_row, runner, machine, arguments))
    rows.append(guarded("cuDNN", cudnn_row, runner, machine, arguments))
    failed = [f"{what}: {said}" for what, verdict, said in rows if verdict == FAILED]
    missing = [f"{what} is missing: {said}" for what, verdict, said in rows if verdict == "missing"]
    well = [what for what, verdict, _ in rows if verdict == PASSED]
    return Result(passed_if(not failed), sentence(f"{len(well)} of {len(rows)} work", *failed, *missing), [],
                  [("Smoke", ["what", "verdict", "what it said"], rows)], {"rows": rows})
