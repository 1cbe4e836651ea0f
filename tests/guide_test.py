#!/usr/bin/env python3
"""Compiles and runs the snippets of README and docs/guide as a reader would: against the installed library, each page as one program, and compares what
each snippet prints with the page. Names in the last column of a table have to be in the headers.

usage: guide_test.py BUILD_DIR [COMPILER]     the build must be complete
       guide_test.py --write BUILD_DIR        writes what the snippets print into the pages instead
       guide_test.py --self-test

A block ```cpp holds statements, but for its lines of #include and using, or with the word `file` what stands outside of functions. A block ```text
after it is what it prints; a snippet without one must print nothing.
"""
import os
import pathlib
import re
import sys
import tempfile

from install_test import only, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```cpp( file)?\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
MARK = "\x1e"
PREAMBLE = re.compile(r"^(#include .*|using namespace .*)\n", re.MULTILINE)


def program_of(page):
    """One program of all blocks of a page, which writes a mark after each block of statements, and the texts that the page shows for these."""
    top, main, shown = "", "", []
    for is_file, code, text in BLOCK.findall(page):
        if is_file:
            top += code
            continue
        top += "".join(line + "\n" for line in PREAMBLE.findall(code))
        main += PREAMBLE.sub("", code) + f'std::fflush(stdout); std::cout << "{MARK}" << std::flush;\n'
        shown.append(text)
    return f"#include <cstdio>\n#include <iostream>\n{top}int main() {{\n{main}}}\n", shown


def same(printed, shown):
    return [line.rstrip() for line in printed.rstrip().split("\n")] == [line.rstrip() for line in shown.rstrip().split("\n")]


def differences(page, name, output):
    _, shown = program_of(page)
    printed = output.split(MARK)[:-1]
    if len(printed) != len(shown):
        return [f"{name}: {len(printed)} of {len(shown)} snippets ran"]
    return [f"{name}, snippet {i + 1}: printed\n{got}\nthe page shows\n{want}"
            for i, (got, want) in enumerate(zip(printed, shown)) if not same(got, want)]


def with_output(page, output):
    """The page with what its snippets print."""
    printed = iter(output.split(MARK))

    def block(match):
        code = match.group(0).split("```text\n")[0]
        text = "" if match.group(1) else next(printed).rstrip()
        return code + (f"```text\n{text}\n```\n" if text else "")

    return BLOCK.sub(block, page)


def output_of(page, folder, compiler, environment):
    source, program = folder / "page.cpp", folder / "page"
    source.write_text(program_of(page)[0])
    flags = run("pkg-config", "--cflags", "--libs", "sluice", env=environment).split()
    run(compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-O1", source, *flags, "-o", program)
    return run(program, cwd=folder)


def unknown_names(page, headers):
    """Words of code in the last column of the page's tables that are in no header."""
    cells = re.findall(r"^\|.*\|([^|\n]*)\|$", page, re.MULTILINE)
    words = {word for cell in cells for code in re.findall(r"`([^`]+)`", cell) for word in re.findall(r"[A-Za-z_]\w+", code)}
    return sorted(words - set(re.findall(r"\w+", headers)))


def self_test():
    assert unknown_names("| a | b |\n|---|---|\n| `torch` | `known(x, 3)`, `Not::there` |\n", "int known(double);") == ["Not", "there"]
    page = "```cpp\n#include <x>\nf();\n```\n```text\n1\n```\n```cpp file\nint g();\n```\n```cpp\ng();\n```\n"
    program, shown = program_of(page)
    assert shown == ["1\n", ""], shown
    assert program.index("#include <x>") < program.index("int g();") < program.index("main") < program.index("f();"), program
    assert not differences(page, "page", f"1\n{MARK}{MARK}")
    assert "snippet 1" in differences(page, "page", f"2\n{MARK}{MARK}")[0]
    assert "snippet 2" in differences(page, "page", f"1\n{MARK}2{MARK}")[0]
    assert "1 of 2 snippets" in differences(page, "page", f"1\n{MARK}")[0]
    assert differences(with_output(page, f"3\n{MARK}{MARK}"), "page", f"3\n{MARK}{MARK}") == []


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    writes = sys.argv[1] == "--write"
    build_dir, *compiler = sys.argv[2 if writes else 1:]
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run("meson", "install", "-C", build_dir, "--no-rebuild", "--tags", "devel", "--destdir", folder / "installed")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(only(folder, "sluice.pc").parent)}
        headers = "".join(header.read_text() for header in only(folder, "sluice.h").parent.rglob("*.h"))
        for path in PAGES:
            page = path.read_text()
            if path.parent != ROOT:
                failures += [f"{path.name}: no header has '{name}'" for name in unknown_names(page, headers)]
            if not BLOCK.search(page):
                continue
            output = output_of(page, folder, compiler[0] if compiler else "g++", environment)
            if writes:
                path.write_text(with_output(page, output))
            failures += [] if writes else differences(page, path.name, output)
    return "\n".join(failures) or None


if __name__ == "__main__":
    sys.exit(main())
