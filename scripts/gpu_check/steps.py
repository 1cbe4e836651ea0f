"""Section steps: whole training steps of GPT-2 124M, what each node takes inside them, tuned, beside PyTorch's in turn on the same GPU, and
with CUDA graphs. Each is a process of its own with its share of the time: what one lacks costs no other."""
import json
import re
import shlex
import shutil

from build import program
from result import Bar, Result, passed_if, sentence
from runner import ROOT, last_line

BATCH, TOKENS = 32, 1024
# In turn three processes hold their step's memory at once: ours and PyTorch's two. Where they would not fit, a smaller batch is compared.
SMALLER_BATCH, ROOMY_GB = 16, 130
LAYERS, WIDTH, PARAMETERS = 12, 768, 124_439_808
FLOPS_A_TOKEN = 6 * PARAMETERS + 6 * LAYERS * WIDTH * TOKENS      # 6N + 6LCT: causal attention counted as the half that is computed
MFU_PERCENT, RATIO = 35, 0.9


# What CUDA graphs may gain by is launches: a large step has few for its time, many small micro-batches have many.
LARGE = ["--model", "gpt2-124m", "--batch", BATCH]
SMALL = ["--model", "gpt", "--batch", 8, "--micro-batches", 8]


class Bench:
    """step_bench, whose tuning reads and writes nothing but a cache folder of this run's own."""

    def __init__(self, runner, path, arguments):
        self.runner, self.path = runner, path
        self.steps = 3 if arguments.quick else 20
        caches = arguments.build_dir.with_name(arguments.build_dir.name + "-caches")
        shutil.rmtree(caches, ignore_errors=True)
        self.environment = {"SLUICE_CACHE_DIR": str(caches)}

    def output(self, share, *options):
        """What it printed; `share`: of the time that is left, at most."""
        outcome = self.runner.run([self.path, "--steps", self.steps, "--device", "cuda:0", "--precision", "bf16", *options],
                                  share * self.runner.left_s(), self.environment)
        if outcome.code != 0:
            raise RuntimeError(f"step_bench {outcome.ending}: {last_line(outcome.output)}")
        return outcome.output

    def median_ms(self, share, *options):
        return median_in(self.output(share, *options))


def median_in(output):
    found = re.search(r"median ([0-9.]+) ms", output)
    if not found:
        raise RuntimeError(f"step_bench: {last_line(output)}")
    return float(found.group(1))


def nodes_in(output):
    """([name, forward ms, backward ms] of each node, ms of the update, of all together, of such a step) as step_bench --nodes prints."""
    lines = re.findall(r"^node (\S+) +forward +([0-9.]+) ms +backward +([0-9.]+) ms$", output, re.MULTILINE)
    nodes = [[name, float(forward), float(backward)] for name, forward, backward in lines]
    whole = re.search(r"^norm and update ([0-9.]+) ms; all together ([0-9.]+) ms of a step of ([0-9.]+) ms$", output, re.MULTILINE)
    if not nodes or not whole:
        raise RuntimeError(f"step_bench --nodes: {last_line(output)}")
    return nodes, *(float(number) for number in whole.groups())


def node_table(nodes, update_ms, together_ms, step_ms):
    """Nodes that differ in their number alone are one row."""
    kinds = {}
    for name, forward, backward in nodes:
        kinds.setdefault(re.sub(r"\d+", "*", name), []).append((forward, backward))
    rows = []
    for name, times in kinds.items():
        forward, backward = (sum(column) for column in zip(*times))
        rows.append([name, len(times), f"{forward:.3f}", f"{backward:.3f}", f"{100 * (forward + backward) / step_ms:.1f}"])
    rows.append(["norm and update", 1, "", f"{update_ms:.3f}", f"{100 * update_ms / step_ms:.1f}"])
    rows.append(["all together", len(nodes), "", f"{together_ms:.3f}", f"{100 * together_ms / step_ms:.1f}"])
    title = f"Nodes inside a step of {step_ms:.2f} ms, every node a stage of its own"
    return title, ["node", "number", "forward ms", "backward ms", "% of the step"], rows


def batch_in_turn(machine):
    return BATCH if machine.memory_gb >= ROOMY_GB else SMALLER_BATCH


def in_turn_ms(bench, machine, out, steps, warmup):
    """{competitor: median} of all, step by step in turn, or nothing and why. PyTorch takes up to a minute to compile."""
    out.unlink(missing_ok=True)
    ours = shlex.join([str(bench.path), "--tune", "quick"])     # as a training tunes by default
    outcome = bench.runner.run([machine.python, ROOT / "bench/peers/run", "--ours", ours, "--model", "gpt2-124m",
                                "--device", "cuda:0", "--precision", "bf16", "--batch", batch_in_turn(machine),
                                "--json", out, "--steps", steps, "--warmup", warmup],
                               0.7 * bench.runner.left_s(), bench.environment)
    if not out.exists():
        raise RuntimeError(f"PyTorch: bench/peers/run {outcome.ending}: {last_line(outcome.output)}")
    answer = {name: times["median_ms"] for name, times in json.loads(out.read_text()).items()}
    lacking = [name for name in ("PyTorch eager", "PyTorch compiled") if name not in answer]
    return answer, f"no {', '.join(lacking)}: see steps.log" if lacking else ""


def graph_rows(bench, large_ms):
    """A row a step: milliseconds without and with CUDA graphs. No bar: pipeline.cuda_graphs = "auto" measures whether they gain."""
    rows = []
    for name, choice, off in [(f"GPT-2 124M, {BATCH} x {TOKENS} tokens", LARGE, large_ms),
                              ("small GPT, 8 micro-batches of one sample", SMALL, None)]:
        off = off or bench.median_ms(0.5, *choice)
        on = bench.median_ms(0.5, *choice, "--graphs")
        rows.append([name, f"{off:.2f}", f"{on:.2f}", f"{off / on:.3f}"])
    return rows


def tokens_per_s(batch, milliseconds):
    return batch * TOKENS / milliseconds * 1e3


def mfu_percent(batch, milliseconds, peak):
    return 100 * tokens_per_s(batch, milliseconds) * FLOPS_A_TOKEN / peak


def row_of(name, batch, milliseconds, peak):
    return [name, batch, f"{milliseconds:.1f}", f"{tokens_per_s(batch, milliseconds):.0f}",
            f"{mfu_percent(batch, milliseconds, peak):.1f}" if peak else "-"]


def rows_of(alone, in_turn, batch, peak):
    """Ours alone by {name: milliseconds}, and all in turn by batches of their own."""
    timed = [(name, BATCH, milliseconds) for name, milliseconds in alone.items() if milliseconds]
    timed += [(f"{name}, in turn", batch, milliseconds) for name, milliseconds in in_turn.items()]
    return [row_of(*one, peak) for one in timed]


def bars_of(alone_ms, in_turn, batch, peak):
    bars = []
    if peak and alone_ms:
        mfu = mfu_percent(BATCH, alone_ms, peak)
        bars.append(Bar(7, "GPT-2 124M, T 1024, bf16: MFU (6N + 6LCT)", f">= {MFU_PERCENT} %", f"{mfu:.1f} %", mfu >= MFU_PERCENT))
    peers = {name: value for name, value in in_turn.items() if name != "ours"}
    if peers:
        best = min(peers, key=peers.get)
        ratio = peers[best] / in_turn["ours"]
        bars.append(Bar(7, f"the same, batch {batch}, speed over {best}, the faster", f">= {RATIO} x", f"{ratio:.2f} x", ratio >= RATIO))
    return bars


class Attempts:
    """What was tried one after the other, and what went wrong."""

    def __init__(self):
        self.troubles = []

    def __call__(self, what, function, otherwise):
        try:
            return function()
        except (RuntimeError, ValueError, OSError) as error:
            self.troubles.append(f"{what}: {error}")
            return otherwise


def run(runner, machine, arguments):
    bench, peak, attempt = Bench(runner, program(machine, arguments, "bench/step_bench"), arguments), machine.peak_bf16, Attempts()
    alone_ms = attempt("alone", lambda: bench.median_ms(0.3, *LARGE), None)
    turns = (3, 2) if arguments.quick else (40, 10)
    in_turn, lacking = attempt("in turn", lambda: in_turn_ms(bench, machine, arguments.build_dir / "steps.json", *turns), ({}, ""))
    nodes = attempt("nodes", lambda: nodes_in(bench.output(0.3, *LARGE, "--nodes")), None)
    tuned_ms = attempt("tuned", lambda: bench.median_ms(0.4, *LARGE, "--tune", "quick"), None)
    graphs = attempt("CUDA graphs", lambda: graph_rows(bench, alone_ms), [])
    batch = batch_in_turn(machine)
    rows = rows_of({"ours, alone": alone_ms, "ours, alone, tuned": tuned_ms}, in_turn, batch, peak)
    bars, troubles = bars_of(alone_ms, in_turn, batch, peak), [*attempt.troubles, lacking]
    title = f"Training steps of GPT-2 124M, samples of {TOKENS} tokens, bf16, medians"
    return Result(passed_if(not any(troubles) and all(bar.met for bar in bars)),
                  sentence(*[f"{name} {value} ms" for name, _, value, *_ in rows], *troubles), bars,
                  [(title, ["step", "samples", "ms", "tokens/s", "MFU %"], rows), *([node_table(*nodes)] if nodes else []),
                   ("Steps with CUDA graphs, bf16, medians", ["step", "without ms", "with ms", "times as fast"], graphs)],
                  {"alone_ms": alone_ms, "tuned_ms": tuned_ms, "nodes_ms": nodes, "in_turn_ms": in_turn, "graphs_ms": graphs,
                   "batch": BATCH, "batch_in_turn": batch})
