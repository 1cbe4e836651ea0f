"""What a section answers."""
import dataclasses

PASSED, FAILED, SKIPPED, NOT_RUN = "passed", "failed", "skipped", "not run"


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
    verdict: str            # one of the words above
    detail: str
    bars: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)    # (title, head, rows) for people
    data: dict = dataclasses.field(default_factory=dict)      # everything, for programs
    name: str = ""
    seconds: float = 0


def passed_if(ok):
    return PASSED if ok else FAILED


def sentence(*parts):
    return "; ".join(part for part in parts if part)
