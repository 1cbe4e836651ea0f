"""Section cudnn: Sluice's own kernels for convolutions and attention beside cuDNN's fastest algorithm that agrees with them, where cuDNN
is there. A row whose times are alike is one that cuDNN does not serve: attention backward of long sequences needs too large a workspace."""
from build import program
from op_bench import errors_in, run_rows
from result import Result, Skipped, passed_if, sentence

ROWS = {"bf16": "^(convolution|attention)/", "f32": "^convolution/"}


def times_us(runner, path, arguments, dtype, with_cudnn):
    """({row: microseconds}, what op_bench says of cuDNN, number of algorithms that were left out) of one run."""
    rows, context, output = run_rows(runner, path, arguments.build_dir / "cudnn.json", ROWS[dtype], dtype, 0.6 * runner.left_s(),
                                     {"SLUICE_CUDNN": "1" if with_cudnn else "0"}, tune="full")
    if errors := errors_in(rows):
        raise RuntimeError(errors[0])
    return {row["name"]: row["real_time"] for row in rows}, context["cuDNN"], output.count("is left out, because it deviates")


def run(runner, machine, arguments):
    path = program(machine, arguments, "bench/op_bench")
    table, data, left_out, version, troubles = [], {}, 0, "", []
    for dtype in ["bf16"] if arguments.quick else ROWS:
        try:
            theirs, version, warnings = times_us(runner, path, arguments, dtype, True)
            if not version[:1].isdigit():
                raise Skipped(version)
            ours, _, _ = times_us(runner, path, arguments, dtype, False)
        except RuntimeError as error:
            troubles.append(f"{dtype}: {error}")
            continue
        left_out += warnings
        table += [[f"{name}, {dtype}", f"{ours[name]:.0f}", f"{theirs[name]:.0f}", f"{ours[name] / theirs[name]:.2f}"] for name in ours]
        data[dtype] = {"own_us": ours, "cudnn_us": theirs}
    detail = f"{len(table)} rows, cuDNN {version or 'unknown'}, {left_out} algorithms left out because they deviate"
    head = ["operation", "own us", "us with cuDNN wherever it agrees", "times as fast"]
    return Result(passed_if(table and not troubles), sentence(detail, *troubles), [],
                  [("Convolutions and attention, own and cuDNN's", head, table)], data)
