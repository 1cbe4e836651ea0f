#!/usr/bin/env python3
"""Finds what pip installed that is no Python: headers and libraries in packages, such as cuDNN's in nvidia/cudnn/include and nvidia/cudnn/lib.

usage: pip_folders.py PATTERN...    for each, one line: the folder of the first file that it matches below sys.path; empty where none does
"""
import pathlib
import sys


def folder_of(pattern, places=None):
    """`pattern` is a path below a folder of `places`, such as nvidia/*/lib/libnvrtc.so.13."""
    for place in sys.path[1:] if places is None else places:    # the first is this script's own folder
        if found := sorted(pathlib.Path(place or ".").glob(pattern)):
            return str(found[0].absolute().parent)
    return ""


if __name__ == "__main__":
    print("\n".join(folder_of(pattern) for pattern in sys.argv[1:]))
