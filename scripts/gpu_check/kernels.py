"""Sections kernels, ladder and epilogues: every kernel in percent of limits measured in the same run, products and attention beside
PyTorch's; own kernels beside naive ones; products of a backward with epilogues beside products and passes."""
import json
import pathlib

from build import program
from op_bench import errors_in, run_rows
from result import Bar, Result, passed_if, sentence
from runner import last_line

HERE = pathlib.Path(__file__).resolve().parent
FORWARD_PERCENT, BACKWARD_PERCENT, PRODUCT_PERCENT, ATTENTION_RATIO = 75, 65, 95, 0.6
# A process each, so that a faulty kernel costs its part only; a leading "-" takes what none of the others has. Convolutions have a section
# of their own.
PARTS = ["^(matmul|linear|linear_activation)/", "^attention/(width|gpt2/)", "^(adamw|adafactor|gradient_norm)/",
         "-^(matmul|linear|linear_activation|attention|adamw|adafactor|gradient_norm|convolution)/"]
QUICK_PARTS = ["^(softmax|layer_norm)/"]


def run_ours(runner, path, arguments):
    """(rows, the limits that op_bench measured, what went wrong)."""
    rows, limits, troubles = [], {}, []
    for part in QUICK_PARTS if arguments.quick else PARTS:
        try:
            found, context, _ = run_rows(runner, path, arguments.build_dir / "op_bench.json", part, most_s=0.5 * runner.left_s())
            rows += found
            limits = limits or {name: float(context[name]) for name in ("copy_GB/s", "product_TFLOP/s")}
        except RuntimeError as error:
            troubles.append(f"{part}: {error}")
    return rows, limits, troubles


def run_peer(runner, machine, arguments):
    """{row: milliseconds} of PyTorch, or nothing and why."""
    outcome = runner.run([machine.python, HERE / "torch_kernels.py", *(["--quick"] if arguments.quick else [])])
    for line in reversed(outcome.output.splitlines()):
        if line.startswith("{"):
            return json.loads(line), ""
    return {}, f"PyTorch: torch_kernels.py {outcome.ending}: {last_line(outcome.output)}"


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
    rows, limits, troubles = run_ours(runner, path, arguments)
    peer, lacking = run_peer(runner, machine, arguments)
    troubles += [*errors_in(rows), *([lacking] if lacking else [])]
    whole = [row for row in rows if not row.get("error_occurred")]
    bars = [*slowest_bar(whole, "forward", FORWARD_PERCENT), *slowest_bar(whole, "backward", BACKWARD_PERCENT), *peer_bars(whole, peer)]
    head = ["kernel, bf16", "us", "GB/s", "TFLOP/s", "nearer limit", "% of it"]
    table = [[row["name"], f"{row['real_time']:.0f}", f"{row['GB/s']:.0f}", f"{row['GFLOP/s'] / 1e3:.1f}", row["label"],
              f"{row['%limit']:.0f}"] for row in whole]
    measured = ", ".join(f"{name.replace('_', ' ')} {value:.0f}" for name, value in limits.items())
    return Result(passed_if(whole and not troubles and all(bar.met for bar in bars)), sentence(f"{len(whole)} rows", *troubles), bars,
                  [(f"Kernels; limits of this run: {measured}", head, table)], {"limits": limits, "rows": rows, "pytorch_ms": peer})


def run_ladder(runner, machine, arguments):
    """Naive and shipped kernels; the program fails when their results differ."""
    outcome = runner.run([program(machine, arguments, "bench/ladder/ladder_bench"), "--json"])
    rows = [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]
    wrong = [f"{row['kernel']}: differs by {row['difference']:.2g}" for row in rows if not row["equal"]]
    head = ["kernel, bf16", "naive us", "shipped us", "times as fast", "naive % of limit", "shipped % of limit"]
    table = [[row["kernel"], f"{row['naive_us']:.0f}", f"{row['shipped_us']:.0f}", f"{row['naive_us'] / row['shipped_us']:.1f}",
              f"{row['naive_percent']:.0f}", f"{row['shipped_percent']:.0f}"] for row in rows]
    why = "" if outcome.code == 0 else f"ladder_bench {outcome.ending}"
    return Result(passed_if(not why and not wrong and rows), sentence(f"{len(rows)} kernels", why, *wrong), [],
                  [("Kernel ladder", head, table)], {"rows": rows})


def run_epilogues(runner, machine, arguments):
    """What products of a backward would gain by epilogues of cuBLASLt that Sluice does not use."""
    outcome = runner.run([program(machine, arguments, "bench/epilogue_bench"), "--json"])
    rows = [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]
    table = [[row["row"], f"{row['apart_us']:.0f}", *([f"{row['fused_us']:.0f}", f"{row['bias_difference']:.2g}", row["same_bits"]]
                                                      if row["fused_us"] > 0 else ["no such product", "", ""])] for row in rows]
    why = "" if outcome.code == 0 else f"epilogue_bench {outcome.ending}"
    head = ["layer, bf16", "us apart", "us fused", "biases apart by", "the same bits every run"]
    return Result(passed_if(not why and rows), sentence(f"{len(rows)} rows", why), [], [("Epilogues of products", head, table)],
                  {"rows": rows})
