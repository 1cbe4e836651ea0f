"""Section tests: every test that runs on the device. To start a process on the device costs about a second and a case milliseconds, so
one process runs as many cases as it can. A faulty access spoils the rest of its process: after a failure, a crash or a hang a new one goes
on with what has not run. What has failed runs again alone, waiting for every kernel so that the error names the right one, and the other
cases of an op that has failed wait for those of all others. The transport between ranks, over links that send to themselves, is slow and
comes last: one GPU shows that calls, events and bytes are right. With two it also trains over two ranks, as threads.

As a program it runs another one until a case has failed or nothing was said for long. usage: tests.py SECONDS PROGRAM ARGUMENT...
"""
import dataclasses
import os
import pathlib
import re
import select
import subprocess
import sys
import time

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
ON_DEVICE = "Cuda*:*_on_cuda"
# (name, program, how its cases begin, the part of the section's time in which a process of it has to say something), in their order.
QUEUE = [
    ("training", "tests/test_parallel", "CudaTraining", 0.25),
    ("core", "tests/test_core", "Cuda", 0.15),
    ("decoding", "tests/test_training", "Cuda", 0.25),
    ("ops", "tests/ops/test_ops", rf"Ops/OpTest\.({'|'.join(FIRST)})/", 0.1),
    ("rest of ops", "tests/ops/test_ops", rf"Ops/OpTest\.(?!({'|'.join(FIRST)})/)", 0.1),
    ("nccl", "tests/test_parallel", "CudaNccl", 0.5),
]
LEAST_PATIENCE_S = 3        # however short the section: a start takes a second of it
AGAIN_SHARE = 0.2           # of the section's time for cases alone, while others have not run yet
MOST_CASES = 20_000         # of one process: its output, some 260 bytes a case, stays below what a command may print
SILENT = 124                # the exit code of this file as a program, where the other one said nothing for too long
FAILED_CASE = re.compile(rb"^\[  FAILED  \] .*\(\d+ ms\)\n", re.MULTILINE)
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


def judged(outcome, path):
    """({case: verdict}, why the program went wrong beyond its cases)."""
    cases, begun = cases_of(outcome.output)
    why = ""
    if begun:
        cases[begun] = FAILED
        why = f"{begun}: the program {outcome.ending}"
    elif outcome.code is None or (outcome.code != 0 and FAILED not in cases.values()):
        why = f"{path.name} {outcome.ending}"
    elif not cases:
        why = f"{path.name} ran no case"
    return cases, why


def failed_in(cases):
    return [case for case, verdict in cases.items() if verdict == FAILED]


def run_group(runner, path, pattern, most_s=None, sync=False):
    """({case: verdict}, the first case that went wrong, why the program did beyond its cases, output) of one process."""
    outcome = runner.run([path, f"--gtest_filter={pattern}"], most_s, {"SLUICE_SYNC": "1"} if sync else None)
    cases, why = judged(outcome, path)
    return cases, next(iter(failed_in(cases)), None), why, outcome.output


def error_in(output):
    """The lines that say what went wrong in a case."""
    wanted = [line.strip() for line in output.splitlines() if re.search(r"error|exception|Failure|SLUICE|fault|differ", line)]
    return " ".join(wanted[:3])[:400] or "see tests.log"


def op_of(case):
    """The first word of an op, "attention" for attention, attention_gradients and attention_packed; of another test nothing."""
    found = re.match(r"Ops/OpTest\.\w+/([a-z0-9]+)_", case)
    return found.group(1) if found else ""


def listed(runner, path):
    """(names of the cases on the device, how the program ended). Ten thousands of names would hide the rest of the log."""
    begin = runner.log.stat().st_size
    outcome = runner.run([path, "--gtest_list_tests", f"--gtest_filter={ON_DEVICE}"], min(20, runner.left_s() / 4))
    suite, cases = "", []
    for line in outcome.output.splitlines():
        if found := re.fullmatch(r"(\S+\.)(  # .*)?", line):
            suite = found.group(1)
        elif suite and (found := re.match(r"  (\S+)", line)):
            cases.append(suite + found.group(1))
    if cases:
        os.truncate(runner.log, begin)
        runner.note(f"# {path} lists {len(cases)} cases")
    return cases, outcome.ending


@dataclasses.dataclass
class Batch:
    """Cases of one program, of which each may take so long."""
    name: str
    path: pathlib.Path
    patience_s: float
    waiting: list
    is_over: bool = False       # its program begins no case


@dataclasses.dataclass
class Failure:
    """A case that failed, what was printed then, and what became of it alone."""
    case: str
    batch: Batch
    output: str
    alone: str = ""
    said: str = ""

    def row(self):
        group = op_of(self.case) or self.case.partition(".")[0]
        return [group, self.case, self.alone or "not run", self.said or f"together: {error_in(self.output)}"]


class Course:
    """The way through all batches."""

    def __init__(self, runner, machine, arguments):
        self.runner, self.whole_s, self.flags = runner, runner.left_s(), arguments.build_dir / "tests.flags"
        self.cases, self.troubles, self.failures = {}, [], []
        self.broken, self.interrupted, self.again_s = set(), None, 0      # ops with a failure; the case in which the time was over
        queue = [entry for entry in QUEUE if not (arguments.quick and entry[0] == "rest of ops")]
        paths = {name: program(machine, arguments, name) for _, name, _, _ in queue}
        lists = {name: listed(runner, path) for name, path in paths.items()}
        self.batches = [self._batch(name, paths[where], lists[where], begin, share) for name, where, begin, share in queue]

    def _batch(self, name, path, list_and_ending, begin, share):
        cases, ending = list_and_ending
        mine = [case for case in cases if re.match(begin, case)]
        if not mine:
            self.troubles.append(f"{name}: {path.name} lists no case and {ending}")
        return Batch(name, path, max(share * self.whole_s, LEAST_PATIENCE_S), mine)

    def run(self):
        for with_broken in (False, True):
            for batch in self.batches:
                self._go_through(batch, with_broken)
        for failure in self.failures:
            if not failure.alone and self.runner.left_s() > 0:
                self._run_again(failure)
        for failure in self.failures:           # long logs are kept without their middle
            self.runner.note(f"# failed: {failure.output[:2000]}")

    def _go_through(self, batch, with_broken):
        while self.runner.left_s() > 0 and not batch.is_over:
            cases = [case for case in batch.waiting if with_broken or op_of(case) not in self.broken]
            if not cases:
                return
            self._run_process(batch, cases[:MOST_CASES])

    def _run_process(self, batch, cases):
        """Up to the first failure, crash or hang, or the end of the section's time. One argument has no room for all names, a file has."""
        self.flags.write_text(f"--gtest_filter={':'.join(cases)}\n")
        outcome = self.runner.run([sys.executable, pathlib.Path(__file__).resolve(), f"{batch.patience_s:.1f}", batch.path,
                                   "--gtest_fail_fast", f"--gtest_flagfile={self.flags}"])
        if outcome.code is None and self.runner.left_s() == 0:
            found, self.interrupted = cases_of(outcome.output)
            why = ""
        else:
            if outcome.code == SILENT:
                outcome = dataclasses.replace(outcome, code=None, why=f"said nothing for {batch.patience_s:.0f} s")
            found, why = judged(outcome, batch.path)
            batch.is_over = not found
        self.cases |= found
        batch.waiting = [case for case in batch.waiting if case not in found]
        self.troubles += [f"{batch.name}: {why}"] if why else []
        for case in failed_in(found):
            self._add_failure(Failure(case, batch, outcome.output[outcome.output.rfind(f"[ RUN      ] {case}\n"):]))

    def _add_failure(self, failure):
        """Of an op only the first: the others say the same."""
        op = op_of(failure.case)
        if op in self.broken:
            return
        self.broken |= {op} - {""}
        self.failures.append(failure)
        if self.again_s < AGAIN_SHARE * self.whole_s:
            self._run_again(failure)

    def _run_again(self, failure):
        began = time.monotonic()
        path, case = failure.batch.path, failure.case
        cases, _, why, output = run_group(self.runner, path, case, failure.batch.patience_s, sync=True)
        self.again_s += time.monotonic() - began
        if case in cases and self.runner.left_s() > 0:      # else the time was over before it had ended
            failure.alone = cases[case]
            failure.said = "" if failure.alone == PASSED else sentence(why, error_in(output))


def run(runner, machine, arguments):
    course = Course(runner, machine, arguments)
    course.run()
    return result_of(course)


def not_run_words(course, left):
    if not left:
        return ""
    where = f" in {course.interrupted}" if course.interrupted else ""
    when = f"out of time{where}, " if course.runner.left_s() == 0 else ""
    return f"{when}not run: {sum(left.values())} cases ({', '.join(f'{name} {number}' for name, number in left.items())})"


def result_of(course):
    cases, troubles = course.cases, course.troubles
    left = {batch.name: len(batch.waiting) for batch in course.batches if batch.waiting}
    count = {verdict: list(cases.values()).count(verdict) for verdict in (PASSED, FAILED, SKIPPED)}
    failed = failed_in(cases)
    ok = not failed and not troubles and not left and count[PASSED] > 0
    counts = f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped of {len(cases) + sum(left.values())} cases"
    not_run = not_run_words(course, left)
    bars = [Bar(5, "all tests on the device", "pass", sentence(counts, not_run, *troubles[:2]), ok)]
    for what, test in SHOWN_BY.items():
        verdict = cases.get(f"CudaTraining.{test}", "not run")
        bars.append(Bar(5, what, "pass", verdict, verdict == PASSED))
    table = ("Failing cases, of each op the first, again alone with SLUICE_SYNC=1", ["group", "case", "alone", "what it said"],
             [failure.row() for failure in course.failures])
    return Result(passed_if(ok), sentence(counts, not_run, *troubles[:3], *failed[:3]), bars, [table],
                  {**count, "failures": failed, "trouble": troubles, "not_run": left})


def pass_on(text):
    """Passes whole lines on; what is left of them."""
    end = text.rfind(b"\n") + 1
    sys.stdout.buffer.write(text[:end])
    sys.stdout.buffer.flush()
    return text[end:]


def code_of(process, most_s):
    try:
        return process.wait(most_s)
    except subprocess.TimeoutExpired:
        return SILENT


def watch(silent_s, command):
    """Runs the command until a case of it has failed or it says nothing for `silent_s`. Ends as it does."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    code, text = SILENT, b""
    while select.select([process.stdout], [], [], silent_s)[0]:
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            code = code_of(process, silent_s)
            break
        text += chunk
        if failed := FAILED_CASE.search(text):      # after it GoogleTest names all that it leaves out
            code, text = 1, text[:failed.end()]
            break
        text = pass_on(text)
    process.kill()
    code_of(process, 1)                             # so that the next one finds the device free, unless it waits for its driver
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(watch(float(sys.argv[1]), sys.argv[2:]))
