"""Section cudnn: Sluice's own kernels for convolutions and attention beside cuDNN's fastest algorithm that agrees with them, where cuDNN
is there. A row whose times are alike is one that cuDNN does not serve: attention backward of long sequences needs too large a workspace."""
import json

from build import program
from result import Result, Skipped, passed_if

ROWS = {"bf16": "^(convolution|attention)/", "f32": "^convolution/"}


def times_us(runner, path, arguments, dtype, with_cudnn):
    """({row: microseconds}, what op_bench says of cuDNN, warnings) of one run."""
    out = arguments.build_dir / "cudnn.json"
    out.unlink(missing_ok=True)
    outcome = runner.run([path, "--device", "cuda:0", "--dtype", dtype, f"--benchmark_filter={ROWS[dtype]}", f"--benchmark_out={out}",
                          "--benchmark_out_format=json"], extra_environment={"SLUICE_CUDNN": "1" if with_cudnn else "0"})
    if outcome.code != 0 or not out.exists():
        raise RuntimeError("op_bench ran past its time" if outcome.timed_out else f"op_bench ended with {outcome.code}")
    answer = json.loads(out.read_text())
    broken = [row for row in answer["benchmarks"] if row.get("error_occurred")]
    if broken:
        raise RuntimeError(f"{broken[0]['name']}: {broken[0].get('error_message', '')}")
    rows = {row["name"].removesuffix("/iterations:1/manual_time"): row["real_time"] for row in answer["benchmarks"]}
    return rows, answer["context"]["cuDNN"], outcome.output.count("sluice: warning: cuDNN")


def run(runner, machine, arguments):
    path = program(machine, arguments, "bench/op_bench")
    table, data, left_out = [], {}, 0
    for dtype in ["bf16"] if arguments.quick else ROWS:
        theirs, version, warnings = times_us(runner, path, arguments, dtype, True)
        if not version[:1].isdigit():
            raise Skipped(version)
        ours, _, _ = times_us(runner, path, arguments, dtype, False)
        left_out += warnings
        table += [[f"{name}, {dtype}", f"{ours[name]:.0f}", f"{theirs[name]:.0f}", f"{ours[name] / theirs[name]:.2f}"] for name in ours]
        data[dtype] = {"own_us": ours, "cudnn_us": theirs}
    detail = f"{len(table)} rows, cuDNN {version}, {left_out} algorithms left out because they deviate"
    head = ["operation", "own us", "us with cuDNN wherever it agrees", "times as fast"]
    return Result(passed_if(table), detail, [], [("Convolutions and attention, own and cuDNN's", head, table)], data)
