#!/usr/bin/env python3
"""Runs the plans on described devices that the docs show, and compares every line that they show of the answer. Such plans are counted, so
that they are the same on every machine.

usage: shown_plans_test.py PROGRAM
"""
import pathlib
import re
import shlex
import subprocess
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
DESCRIBED = re.compile(r"\b(h100|h200|a100|p100|tpuv2|tpuv3)\b")


def words(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def shown_plans(text):
    """(command, lines that are shown of its answer) of each plan: an indented command and, after an empty line, an indented block."""
    for match in re.finditer(r"((?:^    .*\n)+)\n((?:^    .*\n)+)", text, re.MULTILINE):
        command = match[1].replace("\\\n", " ").strip()
        if command.startswith("sluice plan ") and "\n" not in command and DESCRIBED.search(command):
            yield command, words(match[2])


def main():
    program, found, failures = sys.argv[1], 0, []
    for page in sorted(DOCS.glob("*.md")):
        for command, shown in shown_plans(page.read_text()):
            found += 1
            done = subprocess.run([program, *shlex.split(command)[1:]], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            answer = words(done.stdout)
            failures += [f"{page.name}: '{command}' does not answer\n  {line}\nbut\n{done.stdout}{done.stderr}"
                         for line in shown if line not in answer]
    if found < 4:
        failures.append(f"needs the plans that the docs show, found {found}; has their form changed?")
    for failure in failures:
        print(f"shown_plans_test: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
