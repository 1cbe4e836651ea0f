#!/usr/bin/env python3
"""Reads the machine code of the kernels that a build folder has: how wide they access memory, whether they spill, what they use.

usage: check.py LIBRARY NVCC             LIBRARY is libsluice-core.a, beside whose folder of objects it stands
       check.py --update LIBRARY NVCC    writes the table of each architecture that is there, tests/machine_code/sm_90a.txt
       check.py --self-test
Exit 1 with a line for each offence; 77 when cuobjdump is missing.

Rules, for any compiler: no kernel spills but those of SPILLS, within their bounds, and one that the table knows to store 16 bytes at a
time, or to ask for several loads of 16 bytes before it uses the first, does so. With the nvcc that made the table of EXACT every line is
equal; CI does not build the other architectures, so their tables may be older than the kernels and serve the rules alone. Kernels of f64
are left out: they are there to check others.
"""
import argparse
import collections
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import pip_folders  # noqa: E402

SKIPPED = 77
EXACT = "sm_90a"
# What may use a stack: pattern of the kernel, of architectures, most bytes, why.
SPILLS = [
    (r"^sinusoids fill_sinusoids<", "", 40, "sin and cos of a large argument reduce it by a table; it runs once"),
    (r"^elementwise map_tiles<(Value|Slope|SlopeAdded)Of<(Sin|Cos|Tan), ", "", 64, "sin and cos of a large argument reduce it by a table"),
    (r"^noise make_noise<", "", 40, "likewise"),
    (r"^attention attend_mma<128, ", "^sm_(80|100)$", 16, "all registers of a thread are taken"),
    (r"^attention (key_gradients|query_gradient)_mma<(64|128), ", "^sm_1[02]0$", 24,
     "all registers of a thread are taken; on sm_80 and sm_90a they are enough"),
    (r"^attention attend<bfloat16, float>", "^sm_100$", 16, "1024 threads a multiprocessor leave 64 registers"),
]
REGISTERS_OF_MULTIPROCESSOR, MOST_THREADS = 65536, {"sm_86": 1536, "sm_89": 1536, "sm_120": 1536}
WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}     # bits; 32 where an instruction names none

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?([A-Z][\w.]*) ?([^;]*);")
NO_RESULT = re.compile(r"ST|RED|ATOM(?!G|S)|BRA|BSSY|BSYNC|BAR|EXIT|RET|CALL|WARPSYNC|MEMBAR|CCTL|LDGSTS|NOP")


def loads_at_once(body):
    """How many loads of 16 bytes a thread asks for at most before an instruction reads what one of them brings, in the order in which the
    instructions lie. What a branch jumps over belongs to another way and reads nothing of the loads before it."""
    waiting, apart, end, most = {}, {}, 0, 0        # first register of a load: its four; those before a branch, until its end
    for address, predicate, operation, operands in INSTRUCTION.findall(body):
        if int(address, 16) >= end:
            waiting, apart = waiting | apart, {}
        registers = [int(number) for number in re.findall(r"\bR(\d+)\b", operands)]
        has_result = bool(re.match(r"R\d+\b", operands)) and not NO_RESULT.match(operation)
        read = set(registers[1:] if has_result else registers)
        if any(read & held for held in waiting.values()):
            waiting = {}
        if has_result:
            waiting = {first: held for first, held in waiting.items() if registers[0] not in held}
        if operation.startswith("LDG") and ".128" in operation and has_result:
            waiting[registers[0]] = set(range(registers[0], registers[0] + 4))
            most = max(most, len(waiting | apart))
        if operation == "BRA" and not predicate and not apart and (target := re.match(r"0x([0-9a-f]+)", operands)):
            if int(target[1], 16) > int(address, 16):
                waiting, apart, end = {}, waiting, int(target[1], 16)
    return most


class Kernel:
    def __init__(self, name, body, usage):
        self.name = name
        self.loads, self.stores = (self.widths(instruction, body) for instruction in ("LDG", "STG"))
        self.at_once = loads_at_once(body)
        self.spills = bool(re.search(r"\b(STL|LDL)\b", body))
        self.registers, self.stack, self.shared = (int(re.search(rf"{what}:(\d+)", usage).group(1)) for what in ("REG", "STACK", "SHARED"))

    @staticmethod
    def widths(instruction, body):
        counted = collections.Counter()
        for suffixes in re.findall(rf"\b{instruction}((?:\.\w+)*) ", body):
            counted[next((WIDTHS[word] for word in suffixes.split(".") if word in WIDTHS), 32)] += 1
        return counted

    def line(self, architecture):
        def text(counted):
            return " ".join(f"{bits}x{counted[bits]}" for bits in sorted(counted, reverse=True)) or "none"

        most = MOST_THREADS.get(architecture, 2048)
        threads = min(most, REGISTERS_OF_MULTIPROCESSOR // (-(-self.registers // 8) * 8) // 32 * 32)
        return (f"{self.name}: loads {text(self.loads)}, at once {self.at_once}, stores {text(self.stores)}, "
                f"registers {self.registers}, threads {threads}, stack {self.stack}, shared {self.shared}")


def plain_name(demangled):
    """bias_forward<Gelu, 4, float> of a signature."""
    name = re.sub(r"\(anonymous namespace\)::|sluice::(?:\w+::)*", "", demangled).removeprefix("void ")
    depth = 0
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return name[:at]
    return name


def output_of(command, text=None, folder=None):
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"} if folder else None
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout


def kernels_in(source, code, usage):
    """{architecture: [Kernel]} of one object; `code` and `usage` are what cuobjdump -sass and -res-usage print of it."""
    used = {architecture: dict(re.findall(r"Function (\S+?):\s*\n\s*(REG:.*)", part))
            for architecture, part in re.findall(r"\barch = (\S+)(.*?)(?=\barch = |\Z)", usage, re.DOTALL)}
    names = sorted(set().union(*used.values()))
    plain = dict(zip(names, map(plain_name, output_of(["c++filt"], "\n".join(names)).splitlines())))
    found = collections.defaultdict(list)
    for part in re.split(r"\n\s*code for ", code)[1:]:
        head, *functions = re.split(r"Function : (\S+)", part)
        architecture = head.split()[0]
        for function, body in zip(functions[::2], functions[1::2]):
            if not re.search(r"\bdouble\b", plain[function]):
                found[architecture].append(Kernel(f"{source} {plain[function]}", body, used[architecture][function]))
    return found


def tools_folder(nvcc):
    """Where cuobjdump and the nvdisasm that it calls are: on PATH, beside nvcc, or of pip's packages."""
    of_path = pathlib.Path(shutil.which("cuobjdump") or "").parent
    of_pip = [pip_folders.folder_of("nvidia/*/bin/cuobjdump", places) for places in ([HERE.parent.parent / ".cuda-tools"], None)]
    places = [of_path, pathlib.Path(nvcc).resolve().parent, *map(pathlib.Path, of_pip)]
    return next((str(place.resolve()) for place in places if all((place / tool).is_file() for tool in ("cuobjdump", "nvdisasm"))), None)


def kernels_of(library, folder):
    found = collections.defaultdict(list)
    objects = sorted(pathlib.Path(library + ".p").glob("*_cuda.cu.o"))
    if not objects:
        sys.exit(f"machine_code: needs objects of kernels in {library}.p, found none; build with -Dcuda=enabled")
    for source in objects:
        code, usage = (output_of([folder + "/cuobjdump", what, str(source)], folder=folder) for what in ("-sass", "-res-usage"))
        for architecture, kernels in kernels_in(source.name.removesuffix("_cuda.cu.o"), code, usage).items():
            found[architecture] += kernels
    return found


def table_text(release, architecture, kernels):
    head = (f"# Kernels of {architecture} by {release}. Accesses of global memory: bits x instructions; "
            "threads: those of a multiprocessor that registers allow.\n")
    return head + "".join(sorted(kernel.line(architecture) + "\n" for kernel in kernels))


def is_exact(release, architecture, table):
    return architecture == EXACT and release in (table.splitlines() or [""])[0]


def offences(release, architecture, kernels, table):
    """Lines that say what is wrong; `table` is the text of the architecture's file, or empty."""
    wrong = []
    for kernel in kernels:
        allowed = next((most for pattern, where, most, _ in SPILLS
                        if re.search(pattern, kernel.name) and re.search(where, architecture)), 0)
        if kernel.stack > allowed or (kernel.spills and allowed == 0):
            wrong.append(f"{kernel.name} ({architecture}): spills, its stack has {kernel.stack} bytes and {allowed} are allowed; "
                         "keep less in registers at once, or give the reason in SPILLS")
    wide, many = ({line.split(": loads")[0] for line in table.splitlines() if re.search(what, line)}
                  for what in (r"stores 128x", r"at once ([2-9]|\d\d)"))
    for kernel in kernels:
        if kernel.name in many and kernel.at_once < 2:
            wrong.append(f"{kernel.name} ({architecture}): needs to ask for several loads of 16 bytes before it uses the first; "
                         "hold them as Whole of core/ops/packs_cuda.cuh")
        if kernel.name in wide and not kernel.stores[128]:
            wrong.append(f"{kernel.name} ({architecture}): needs stores of 16 bytes, has {dict(kernel.stores)}; "
                         "write with store_whole of core/cuda/kernel.h")
    if is_exact(release, architecture, table):
        now = table_text(release, architecture, kernels)
        wrong += difflib.unified_diff(table.splitlines(), now.splitlines(), f"the table of {architecture}", "this build", lineterm="", n=0)
    return wrong


def check(arguments, folder):
    release = re.search(r"release [^,]*, (V\S+)", output_of([arguments.nvcc, "--version"])).group(1)
    wrong = []
    for architecture, kernels in kernels_of(arguments.library, folder).items():
        file = HERE / f"{architecture}.txt"
        if arguments.update:
            file.write_text(table_text("nvcc " + release, architecture, kernels))
        table = file.read_text() if file.exists() else ""
        found = offences("nvcc " + release, architecture, kernels, table)
        exact = is_exact("nvcc " + release, architecture, table)
        against = "its table" if exact else f"the rules alone (only {EXACT} has its table line by line, by one nvcc)"
        several = [kernel for kernel in kernels if kernel.loads[128] > 1]
        print(f"{architecture}: {len(kernels)} kernels held against {against}: {len(found)} lines; of {len(several)} with several loads of "
              f"16 bytes {sum(kernel.at_once == 1 for kernel in several)} use each before they ask for the next")
        wrong += found
    if wrong:
        print("\n".join(wrong))
        print(f"machine_code: if this is meant, run {sys.argv[0]} --update {arguments.library} {arguments.nvcc} "
              "and look at the change of the table")
    return 1 if wrong else 0


PLANTED = """
	code for sm_90a
		Function : _Z4wideIfEvPf
	.headerflags	@"x"
        /*0000*/                   LDG.E.128 R4, desc[UR4][R4.64] ;   /* 0x */
        /*0010*/                   BRA 0x0030 ;                       /* 0x */
        /*0020*/                   IADD3 R9, R4, R5, RZ ;             /* 0x */
        /*0030*/                   LDG.E.128 R8, desc[UR4][R8.64] ;   /* 0x */
        /*0040*/              @!P0 STG.E.128 desc[UR4][R12.64], R4 ;  /* 0x */
        /*0050*/                   LDG.E.128 R4, desc[UR4][R2.64] ;   /* 0x */
		Function : _Z6narrowIfEvPf
        /*0000*/                   LDG.E.U16 R4, desc[UR4][R4.64] ;   /* 0x */
        /*0010*/                   STG.E desc[UR4][R8.64], R4 ;       /* 0x */
        /*0020*/                   STL.64 [R1], R4 ;                  /* 0x */
		Function : _Z4wideIdEvPd
        /*0000*/                   STL.64 [R1], R4 ;                  /* 0x */
"""
USAGE = """
arch = sm_80
 Function _Z4wideIfEvPf:
  REG:99 STACK:99 SHARED:99 LOCAL:0
arch = sm_90a
 Function _Z4wideIfEvPf:
  REG:40 STACK:0 SHARED:16 LOCAL:0
 Function _Z6narrowIfEvPf:
  REG:64 STACK:8 SHARED:0 LOCAL:0
 Function _Z4wideIdEvPd:
  REG:64 STACK:8 SHARED:0 LOCAL:0
"""


def self_test():
    kernels = kernels_in("planted", PLANTED, USAGE)["sm_90a"]
    table = table_text("nvcc V1", "sm_90a", kernels)
    assert table.splitlines()[1:] == [
        "planted narrow<float>: loads 16x1, at once 0, stores 32x1, registers 64, threads 1024, stack 8, shared 0",
        "planted wide<float>: loads 128x3, at once 2, stores 128x1, registers 40, threads 1632, stack 0, shared 16"], table
    assert [line.split(":")[0] for line in offences("nvcc V1", "sm_90a", kernels, table)] == ["planted narrow<float> (sm_90a)"]
    kernels[0].stores = collections.Counter({32: 4})
    by_rule = offences("nvcc V2", "sm_90a", kernels, table)
    assert len(by_rule) == 2 and "needs stores of 16 bytes" in by_rule[1], by_rule
    by_table = offences("nvcc V1", "sm_90a", kernels, table)
    assert any(line.startswith("+planted wide<float>: loads 128x3, at once 2, stores 32x4") for line in by_table), by_table
    assert not any(line.startswith("+") for line in offences("nvcc V1", "sm_80", kernels, table))
    kernels[0].at_once = 1
    assert "several loads" in offences("nvcc V2", "sm_90a", kernels, table)[1]
    assert not offences("nvcc V1", "sm_90a", kernels[:1], "")
    print("planted offences are found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("library")
    parser.add_argument("nvcc")
    arguments = parser.parse_args()
    folder = tools_folder(arguments.nvcc)
    if not folder:
        print("machine_code: skipped, needs cuobjdump and nvdisasm, which come with the CUDA toolkit, or by "
              "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
        return SKIPPED
    return check(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
