#!/usr/bin/env python3
"""Writes a C++ source that includes a file of CUDA kernels, so that the C++ compiler takes it. usage: kernel_as_cpp.py KERNELS.cu OUT.cpp"""
import pathlib
import sys

kernels, out = map(pathlib.Path, sys.argv[1:])
out.write_text(f'#include "{kernels.resolve()}"\n')
