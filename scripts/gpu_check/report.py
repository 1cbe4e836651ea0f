"""The table that people read, the JSON that programs read, and the archive of logs: three files, written anew after every section."""
import dataclasses
import io
import json
import os
import tarfile
import time

# Of each log in the archive, so that all together stay below 16 MiB even where nothing can be compressed.
MOST_LOG_BYTES = 1 << 20
ARCHIVE = "gpu-check-logs.tar.gz"


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in rows]


def summary(machine, results):
    """Machine, sections and bars."""
    lines = ["# GPU check", "", machine.describe() + time.strftime(", %Y-%m-%d %H:%M UTC", time.gmtime()), ""]
    lines += markdown_table(["section", "verdict", "s", "what came"],
                            [[result.name, result.verdict, f"{result.seconds:.0f}", result.detail] for result in results])
    bars = [bar for result in results for bar in result.bars]
    if bars:
        lines += ["", "## Bars", ""] + markdown_table(
            ["requirement", "what", "bar", "measured", "met"],
            [[bar.requirement, bar.what, bar.asked, bar.measured, "yes" if bar.met else "NO"] for bar in bars])
    return "\n".join(lines) + "\n"


def tables(results):
    lines = []
    for result in results:
        for title, head, rows in result.tables:
            if rows:
                lines += ["", f"## {title}", ""] + markdown_table(head, rows)
    return "\n".join(lines) + "\n"


def replace(path, content):
    """All of the file or the old one, whenever this process is ended."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def trimmed(content):
    """Begin and end of a long log."""
    if len(content) <= MOST_LOG_BYTES:
        return content
    note = b"\n# ... left out ...\n"
    half = (MOST_LOG_BYTES - len(note)) // 2
    return content[:half] + note + content[-half:]


def archived(logs):
    """The bytes of an archive of all files of a folder."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for log in sorted(logs.glob("*.log")):
            content = trimmed(log.read_bytes())
            info = tarfile.TarInfo(log.name)
            info.size, info.mtime = len(content), int(log.stat().st_mtime)
            tar.addfile(info, io.BytesIO(content))
    return archive.getvalue()


def write(out, logs, machine, results):
    replace(out / "gpu-check.md", (summary(machine, results) + tables(results)).encode())
    answer = {"machine": machine.describe(), "gpu": machine.gpu, "driver": machine.driver, "commit": machine.commit,
              "sections": [{key: value for key, value in dataclasses.asdict(result).items() if key != "tables"} for result in results]}
    replace(out / "gpu-check.json", (json.dumps(answer, indent=1) + "\n").encode())
    replace(out / ARCHIVE, archived(logs))
