"""Section sanitizer: compute-sanitizer over a part of the kernel tests, as far as the time goes."""
import re

from build import program
from result import Bar, Result, Skipped, passed_if

# Values and gradients of own kernels. Products are cuBLAS's kernels, which take the tool minutes and are not ours to check.
PATTERNS = "{0}.ComputesTheReferenceInEveryDtype/*_on_cuda:{0}.HasTheGradientOfTheCpu/*_on_cuda:-*matmul*:*linear*".format("Ops/OpTest")
PROBE = "Ops/OpTest.ComputesTheReferenceInEveryDtype/softmax_small_on_cuda"
FINDINGS = 9    # the exit code that the tool is told to give


def check(runner, machine, path, tool, pattern, most_s):
    return runner.run([machine.sanitizer, "--tool", tool, "--error-exitcode", FINDINGS, path, f"--gtest_filter={pattern}"], most_s,
                      {"SLUICE_KEEP_MEMORY": "0"})    # every tensor then has bounds that the tool sees


def findings(outcome):
    """Number of errors that the tool reported, also of a run that the time ended."""
    total = re.search(r"(?:ERROR SUMMARY: |\()(\d+) errors?", outcome.output)
    if total:
        return int(total.group(1))
    return len(re.findall(r"^========= (?:Invalid|Error: |Program hit|ERROR: )", outcome.output, re.MULTILINE))


def run_tool(runner, machine, path, tool, pattern, most_s):
    """(bar, data) of one tool."""
    outcome = check(runner, machine, path, tool, pattern, most_s)
    clean, found = len(re.findall(r"^\[       OK \]", outcome.output, re.MULTILINE)), findings(outcome)
    ok = clean > 0 and found == 0 and outcome.code in (None, 0)
    until = ", the rest not within the time" if outcome.code is None else ""
    return Bar(5, f"compute-sanitizer {tool}", "clean", f"{found} findings, {clean} cases clean{until}", ok), {
        "findings": found, "cases": clean, "complete": outcome.code is not None}


def run(runner, machine, arguments):
    path = program(machine, arguments, "tests/ops/test_ops")
    if not machine.sanitizer:
        raise Skipped("compute-sanitizer is not installed")
    probe = check(runner, machine, path, "memcheck", PROBE, 0.5 * runner.left_s())
    if probe.code not in (0, FINDINGS) or "[       OK ]" not in probe.output:
        raise Skipped("compute-sanitizer does not work here: see sanitizer.log")
    pattern = PROBE if arguments.quick else PATTERNS
    bars, data = [], {}
    for tool, share in (("memcheck", 0.5), ("racecheck", 1)):
        bar, data[tool] = run_tool(runner, machine, path, tool, pattern, share * runner.left_s())
        bars.append(bar)
    return Result(passed_if(all(bar.met for bar in bars)), "; ".join(f"{bar.what}: {bar.measured}" for bar in bars), bars, data=data)
