"""Every test that the project has, with the seconds that it takes on two cores beside another one.

The list is compared with what a build folder has, so that a suite which Meson left out (a package was missing when the folder was
configured) is an error and not a smaller number of cases.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Expected:
    seconds: float
    not_with: tuple = ()    # values of b_sanitize with which it is not built
    needs: str = ""         # what a machine may lack without an error


SANITIZERS = ("address,undefined", "thread")
EMULATED = ("thread",)      # which does not follow the emulation's fibers
TESTS = {
    "include rule": Expected(1),
    "include rule finds planted offences": Expected(1),
    "test runner": Expected(1),
    "gpu_check": Expected(15),
    "gpu_check_programs": Expected(15, not_with=SANITIZERS),
    "installed library": Expected(15, not_with=SANITIZERS),
    "core": Expected(15),
    "autograd": Expected(2),
    "layers": Expected(10),
    "schedule": Expected(60),
    "parallel": Expected(60),
    "data": Expected(15),
    "cli": Expected(2),
    "program": Expected(60),
    "hostile commands": Expected(25),
    "lost work": Expected(40),
    "issues": Expected(40),
    "ops": Expected(40),
    "emulation": Expected(5, not_with=EMULATED),
    "ops_emulated": Expected(60, not_with=EMULATED),
    "core_emulated": Expected(5, not_with=EMULATED),
    "cudnn_emulated": Expected(5, not_with=EMULATED),
    "attention_by_cudnn_emulated": Expected(5, not_with=EMULATED),
    "convolution_by_cudnn_emulated": Expected(5, not_with=EMULATED),
    "training_emulated": Expected(30, not_with=EMULATED),
    "ladder_emulated": Expected(5, not_with=EMULATED),
    "cudnn_plans": Expected(10, not_with=SANITIZERS, needs="nvcc and the headers of cuDNN"),
    "kernels of every architecture": Expected(600, not_with=SANITIZERS, needs="nvcc"),
}


def absent(found, sanitize, tests=None):
    """Names that the build folder lacks: (errors, allowed), each (name, reason)."""
    errors, allowed = [], []
    for name, expected in (tests or TESTS).items():
        if name in found or sanitize in expected.not_with:
            continue
        (allowed if expected.needs else errors).append((name, expected.needs))
    return errors, allowed


def unlisted(found, tests=None):
    return sorted(set(found) - set(tests or TESTS))


def seconds(name):
    return TESTS[name].seconds if name in TESTS else 0


# Seconds of a core that a step of the build takes, by what ninja says that it does.
BUILD_STEPS = {r"Compiling C\+\+ object": 1.6, r"Generating .*\.cu\.o": 20, r"Linking target": 0.7}
