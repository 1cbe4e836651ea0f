"""What this machine has: the GPU, CUDA's tools, and the folder that gpu-check-prepare filled."""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

from runner import ROOT

sys.path.insert(1, str(ROOT / "scripts"))
from pip_folders import folder_of  # noqa: E402

# Kernels are compiled for one of these; a GPU takes code for its own major capability that is not newer than itself.
ARCHITECTURES = {80: "80", 90: "90a", 100: "100", 120: "120"}
# Dense bf16 products with f32 sums, FLOP/s of NVIDIA's data sheets: what MFU is a percentage of.
PEAK_BF16 = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "B200": 2250e12}


def answer_of(*command):
    """The command's first line, or nothing."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return lines[0].strip() if lines else ""


class Machine:
    def __init__(self, prepared):
        """`prepared`: the folder that gpu-check-prepare filled; it need not be there."""
        self.prepared = prepared
        fields = answer_of("nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total", "--format=csv,noheader").split(", ")
        self.gpu, self.capability, self.driver, memory = fields if len(fields) == 4 else ("", "", "", "")
        self.memory_gb = int(memory.removesuffix(" MiB")) * 2**20 / 1e9 if memory.endswith(" MiB") else 0      # 0: not told
        self.cuda = self._toolkit()
        self.sanitizer = self._tool("compute-sanitizer", "compute-sanitizer/compute-sanitizer")
        self.commit = answer_of("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD") or "unknown"
        self.environment = self._environment()

    @property
    def architecture(self):
        """Of the build; without a GPU that of an H200."""
        if not self.capability:
            return "90a"
        capability = int(float(self.capability) * 10 + 0.5)
        return ARCHITECTURES[max((known for known in ARCHITECTURES if known <= capability), default=80)]

    @property
    def peak_bf16(self):
        return next((peak for name, peak in PEAK_BF16.items() if name in self.gpu), None)

    def describe(self):
        return (f"gpu-check: {self.gpu or 'no GPU'}, driver {self.driver or '-'}, {os.cpu_count()} cores, {platform.platform()}, "
                f"Python {platform.python_version()}, CUDA at {self.cuda or '-'}, commit {self.commit}")

    @property
    def python(self):
        """The one that a user of this machine gets, and that has PyTorch if any has."""
        return self.tool("python3") or sys.executable

    def tool(self, name):
        return shutil.which(name, path=self.environment["PATH"])

    def _toolkit(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        return pathlib.Path(nvcc).resolve().parent.parent if os.access(nvcc, os.X_OK) else None

    def _tool(self, name, in_toolkit):
        places = [shutil.which(name), self.cuda and self.cuda / "bin" / name, self.cuda and self.cuda / in_toolkit]
        return next((str(place) for place in places if place and os.access(place, os.X_OK)), None)

    def _environment(self):
        """Of every command: CUDA's tools and, where it is there, the prepared folder before what the system has."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self.cuda:
            prepend(environment, "PATH", self.cuda / "bin")
            self._add_cublas(environment)
        if self.prepared.is_dir():
            libraries = self.prepared / "root/usr/lib/x86_64-linux-gnu"
            programs = [path for folder in ("bin", "python/bin") for path in (self.prepared / folder).iterdir()]
            for program in [*programs, self.prepared / "root/usr/bin/pkgconf"]:
                program.chmod(0o755)    # carrying a folder can lose it
            if not shutil.which("ninja"):
                prepend(environment, "PATH", self.prepared / "python/bin")
            prepend(environment, "PATH", self.prepared / "bin")
            environment["PKG_CONFIG"] = str(self.prepared / "bin/pkg-config")
            prepend(environment, "CPLUS_INCLUDE_PATH", self.prepared / "root/usr/include")
            prepend(environment, "LIBRARY_PATH", libraries)
            prepend(environment, "LD_LIBRARY_PATH", libraries)
        return environment

    def _add_cublas(self, environment):
        """A toolkit without cuBLAS is completed from PyTorch's packages, which name the library with its version only."""
        if any((self.cuda / folder / "libcublasLt.so").exists() for folder in ("lib64", "lib", "targets/x86_64-linux/lib")):
            return
        folder = folder_of("nvidia/*/lib/libcublasLt.so.*")
        if not folder:
            return
        library = next(pathlib.Path(folder).glob("libcublasLt.so.*"))
        links = ROOT / "build-gpu-libraries"
        links.mkdir(exist_ok=True)
        (links / "libcublasLt.so").unlink(missing_ok=True)
        (links / "libcublasLt.so").symlink_to(library)
        prepend(environment, "LIBRARY_PATH", links)
        prepend(environment, "LD_LIBRARY_PATH", library.parent)
        prepend(environment, "CPATH", library.parent.parent / "include")


def prepend(environment, name, path):
    environment[name] = f"{path}:{environment[name]}" if environment.get(name) else str(path)
