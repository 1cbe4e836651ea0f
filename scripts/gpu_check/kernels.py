"""Sections kernels and ladder: every kernel in percent of limits measured in the same run, products and attention beside PyTorch's."""
import json
import pathlib
import sys

from build import program
from result import Bar, Result, passed_if

HERE = pathlib.Path(__file__).resolve().parent
FORWARD_PERCENT, BACKWARD_PERCENT, PRODUCT_PERCENT, ATTENTION_RATIO = 75, 65, 95, 0.6
QUICK_ROWS = "^(softmax|layer_norm)/"
ALL_ROWS = "-^(convolution/|attention/gpt2_one_sample)"    # those have a section of their own


def run_ours(runner, path, arguments):
    """Rows of op_bench and the limits it measured; rows that went wrong carry "error_message"."""
    out = arguments.build_dir / "op_bench.json"
    out.unlink(missing_ok=True)
    outcome = runner.run([path, "--device", "cuda:0", "--dtype", "bf16", f"--benchmark_out={out}",
                          "--benchmark_out_format=json", f"--benchmark_filter={QUICK_ROWS if arguments.quick else ALL_ROWS}"], 0.7 * runner.left_s())
    if outcome.code != 0 or not out.exists():
        raise RuntimeError("op_bench ran past its time" if outcome.timed_out else f"op_bench ended with {outcome.code}")
    answer = json.loads(out.read_text())
    rows = [{**row, "name": row["name"].removesuffix("/iterations:1/manual_time")} for row in answer["benchmarks"]]
    return rows, {name: float(answer["context"][name]) for name in ("copy_GB/s", "product_TFLOP/s")}


def run_peer(runner, arguments):
    """{row: milliseconds} of PyTorch, or nothing and why."""
    outcome = runner.run([sys.executable, HERE / "torch_kernels.py", *(["--quick"] if arguments.quick else [])])
    for line in reversed(outcome.output.splitlines()):
        if line.startswith("{"):
            return json.loads(line), ""
    return {}, "PyTorch ran past its time" if outcome.timed_out else "PyTorch did not run: see kernels.log"


def slowest_bar(rows, direction, asked):
    chosen = [row for row in rows if row["label"] == "memory" and row["name"].endswith("/" + direction)]
    if not chosen:
        return []
    worst = min(chosen, key=lambda row: row["%limit"])
    return [Bar(6, f"memory-bound kernels, {direction}, of the copy bandwidth", f">= {asked} %",
                f"lowest {worst['%limit']:.0f} %: {worst['name']}", worst["%limit"] >= asked)]


def peer_bars(rows, peer):
    """Ours against PyTorch's milliseconds of the same row: speed is their time over ours."""
    bars = []
    for name, theirs_ms in peer.items():
        ours = next((row for row in rows if row["name"] == name), None)
        asked = PRODUCT_PERCENT / 100 if name.startswith("matmul/") else ATTENTION_RATIO
        if ours:
            ratio = theirs_ms / (ours["real_time"] / 1e3)
            bars.append(Bar(6, f"{name}, speed over PyTorch's best", f">= {asked} x", f"{ratio:.2f} x", ratio >= asked))
    return bars


def run(runner, machine, arguments):
    path = program(machine, arguments, "bench/op_bench")
    rows, limits = run_ours(runner, path, arguments)
    peer, trouble = run_peer(runner, arguments)
    broken = [row for row in rows if row.get("error_occurred")]
    whole = [row for row in rows if not row.get("error_occurred")]
    bars = [*slowest_bar(whole, "forward", FORWARD_PERCENT), *slowest_bar(whole, "backward", BACKWARD_PERCENT), *peer_bars(whole, peer)]
    head = ["kernel, bf16", "us", "GB/s", "TFLOP/s", "nearer limit", "% of it"]
    table = [[row["name"], f"{row['real_time']:.0f}", f"{row['GB/s']:.0f}", f"{row['GFLOP/s'] / 1e3:.1f}", row["label"],
              f"{row['%limit']:.0f}"] for row in whole]
    title = f"Kernels; limits of this run: copy {limits['copy_GB/s']:.0f} GB/s, product {limits['product_TFLOP/s']:.0f} TFLOP/s"
    errors = [f"{row['name']}: {row.get('error_message', '')}" for row in broken]
    detail = "; ".join(filter(None, [f"{len(whole)} rows", *errors, trouble]))
    return Result(passed_if(not broken and not trouble and all(bar.met for bar in bars)), detail, bars, [(title, head, table)],
                  {"limits": limits, "rows": rows, "pytorch_ms": peer})


def run_ladder(runner, machine, arguments):
    """Naive and shipped kernels; the program fails when their results differ."""
    outcome = runner.run([program(machine, arguments, "bench/ladder/ladder_bench"), "--json"])
    rows = [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]
    wrong = [f"{row['kernel']}: differs by {row['difference']:.2g}" for row in rows if not row["equal"]]
    head = ["kernel, bf16", "naive us", "shipped us", "times as fast", "naive % of limit", "shipped % of limit"]
    table = [[row["kernel"], f"{row['naive_us']:.0f}", f"{row['shipped_us']:.0f}", f"{row['naive_us'] / row['shipped_us']:.1f}",
              f"{row['naive_percent']:.0f}", f"{row['shipped_percent']:.0f}"] for row in rows]
    why = ["ran past its time"] if outcome.timed_out else [f"exit code {outcome.code}"] if outcome.code else []
    return Result(passed_if(not why and not wrong and rows), "; ".join([f"{len(rows)} kernels", *why, *wrong]), [],
                  [("Kernel ladder", head, table)], {"rows": rows})
