#!/usr/bin/env python3
"""Builds and runs the tests of a Meson build folder and counts single test cases.

Programs named test_* are GoogleTest programs: each of their cases counts. Any other test (a Python script) counts as one; its exit
code 77 means skipped. A program that crashes, hangs or fails after its last case adds one failure. The last line printed is
"N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

SKIPPED = 77
SLOW_FACTOR = 5     # how much longer a sanitized program may take


@dataclasses.dataclass
class Result:
    name: str
    passed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)    # (case, message)
    seconds: float = 0


def introspect(build_dir, what):
    return json.loads(subprocess.check_output(["meson", "introspect", what, build_dir]))


def chosen_tests(build_dir, suites):
    tests = introspect(build_dir, "--tests")
    for test in tests:
        test["workdir"] = test["workdir"] or build_dir    # as `meson test` does
    known = sorted({suite.split(":")[-1] for test in tests for suite in test["suite"]})
    for suite in suites:
        if suite not in known:
            sys.exit(f"run_tests: no suite '{suite}' in {build_dir}; there are: {', '.join(known)}")
    return [test for test in tests if not suites or {suite.split(":")[-1] for suite in test["suite"]} & set(suites)]


def build(build_dir, tests, everything):
    """Builds everything, or the programs that the commands of the tests name; one that names the build folder itself needs everything."""
    root = pathlib.Path(build_dir).resolve()
    words = {pathlib.Path(os.path.normpath(root / word)) for test in tests for word in test["cmd"]}
    made = {pathlib.Path(file) for target in introspect(build_dir, "--targets") for file in target["filename"]}
    targets = sorted(str(word.relative_to(root)) for word in words & made)
    if everything or root in words:
        targets = ["all"]
    return not targets or subprocess.run(["ninja", "-C", build_dir, f"-j{os.cpu_count()}", *targets]).returncode == 0


def run(test, slow):
    is_gtest = pathlib.Path(test["cmd"][0]).name.startswith("test_")
    result = Result(test["name"])
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = test["cmd"] + ([f"--gtest_output=xml:{report}"] if is_gtest else [])
        code, output = execute(command, test, test["timeout"] * (SLOW_FACTOR if slow else 1))
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


def execute(command, test, timeout_s):
    """The exit code (None when the time ran out) and all output."""
    try:
        done = subprocess.run(command, cwd=test["workdir"], env={**os.environ, **test["env"]}, timeout=timeout_s, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as expired:
        return None, (expired.stdout or b"").decode(errors="replace")
    except OSError as error:
        return error.errno, str(error)


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


def run_all(tests, slow):
    """Two programs at a time; those that must run alone come last."""
    results = []
    for together, workers in ((True, 2), (False, 1)):
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(run, test, slow) for test in tests if test["is_parallel"] is together]
            for job in concurrent.futures.as_completed(jobs):
                result = job.result()
                results.append(result)
                print(f"{result.name:24} {result.passed:5} passed {len(result.failures):3} failed {result.skipped:3} skipped "
                      f"{result.seconds:7.1f} s", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir")
    parser.add_argument("--suite", action="append", default=[], help="run only this suite; may be given again")
    parser.add_argument("--slow", action="store_true", help=f"multiply the time limits by {SLOW_FACTOR}, for sanitized builds")
    arguments = parser.parse_args()

    tests = chosen_tests(arguments.build_dir, arguments.suite)
    if not build(arguments.build_dir, tests, everything=not arguments.suite):
        print("run_tests: the build failed\n0 passed, 1 failed, 0 skipped")
        return 1
    results = run_all(tests, arguments.slow)
    for result in results:
        for case, message in result.failures:
            print(f"\nFAILED {result.name} {case}\n{message}")
    failed = sum(len(result.failures) for result in results)
    print(f"\n{sum(result.passed for result in results)} passed, {failed} failed, {sum(result.skipped for result in results)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
