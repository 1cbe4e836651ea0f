#!/usr/bin/env python3
"""Installs sluice/sluice.h and all headers that it includes, directly or not, below one folder: "core/tensor.h" becomes
"sluice/core/tensor.h", so that a program may have a core/tensor.h of its own. No other header is installed.

usage: install_headers.py SOURCE_ROOT INCLUDE_FOLDER     meson install calls it; INCLUDE_FOLDER is relative to the prefix
       install_headers.py --list SOURCE_ROOT             prints them instead, in one line
"""
import os
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def with_what_it_includes(root, first):
    """Path below `root` -> text, of `first` and of every header that it leads to."""
    texts, waiting = {}, [first]
    while waiting:
        path = waiting.pop()
        if path not in texts:
            texts[path] = (root / path).read_text()
            waiting += INCLUDE.findall(texts[path])
    return texts


def main():
    if sys.argv[1] == "--list":
        print(*sorted(with_what_it_includes(pathlib.Path(sys.argv[2]), "sluice/sluice.h")))
        return
    root = pathlib.Path(sys.argv[1])
    include = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / sys.argv[2]
    for path, text in with_what_it_includes(root, "sluice/sluice.h").items():
        target = include / "sluice" / path.removeprefix("sluice/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(INCLUDE.sub(r'#include "sluice/\1"', text))


if __name__ == "__main__":
    main()
