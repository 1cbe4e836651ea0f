"""Section warpgroups: attention by the products of warpgroups, which SLUICE_WARPGROUPS=1 asks for on Hopper: its tests, then the times of its
rows and of GPT-2's step beside those without them."""
from build import program
from op_bench import errors_in, run_rows
from result import Result, Skipped, passed_if, sentence
from steps import LARGE, Bench
from tests import failed_in, judged

CASES = "*/attention*_on_cuda"


def with_warpgroups(on):
    return {"SLUICE_WARPGROUPS": "1" if on else "0", "SLUICE_CUDNN": "0"}


def tested(runner, path):
    """(number of cases, what went wrong) of the cases with warpgroups."""
    outcome = runner.run([path, f"--gtest_filter={CASES}"], 0.4 * runner.left_s(), with_warpgroups(True))
    cases, why = judged(outcome, path)
    return len(cases), [why, *failed_in(cases)[:3]]


def rows_us(runner, path, out, on):
    rows, _, _ = run_rows(runner, path, out, "^attention/", most_s=0.4 * runner.left_s(), environment=with_warpgroups(on))
    if errors := errors_in(rows):
        raise RuntimeError(errors[0])
    return {row["name"]: row["real_time"] for row in rows}


def step_us(runner, path, arguments, on):
    bench = Bench(runner, path, arguments)
    bench.environment |= with_warpgroups(on)
    return {"step of GPT-2 124M, own attention": 1e3 * bench.median_ms(0.5, *LARGE)}


def run(runner, machine, arguments):
    ops, steps = program(machine, arguments, "tests/ops/test_ops"), program(machine, arguments, "bench/step_bench")
    if machine.architecture != "90a":
        raise Skipped(f"sm_{machine.architecture} has no such products")
    number, troubles = tested(runner, ops)
    without, having = {}, {}
    try:
        for on, times in ((False, without), (True, having)):
            times |= rows_us(runner, program(machine, arguments, "bench/op_bench"), arguments.build_dir / "warpgroups.json", on)
            times |= step_us(runner, steps, arguments, on)
    except RuntimeError as error:
        troubles.append(str(error))
    table = [[name, f"{us:.0f}", f"{having[name]:.0f}", f"{us / having[name]:.2f}"] for name, us in without.items() if name in having]
    return Result(passed_if(number and table and not any(troubles)), sentence(f"{number} cases, {len(table)} rows", *troubles), [],
                  [("Attention by warpgroups, bf16", ["row", "us without", "us with", "times as fast"], table)],
                  {"without_us": without, "with_us": having})
