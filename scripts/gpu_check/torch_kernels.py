#!/usr/bin/env python3
"""PyTorch's times of the rows of op_bench that are compared with it, in bf16 on this machine's GPU.

Prints one JSON line {row of op_bench: milliseconds}: the median of events around single calls, of the fastest backend.
"""
import argparse
import json
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
# (samples, heads, tokens, width of a head) of the rows of bench/gpu_cases.cpp
ATTENTION = {"width_64": (2, 32, 4096, 64), "width_96": (2, 21, 4096, 96), "width_128": (2, 16, 4096, 128), "width_256": (2, 8, 4096, 256),
             "gpt2": (32, 12, 1024, 64)}


def median_ms(prepare, timed, repeats):
    """`timed` gets what `prepare`, which is not timed, makes anew for it. The first calls warm up."""
    spans = []
    for turn in range(repeats + 3):
        made = prepare()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        timed(made)
        end.record()
        spans.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in spans[3:])


def product_ms(repeats):
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return median_ms(lambda: None, lambda _: a @ b.t(), repeats)


def attention_ms(shape, backend, repeats):
    """(forward, backward) of causal attention."""
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    dy = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(backend):
        forward = median_ms(lambda: None, lambda _: F.scaled_dot_product_attention(q, k, v, is_causal=True), repeats)
        backward = median_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                             lambda y: torch.autograd.grad(y, (q, k, v), dy), repeats)
    return forward, backward


def best_attention_ms(shape, repeats):
    times = []
    for backend in BACKENDS:
        try:
            times.append(attention_ms(shape, backend, repeats))
        except RuntimeError as error:       # a backend that this GPU or build lacks
            print(f"{backend}: {error}")
    return (min(column) for column in zip(*times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only whether it runs")
    repeats = 2 if parser.parse_args().quick else 20
    answer = {"matmul/8192/forward": product_ms(repeats)}
    for name, shape in ATTENTION.items():
        answer[f"attention/{name}/forward"], answer[f"attention/{name}/backward"] = best_attention_ms(shape, repeats)
    print(json.dumps(answer))


main()
