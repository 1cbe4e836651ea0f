"""Section tests: every test that runs on the device."""
import xml.etree.ElementTree as ElementTree

from build import program
from result import Bar, Result, passed_if

# Of requirement 5: what is asked, and the test of CudaTraining that shows it. Each also compares predicted with allocated peak bytes.
SHOWN_BY = {
    "CPU and GPU losses agree over 50 steps (f32, 1e-3)": "FollowsTheLossesOfTheCpu",
    "bit-identical over K = 1, 2, 4, both schedules, remat none and full; peak bytes as predicted":
        "HasOneAnswerWhateverThePartitionScheduleAndRematerialization",
    "the same bits and bytes with CUDA graphs": "HasTheSameAnswerWithGraphs",
}


def run_program(runner, path, pattern, report):
    """{case: "passed", "failed" or "skipped"} and, when the program itself went wrong, why."""
    report.unlink(missing_ok=True)
    outcome = runner.run([path, f"--gtest_filter={pattern}", f"--gtest_output=xml:{report}", "--gtest_brief=1"])
    cases = {}
    if report.exists() and report.stat().st_size > 0:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            verdict = "failed" if case.find("failure") is not None else "skipped" if case.find("skipped") is not None else "passed"
            if case.get("status") != "notrun":
                cases[f"{case.get('classname')}.{case.get('name')}"] = verdict
    if outcome.timed_out:
        return cases, f"{path.name} ran past the time"
    if outcome.code != 0 and "failed" not in cases.values():
        return cases, f"{path.name} ended with {outcome.code}"
    return cases, "" if "passed" in cases.values() else f"{path.name} ran no case"


def run(runner, machine, arguments):
    ops, parallel = program(machine, arguments, "tests/ops/test_ops"), program(machine, arguments, "tests/test_parallel")
    pattern = "*ComputesTheReference*_on_cuda" if arguments.quick else "*_on_cuda"
    training, training_trouble = run_program(runner, parallel, "CudaTraining.*", arguments.build_dir / "training.xml")
    kernels, kernel_trouble = run_program(runner, ops, pattern, arguments.build_dir / "ops.xml")
    cases = {**training, **kernels}
    count = {verdict: list(cases.values()).count(verdict) for verdict in ("passed", "failed", "skipped")}
    failed = [name for name, verdict in cases.items() if verdict == "failed"]
    trouble = [text for text in (training_trouble, kernel_trouble) if text]
    ok = not failed and not trouble
    detail = f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"
    bars = [Bar(5, "all tests on the device", "pass", "; ".join([detail, *trouble]), ok)]
    for what, test in SHOWN_BY.items():
        verdict = training.get(f"CudaTraining.{test}", "not run")
        bars.append(Bar(5, what, "pass", verdict, verdict == "passed"))
    return Result(passed_if(ok), "; ".join([detail, *trouble, *failed[:3]]), bars, data={**count, "failures": failed, "trouble": trouble})
