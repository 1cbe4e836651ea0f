"""The table that people read and the JSON that programs read."""
import dataclasses
import json
import time


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in rows]


def markdown(machine, results):
    lines = ["# GPU check", "", machine.describe() + time.strftime(", %Y-%m-%d %H:%M UTC", time.gmtime()), ""]
    lines += markdown_table(["section", "verdict", "s", "what came"],
                            [[result.name, result.verdict, f"{result.seconds:.0f}", result.detail] for result in results])
    bars = [bar for result in results for bar in result.bars]
    if bars:
        lines += ["", "## Bars", ""] + markdown_table(
            ["requirement", "what", "bar", "measured", "met"],
            [[bar.requirement, bar.what, bar.asked, bar.measured, "yes" if bar.met else "NO"] for bar in bars])
    for result in results:
        for title, head, rows in result.tables:
            if rows:
                lines += ["", f"## {title}", ""] + markdown_table(head, rows)
    return "\n".join(lines) + "\n"


def write(out, machine, results):
    text = markdown(machine, results)
    (out / "gpu-check.md").write_text(text)
    answer = {"machine": machine.describe(), "gpu": machine.gpu, "driver": machine.driver, "commit": machine.commit,
              "sections": [{key: value for key, value in dataclasses.asdict(result).items() if key != "tables"} for result in results]}
    (out / "gpu-check.json").write_text(json.dumps(answer, indent=1) + "\n")
    print("\n" + text, flush=True)
