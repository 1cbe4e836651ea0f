"""Section steps: whole training steps of GPT-2 124M beside PyTorch's, in turn on the same GPU, and steps with CUDA graphs."""
import json
import re
import sys

from build import program
from result import Bar, Result, passed_if
from runner import ROOT, last_line

BATCH, TOKENS = 32, 1024
LAYERS, WIDTH, PARAMETERS = 12, 768, 124_439_808
FLOPS_A_TOKEN = 6 * PARAMETERS + 6 * LAYERS * WIDTH * TOKENS      # 6N + 6LCT: causal attention counted as the half that is computed
MFU_PERCENT, RATIO = 35, 0.9


# What CUDA graphs may gain by is launches: a large step has few for its time, many small micro-batches have many.
LARGE = ["--model", "gpt2-124m", "--batch", BATCH]
SMALL = ["--model", "gpt", "--batch", 8, "--micro-batches", 8]


def ours_alone_ms(runner, path, steps, choice=LARGE):
    """Median of our step, before anything else can use up the time."""
    outcome = runner.run([path, "--steps", steps, "--device", "cuda:0", "--precision", "bf16", *choice])
    found = re.search(r"median ([0-9.]+) ms", outcome.output)
    if outcome.code != 0 or not found:
        raise RuntimeError("step_bench: " + ("the time ran out" if outcome.timed_out else last_line(outcome.output)))
    return float(found.group(1))


def in_turn_ms(runner, path, out, steps, warmup):
    """{competitor: median} of all, step by step in turn, or nothing and why."""
    out.unlink(missing_ok=True)
    outcome = runner.run([sys.executable, ROOT / "bench/peers/run", "--ours", path, "--model", "gpt2-124m", "--device", "cuda:0",
                          "--precision", "bf16", "--batch", BATCH, "--json", out, "--steps", steps, "--warmup", warmup])
    if not out.exists():
        return {}, "PyTorch: " + ("the time ran out" if outcome.timed_out else last_line(outcome.output))
    answer = {name: times["median_ms"] for name, times in json.loads(out.read_text()).items()}
    lacking = [name for name in ("PyTorch eager", "PyTorch compiled") if name not in answer]
    return answer, f"no {', '.join(lacking)}: see steps.log" if lacking else ""


def graph_rows(runner, path, steps, large_ms):
    """A row a step: milliseconds without and with CUDA graphs. They have no bar: pipeline.cuda_graphs = "auto" measures whether they gain."""
    rows = []
    for name, choice, off in [(f"GPT-2 124M, {BATCH} x {TOKENS} tokens", LARGE, large_ms),
                              ("small GPT, 8 micro-batches of one sample", SMALL, None)]:
        off = off or ours_alone_ms(runner, path, steps, choice)
        on = ours_alone_ms(runner, path, steps, [*choice, "--graphs"])
        rows.append([name, f"{off:.2f}", f"{on:.2f}", f"{off / on:.3f}"])
    return rows


def row_of(name, milliseconds, peak):
    tokens = BATCH * TOKENS / milliseconds * 1e3
    return [name, f"{milliseconds:.1f}", f"{tokens:.0f}", f"{100 * tokens * FLOPS_A_TOKEN / peak:.1f}" if peak else "-"]


def bars_of(alone_ms, in_turn, peak):
    bars = []
    if peak:
        mfu = 100 * BATCH * TOKENS / alone_ms * 1e3 * FLOPS_A_TOKEN / peak
        bars.append(Bar(7, "GPT-2 124M, T 1024, bf16: MFU (6N + 6LCT)", f">= {MFU_PERCENT} %", f"{mfu:.1f} %", mfu >= MFU_PERCENT))
    peers = {name: value for name, value in in_turn.items() if name != "ours"}
    if peers:
        best = min(peers, key=peers.get)
        ratio = peers[best] / in_turn["ours"]
        bars.append(Bar(7, f"the same, speed over {best}, the faster", f">= {RATIO} x", f"{ratio:.2f} x", ratio >= RATIO))
    return bars


def run(runner, machine, arguments):
    path, peak = program(machine, arguments, "bench/step_bench"), machine.peak_bf16
    alone_ms = ours_alone_ms(runner, path, 3 if arguments.quick else 20)
    in_turn, trouble = in_turn_ms(runner, path, arguments.build_dir / "steps.json", *((3, 2) if arguments.quick else (40, 10)))
    bars = bars_of(alone_ms, in_turn, peak)
    try:
        graphs = graph_rows(runner, path, 3 if arguments.quick else 20, alone_ms)
    except RuntimeError as error:
        graphs, trouble = [], "; ".join(filter(None, [trouble, f"CUDA graphs: {error}"]))
    rows = [row_of("ours, alone", alone_ms, peak), *[row_of(f"{name}, in turn", value, peak) for name, value in in_turn.items()]]
    title = f"Training steps of GPT-2 124M, {BATCH} x {TOKENS} tokens, bf16, medians"
    detail = "; ".join(filter(None, [*[f"{name} {value} ms" for name, value, *_ in rows], trouble]))
    return Result(passed_if(not trouble and all(bar.met for bar in bars)), detail, bars,
                  [(title, ["step", "ms", "tokens/s", "MFU %"], rows),
                   ("Steps with CUDA graphs, bf16, medians", ["step", "without ms", "with ms", "times as fast"], graphs)],
                  {"alone_ms": alone_ms, "in_turn_ms": in_turn, "graphs_ms": graphs, "batch": BATCH})
