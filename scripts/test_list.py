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
    "guide finds planted differences": Expected(1),
    "configuring": Expected(15),
    "fresh systems": Expected(2),
    "loss curves": Expected(1),
    "test runner": Expected(30),
    "machine code finds planted offences": Expected(1),
    "machine code": Expected(40, not_with=SANITIZERS, needs="nvcc"),
    "gpu_check": Expected(20),
    "gpu_check_programs": Expected(7, not_with=SANITIZERS),
    "installed library": Expected(10, not_with=SANITIZERS),
    "guide": Expected(10, not_with=SANITIZERS),
    "shown plans": Expected(45, not_with=SANITIZERS),
    "example lenet": Expected(12, not_with=SANITIZERS),
    "example vit": Expected(32, not_with=SANITIZERS),
    "example char_lstm": Expected(16, not_with=SANITIZERS),
    "example encoder_decoder": Expected(10, not_with=SANITIZERS),
    "example vae": Expected(7, not_with=SANITIZERS),
    "example mixture_of_experts": Expected(15, not_with=SANITIZERS),
    "example custom_op": Expected(10, not_with=SANITIZERS),
    "example gan": Expected(12, not_with=SANITIZERS),
    "example diffusion": Expected(25, not_with=SANITIZERS),
    "example fine_tuning": Expected(16, not_with=SANITIZERS),
    "core": Expected(8),
    "autograd": Expected(1),
    "layers": Expected(2),
    "group": Expected(6),
    "schedule": Expected(27),
    "parallel": Expected(80),
    "data": Expected(3),
    "training": Expected(10),
    "cli": Expected(1),
    "program": Expected(25),
    "result files": Expected(7),
    "continued trainings": Expected(10),
    "checkpoints": Expected(45),
    "models": Expected(30),
    "translation": Expected(8),
    "verified checkpoints": Expected(15),
    "hostile commands": Expected(35),
    "lost work": Expected(80),
    "train until done": Expected(25),
    "group over openmpi": Expected(35, not_with=SANITIZERS, needs="Open MPI"),
    "group over mpich": Expected(20, not_with=SANITIZERS, needs="MPICH"),
    "training over openmpi": Expected(90, not_with=SANITIZERS, needs="Open MPI"),
    "training over mpich": Expected(60, not_with=SANITIZERS, needs="MPICH"),
    "two hosts over openmpi": Expected(60, not_with=SANITIZERS, needs="Open MPI"),
    "two hosts over mpich": Expected(55, not_with=SANITIZERS, needs="MPICH"),
    "failures over openmpi": Expected(35, not_with=SANITIZERS, needs="Open MPI"),
    "failures over mpich": Expected(30, not_with=SANITIZERS, needs="MPICH"),
    "saves over openmpi": Expected(25, not_with=SANITIZERS, needs="Open MPI"),
    "saves over mpich": Expected(20, not_with=SANITIZERS, needs="MPICH"),
    "issues": Expected(25),
    "ops": Expected(7),
    "emulation": Expected(3, not_with=EMULATED),
    "ops_emulated": Expected(13, not_with=EMULATED),
    "core_emulated": Expected(2, not_with=EMULATED),
    "cudnn_emulated": Expected(7, not_with=EMULATED),
    "nccl_emulated": Expected(70, not_with=EMULATED),
    "attention_by_cudnn_emulated": Expected(9, not_with=EMULATED),
    "attention_by_warpgroups_emulated": Expected(20, not_with=EMULATED),
    "convolution_by_cudnn_emulated": Expected(5, not_with=EMULATED),
    "training_emulated": Expected(20, not_with=EMULATED),
    "inference_emulated": Expected(5, not_with=EMULATED),
    "ladder_emulated": Expected(1, not_with=EMULATED),
    "cudnn_plans": Expected(5, not_with=SANITIZERS, needs="nvcc and the headers of cuDNN"),
    "nccl_library": Expected(1, not_with=SANITIZERS, needs="nvcc and the header of NCCL"),
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
