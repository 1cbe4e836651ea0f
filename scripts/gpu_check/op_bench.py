"""Runs op_bench and reads what it wrote."""
import json


def run_rows(runner, path, out, pattern, dtype="bf16", most_s=None, environment=None, tune="off"):
    """(rows with their plain names, context, output); rows that went wrong carry "error_message". What is tuned no other run reads.
    Raises RuntimeError when it did not end well."""
    out.unlink(missing_ok=True)
    if tune != "off":
        environment = {**(environment or {}), "SLUICE_CACHE_DIR": str(out.with_suffix(".caches"))}
    outcome = runner.run([path, "--device", "cuda:0", "--dtype", dtype, "--tune", tune, f"--benchmark_filter={pattern}",
                          f"--benchmark_out={out}", "--benchmark_out_format=json"], most_s, environment)
    if outcome.code != 0 or not out.exists():
        raise RuntimeError(f"op_bench {outcome.ending}")
    answer = json.loads(out.read_text())
    rows = [{**row, "name": row["name"].removesuffix("/iterations:1/manual_time")} for row in answer["benchmarks"]]
    return rows, answer["context"], outcome.output


def errors_in(rows):
    return [f"{row['name']}: {row.get('error_message', '')}" for row in rows if row.get("error_occurred")]
