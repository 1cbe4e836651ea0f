"""What a section answers."""
import dataclasses


class Skipped(Exception):
    """A section that cannot run here, with the reason."""


@dataclasses.dataclass
class Bar:
    """One requirement of the GPU backend: what is asked, what came."""
    requirement: int        # number of the list in docs/performance.md, "On a GPU"
    what: str
    asked: str
    measured: str
    met: bool


@dataclasses.dataclass
class Result:
    verdict: str            # passed, failed, skipped
    detail: str
    bars: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)    # (title, head, rows) for people
    data: dict = dataclasses.field(default_factory=dict)      # everything, for programs
    name: str = ""
    seconds: float = 0


def passed_if(ok):
    return "passed" if ok else "failed"
