#!/usr/bin/env python3
"""That the programs of bench print what scripts/gpu-check reads, seen on the CPU. usage: gpu_check_programs_test.py STEP_BENCH OP_BENCH"""
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "gpu_check"))
import beside_cudnn  # noqa: E402
import kernels  # noqa: E402
import smoke  # noqa: E402
import steps  # noqa: E402

STEP_BENCH, OP_BENCH = sys.argv[1:3]


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class StepBench(unittest.TestCase):
    def test_says_its_median_and_what_each_node_takes_of_such_a_step(self):
        output = output_of(STEP_BENCH, "--steps", "3", "--nodes", "--model", "gpt-bytes", "--batch", "2", "--micro-batches", "2")
        nodes, update_ms, together_ms, step_ms = steps.nodes_in(output)
        self.assertGreater(steps.median_in(output), 0)
        self.assertIn("block5.attention", [name for name, _, _ in nodes])
        for name, forward, backward in nodes:
            self.assertGreater(forward, 0, name)
            self.assertGreater(backward, 0, name)
        self.assertAlmostEqual(sum(forward + backward for _, forward, backward in nodes) + update_ms, together_ms, delta=0.01)
        self.assertTrue(0.5 * step_ms < together_ms < 1.2 * step_ms, f"{together_ms} ms of nodes in a step of {step_ms} ms")


class RowsOfTheGpu(unittest.TestCase):
    def test_fit_together_and_count_what_a_step_of_gpt2_moves(self):
        output = output_of(OP_BENCH, "--device", "meta", "--dtype", "bf16")
        lines = re.findall(r"^(\S+) +([0-9.]+) GFLOP +([0-9.]+) GB$", output, re.MULTILINE)
        rows = {name: (float(flops), float(bytes_)) for name, flops, bytes_ in lines}
        parameters = 124_439_808
        self.assertAlmostEqual(rows["adamw/gpt2/forward"][1], parameters * (4 * 4 + 3 * 4 + 2) / 1e9, delta=0.01)
        self.assertAlmostEqual(rows["gradient_norm/gpt2/forward"][1], parameters * 4 / 1e9, delta=0.01)
        for vocabulary in (50257, 50304):
            self.assertAlmostEqual(rows[f"linear/gpt2_logits_{vocabulary}/forward"][0], 2 * 16384 * 768 * vocabulary / 1e9, delta=0.01)
        for row in rows:                # each is in one part of the section kernels, or in the section cudnn alone
            parts = [part for part in kernels.PARTS if bool(re.search(part.removeprefix("-"), row)) != part.startswith("-")]
            elsewhere = re.search(beside_cudnn.ROWS["bf16"], row) is not None
            self.assertTrue(len(parts) == 1 or (not parts and elsewhere), f"{row} is in {parts}")
        for pattern in [*kernels.QUICK_PARTS, smoke.CUDNN_ROWS]:
            self.assertTrue(any(re.search(pattern, row) for row in rows), pattern)
        self.assertGreater(rows["attention/gpt2/backward"][0], 2 * rows["attention/gpt2/forward"][0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
