"""Section tests: every test that runs on the device, values and gradients of all ops before the rest. A faulty access spoils the rest of
its process, so each group of tests has one of its own, and the first case of a group that fails runs again alone, waiting for every kernel
so that the error names the right one. Group nccl is the transport between ranks over links that send to themselves: one GPU shows that calls,
events and bytes are right. With two it also trains over two ranks, as threads."""
import re

from build import program
from result import FAILED, PASSED, SKIPPED, Bar, Result, passed_if, sentence

# Of requirement 5: what is asked, and the test of CudaTraining that shows it. Each also compares predicted with allocated peak bytes.
SHOWN_BY = {
    "CPU and GPU losses agree over 50 steps (f32, 1e-3)": "FollowsTheLossesOfTheCpu",
    "bit-identical over K = 1, 2, 4, both schedules, remat none and full; peak bytes as predicted":
        "HasOneAnswerWhateverThePartitionScheduleAndRematerialization",
    "the same bits and bytes with CUDA graphs": "HasTheSameAnswerWithGraphs",
}
FIRST = ["ComputesTheReferenceInEveryDtype", "HasTheGradientOfTheCpu"]
VERDICTS = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}     # in GoogleTest's words


def cases_of(output):
    """({case: verdict}, the case that was begun and never ended) of what a GoogleTest program printed."""
    cases, begun = {}, None
    for line in output.splitlines():
        if found := re.match(r"\[ RUN      \] (\S+)", line):
            begun = found.group(1)
        elif found := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).*\(\d+ ms\)", line):
            cases[found.group(2)] = VERDICTS[found.group(1)]
            begun = None
    return cases, begun


def run_group(runner, path, pattern, most_s=None, sync=False):
    """({case: verdict}, the first case that went wrong, why the program did beyond its cases, output) of one process."""
    outcome = runner.run([path, f"--gtest_filter={pattern}"], most_s, {"SLUICE_SYNC": "1"} if sync else None)
    cases, begun = cases_of(outcome.output)
    why = ""
    if begun:
        cases[begun] = FAILED
        why = f"{begun}: the program {outcome.ending}"
    elif outcome.code is None or (outcome.code != 0 and FAILED not in cases.values()):
        why = f"{path.name} {outcome.ending}"
    elif not cases:
        why = f"{path.name} ran no case"
    wrong = next((case for case, verdict in cases.items() if verdict == FAILED), None)
    return cases, wrong, why, outcome.output


def op_groups(runner, ops):
    """The first words of all ops that have cases on the device: "attention" for attention, attention_gradients and attention_packed."""
    listed = runner.run([ops, "--gtest_list_tests", "--gtest_filter=*_on_cuda"], 20)
    return sorted({found.group(1) for found in re.finditer(r"^  \w+/([a-z0-9]+)_\w+", listed.output, re.MULTILINE)})


def error_in(output):
    """The lines that say what went wrong in a case."""
    wanted = [line.strip() for line in output.splitlines() if re.search(r"error|exception|Failure|SLUICE|fault|differ", line)]
    return " ".join(wanted[:3])[:400] or "see tests.log"


def again(runner, path, case):
    """What became of one case alone, with a wait for every kernel."""
    cases, _, why, output = run_group(runner, path, case, 20, sync=True)
    verdict = cases.get(case, FAILED)
    return verdict, "" if verdict == PASSED else sentence(why, error_in(output))


def run(runner, machine, arguments):
    ops, parallel, core, training = (program(machine, arguments, f"tests/{name}")
                                     for name in ("ops/test_ops", "test_parallel", "test_core", "test_training"))
    groups = op_groups(runner, ops)
    queue = [("training", parallel, "CudaTraining*"), ("core", core, "Cuda*"), ("nccl", parallel, "CudaNccl*"), ("decoding", training, "Cuda*"),
             *[(group, ops, ":".join(f"Ops/OpTest.{first}/{group}_*_on_cuda" for first in FIRST)) for group in groups]]
    if not arguments.quick:
        others = ":".join(f"Ops/OpTest.{first}/*" for first in FIRST)
        queue += [(f"{group}, the rest", ops, f"Ops/OpTest.*/{group}_*_on_cuda:-{others}") for group in groups]
    cases, wrong_ones, troubles, left = {}, [], [] if groups else ["test_ops lists no case on the device"], []
    for place, (name, path, pattern) in enumerate(queue):
        if runner.left_s() == 0:
            left = [name for name, _, _ in queue[place:]]
            break
        # A group that hangs must not take the time of all others.
        found, wrong, why, _ = run_group(runner, path, pattern, max(runner.left_s() / 2, 1))
        cases |= found
        troubles += [f"{name}: {why}"] if why else []
        if wrong:
            wrong_ones.append([name, wrong, *again(runner, path, wrong)])
    return result_of(cases, wrong_ones, troubles, left, len(queue))


def result_of(cases, wrong_ones, troubles, left, groups):
    count = {verdict: list(cases.values()).count(verdict) for verdict in (PASSED, FAILED, SKIPPED)}
    failed = [name for name, verdict in cases.items() if verdict == FAILED]
    ok = not failed and not troubles and not left and count[PASSED] > 0
    counts = f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped in {groups - len(left)} of {groups} groups"
    not_run = f"out of time, not run: {', '.join(left)}" if left else ""
    bars = [Bar(5, "all tests on the device", "pass", sentence(counts, not_run, *troubles[:2]), ok)]
    for what, test in SHOWN_BY.items():
        verdict = cases.get(f"CudaTraining.{test}", "not run")
        bars.append(Bar(5, what, "pass", verdict, verdict == PASSED))
    table = ("The first failing case of each group, again alone with SLUICE_SYNC=1", ["group", "case", "alone", "what it said"], wrong_ones)
    return Result(passed_if(ok), sentence(counts, not_run, *troubles[:3], *failed[:3]), bars, [table],
                  {**count, "failures": failed, "trouble": troubles, "not_run": left})
