#!/usr/bin/env python3
"""Builds and runs the tests of a Meson build folder and counts single test cases.

Programs named test_* are GoogleTest programs: each of their cases counts. Any other test (a Python script) counts as one; its exit
code 77 means skipped. A program that crashes, hangs or fails after its last case adds one failure. So does a test of test_list.py
that the folder does not have. The last line printed is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree

import test_list

SKIPPED = 77
ON_REQUEST = "architectures"    # a suite that takes long and that no other one needs
SLOW_FACTOR = 5     # how much longer a sanitized program may take
GRACE_S = 5         # from asking a program to end to ending it


@dataclasses.dataclass
class Result:
    name: str
    passed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)    # (case, message)
    seconds: float = 0


def introspect(build_dir, what):
    return json.loads(subprocess.check_output(["meson", "introspect", what, build_dir]))


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def chosen_tests(build_dir, tests, suites):
    known = sorted(set().union(*(suites_of(test) for test in tests)))
    for suite in suites:
        if suite not in known:
            sys.exit(f"run_tests: no suite '{suite}' in {build_dir}; there are: {', '.join(known)}")
    chosen = [test for test in tests if suites_of(test) & set(suites) or not suites and ON_REQUEST not in suites_of(test)]
    return sorted(chosen, key=lambda test: -test_list.seconds(test["name"]))    # the longest first, so that none is left alone at the end


def compare_with_list(build_dir, tests):
    """Failures and skips for tests that the project has and the folder does not, or the other way round."""
    options = {option["name"]: option["value"] for option in introspect(build_dir, "--buildoptions")}
    found = [test["name"] for test in tests]
    missing, allowed = test_list.absent(found, options.get("b_sanitize", "none"))
    result = Result("list of tests", passed=0 if missing else 1, skipped=len(allowed))
    for name, _ in missing:
        result.failures.append((name, f"is not in {build_dir}; see 'NO' in its meson-logs/meson-log.txt, or remove the folder"))
    for name in test_list.unlisted(found):
        result.failures.append((name, "is not in scripts/test_list.py; add it"))
    for name, needs in allowed:
        print(f"skipped: {name}, which needs {needs}")
    return result


def targets_of(build_dir, tests, everything):
    """All, or the programs that the commands of the tests name; one that names the build folder itself needs all."""
    root = pathlib.Path(build_dir).resolve()
    words = {pathlib.Path(os.path.normpath(root / word)) for test in tests for word in test["cmd"]}
    made = {pathlib.Path(file) for target in introspect(build_dir, "--targets") for file in target["filename"]}
    targets = sorted(str(word.relative_to(root)) for word in words & made)
    if everything or root in words:
        targets = ["all"]
    return targets


def build(build_dir, targets):
    return not targets or subprocess.run(["ninja", "-C", build_dir, f"-j{os.cpu_count()}", *targets]).returncode == 0


def machine_factor():
    """How much slower this machine is than the one of the list's seconds: a loop that takes 0.1 s there."""
    start = time.monotonic()
    sum(i * i % 7 for i in range(1_200_000))
    return (time.monotonic() - start) / 0.1


def say_how_long(build_dir, targets, tests):
    steps = subprocess.run(["ninja", "-C", build_dir, "-n", *targets], stdout=subprocess.PIPE, text=True).stdout if targets else ""
    seconds = sum(kind * len(re.findall(pattern, steps)) for pattern, kind in test_list.BUILD_STEPS.items())
    factor, cores = machine_factor(), os.cpu_count()
    run_seconds = sum(test_list.seconds(test["name"]) for test in tests) / 2
    print(f"run_tests: {steps.count('] ')} build steps, about {factor * seconds / cores:.0f} s on {cores} cores where ccache knows none; "
          f"then {len(tests)} tests, about {factor * run_seconds:.0f} s", flush=True)




def run(test, slow, running):
    is_gtest = pathlib.Path(test["cmd"][0]).name.startswith("test_")
    result = Result(test["name"])
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = test["cmd"] + ([f"--gtest_output=xml:{report}"] if is_gtest else [])
        code, output = execute(command, test, test["timeout"] * (SLOW_FACTOR if slow else 1), running)
        if is_gtest and report.exists() and report.stat().st_size > 0:
            read_report(report, result)
            if code != 0 and not result.failures:
                result.failures.append(("after its last case", f"{code_text(code)}\n{tail(output)}"))
        elif is_gtest:
            begun = re.findall(r"^\[ RUN      \] (.*)$", output, re.MULTILINE)
            result.failures.append((f"in {begun[-1]}" if begun else "before its first case", f"{code_text(code)}\n{tail(output)}"))
        elif code == SKIPPED:
            result.skipped = 1
        elif code == 0:
            result.passed = 1
        else:
            result.failures.append(("", f"{code_text(code)}\n{tail(output)}"))
    result.seconds = time.monotonic() - start
    return result


def execute(command, test, timeout_s, running):
    """The exit code (None when the time ran out) and all output."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            process = running.start(command, cwd=test["workdir"], env={**os.environ, **test["env"]}, stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=subprocess.STDOUT)
        except OSError as error:
            return error.errno, str(error)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        running.end(process)
        output.seek(0)
        return code, output.read()


class Running:
    """The programs under test that run. Each leads a process group (in a session of its own: Python 3.10 has no other way), and what it started
    ends with it."""

    def __init__(self):
        self.processes, self.lock, self.is_over = set(), threading.Lock(), False

    def start(self, command, **options):
        with self.lock:
            if self.is_over:
                raise InterruptedError("the tests were ended")
            process = subprocess.Popen(command, start_new_session=True, **options)
            self.processes.add(process)
        return process

    def end(self, process):
        """Asks first: mpirun and ninja then end what they started, which has groups of its own."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            end = time.monotonic() + GRACE_S
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
                while time.monotonic() < end:
                    process.poll()
                    os.killpg(process.pid, 0)
                    time.sleep(0.01)
        with self.lock:
            self.processes.discard(process)

    def end_all(self):
        """No further one starts."""
        with self.lock:
            self.is_over, processes = True, list(self.processes)
        for process in processes:
            self.end(process)


def read_report(report, result):
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        failures = case.findall("failure")
        if failures:
            name = f"{case.get('classname')}.{case.get('name')}"
            result.failures.append((name, "\n".join(failure.text or failure.get("message", "") for failure in failures)))
        elif case.get("status") == "notrun" or case.get("result") == "skipped":
            result.skipped += 1
        else:
            result.passed += 1


def code_text(code):
    if code is None:
        return "ran past its time limit"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def tail(output, lines=60):
    return "\n".join(output.splitlines()[-lines:])


@contextlib.contextmanager
def ending_all(running, pool):
    """Where this runner is ended, so are the programs under test, and no further one starts."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        running.end_all()
        raise


def run_all(tests, slow):
    """Two programs at a time; those that must run alone come last."""
    results, running = [], Running()
    start = time.monotonic()
    for together, workers in ((True, 2), (False, 1)):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool, ending_all(running, pool):
            jobs = [pool.submit(run, test, slow, running) for test in tests if test["is_parallel"] is together]
            for job in concurrent.futures.as_completed(jobs):
                result = job.result()
                results.append(result)
                print(f"[{len(results):2}/{len(tests)} {time.monotonic() - start:4.0f} s] {result.name:36} {result.passed:5} passed {len(result.failures):3} failed {result.skipped:3} skipped "
                      f"{result.seconds:7.1f} s", flush=True)
    return results


def end_by(number, _):
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir")
    parser.add_argument("--suite", action="append", default=[], help="run only this suite; may be given again")
    parser.add_argument("--slow", action="store_true", help=f"multiply the time limits by {SLOW_FACTOR}, for sanitized builds")
    arguments = parser.parse_args()

    signal.signal(signal.SIGINT, signal.default_int_handler)     # a shell's job in the background ignores it, and so would the programs under test
    signal.signal(signal.SIGTERM, end_by)
    # Under nohup it is ignored; a handler stays here, and programs under test begin without.
    signal.signal(signal.SIGHUP, (lambda *_: None) if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else end_by)
    there = introspect(arguments.build_dir, "--tests")
    for test in there:
        test["workdir"] = test["workdir"] or arguments.build_dir    # as `meson test` does
    tests = chosen_tests(arguments.build_dir, there, arguments.suite)
    listed = compare_with_list(arguments.build_dir, there)
    targets = targets_of(arguments.build_dir, tests, everything=not arguments.suite)
    say_how_long(arguments.build_dir, targets, tests)
    if not build(arguments.build_dir, targets):
        print("run_tests: the build failed\n0 passed, 1 failed, 0 skipped")
        return 1
    if arguments.slow:
        os.environ["SLUICE_TIME_LIMIT_FACTOR"] = str(SLOW_FACTOR)  # for limits within a test
    results = [listed] + run_all(tests, arguments.slow)
    for result in results:
        for case, message in result.failures:
            print(f"\nFAILED {result.name} {case}\n{message}")
    failed = sum(len(result.failures) for result in results)
    print(f"\n{sum(result.passed for result in results)} passed, {failed} failed, {sum(result.skipped for result in results)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
