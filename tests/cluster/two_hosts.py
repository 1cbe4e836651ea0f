"""Two hosts on one machine: network namespaces with host names of their own, joined by one line.

A host lives as long as its first process, which reads from a pipe that only the maker holds: however that one ends, the namespaces and the line
go with it. Needs root.
"""
import collections
import ctypes
import fcntl
import os
import pathlib
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time

TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
LINE = "line"  # the name of the network device on both hosts
MTU = 65000    # of a line that takes time
LIBC = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Why this machine cannot have them; empty when it can."""
    if os.geteuid() != 0:
        return "two hosts on one machine need root"
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            return f"two hosts on one machine need `{tool}` of the package {package}"
    done = subprocess.run(["unshare", "--net", "--uts", "--mount", "ip", "link", "add", LINE, "type", "veth", "peer", "name", "peer"],
                          capture_output=True, text=True)
    return f"this machine lets nobody make two hosts: {done.stderr.strip()}" if done.returncode != 0 else ""


def processes_of(*namespaces):
    """Those that have ended but were not waited for do not count."""
    found = set()
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.readlink(folder / "ns" / "net") in namespaces and ") Z " not in (folder / "stat").read_text():
                found.add(int(folder.name))
        except OSError:
            pass  # it has ended
    return found


# Libraries look for network devices in /sys, which shows those of the host that mounted it.
SET_UP = "hostname {} && mount -t sysfs sysfs /sys && ip link set lo up && echo up && exec cat"


class Host:
    """One of two. `name` is its host name, `address` that on the line."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.first = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", SET_UP.format(name)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.first.stdout.readline() != "up\n":
            raise OSError(f"host {name} did not start")
        self.namespace = os.readlink(f"/proc/{self.first.pid}/ns/net")

    def enter(self, *command):
        """The command that runs `command` there."""
        return ["nsenter", "--target", str(self.first.pid), "--net", "--uts", "--mount", *map(str, command)]

    def run(self, *command):
        return subprocess.run(self.enter(*command), check=True, capture_output=True, text=True).stdout

    def sent_bytes(self):
        """Over the line, since it is there."""
        for text in pathlib.Path(f"/proc/{self.first.pid}/net/dev").read_text().splitlines():
            name, _, counts = text.partition(":")
            if name.strip() == LINE:
                return int(counts.split()[8])
        raise LookupError(f"host {self.name} has no {LINE}")

    def processes(self):
        """All that run there but the first one."""
        return processes_of(self.namespace) - {self.first.pid}

    def end(self):
        while left := self.processes():
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.05)
        self.first.stdin.close()
        self.first.stdout.close()
        self.first.kill()
        self.first.wait()


def inside(host, call):
    """The result of `call` on a thread that is in the host's network."""
    result = []

    def run():
        with open(f"/proc/{host.first.pid}/ns/net") as namespace:
            if LIBC.setns(namespace.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
                raise OSError(ctypes.get_errno(), "setns")
        result.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def tun():
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", LINE.encode(), 0x1001))  # TUNSETIFF; IFF_TUN, IFF_NO_PI
    return device


class DelayLine:
    """Carries packets between two TUN devices, each so many seconds after it came, in a process of its own until end()."""

    def __init__(self, hosts, seconds):
        ends = [inside(host, tun) for host in hosts]
        for host in hosts:
            host.run("ip", "link", "set", LINE, "mtu", MTU, "txqueuelen", 10000)
        self.process = os.fork()
        if self.process == 0:
            try:
                LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                first, last = sorted(ends)
                for begin, end in (3, first), (first + 1, last), (last + 1, 1024):
                    os.closerange(begin, end)  # such as the pipes that hosts live by
                self.carry(ends, seconds)
            finally:
                os._exit(1)
        for end in ends:
            os.close(end)

    @staticmethod
    def carry(ends, seconds):
        LIBC.prctl(29, 1)  # PR_SET_TIMERSLACK: waits end on time
        other = {ends[0]: ends[1], ends[1]: ends[0]}
        under_way = collections.deque()  # (due, end, packet)
        now = time.monotonic
        while True:
            while under_way and under_way[0][0] <= now():
                _, end, packet = under_way.popleft()
                try:
                    os.write(end, packet)
                except OSError:
                    pass  # lost, as packets may be
            left = under_way[0][0] - now() if under_way else 1
            ready, _, _ = select.select(ends, [], [], max(0, left))
            for end in ready:
                due = now() + seconds
                try:
                    while True:
                        under_way.append((due, other[end], os.read(end, MTU + 100)))
                except BlockingIOError:
                    pass

    def end(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


class TwoHosts:
    """Hosts "first" and "second", and an agent that launchers take for ssh. The line is a veth, or one that takes so many `seconds`."""

    def __init__(self, seconds=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-hosts-"))
        self.hosts, self.delay_line = [], None
        try:
            for name, address in ("first", "10.77.0.1"), ("second", "10.77.0.2"):
                self.hosts.append(Host(name, address))
            if seconds is None:
                self.hosts[0].run("ip", "link", "add", LINE, "type", "veth", "peer", "name", LINE, "netns", self.hosts[1].first.pid)
            else:
                self.delay_line = DelayLine(self.hosts, seconds)
            self.bring_up()
            self.agent = self.folder / "agent"
            cases = " ".join(f"{host.address}) host={host.first.pid};;" for host in self.hosts)
            self.agent.write_text("#!/bin/sh\n# In place of ssh: [-x] ADDRESS COMMAND\n[ \"$1\" = -x ] && shift\n"
                                  f"case $1 in {cases} *) echo \"no host $1\" >&2; exit 1;; esac\n"
                                  "shift\nexec nsenter --target $host --net --uts --mount sh -c \"$*\"\n")
            self.agent.chmod(0o755)
        except BaseException:
            self.end()
            raise

    def bring_up(self):
        for host in self.hosts:
            host.run("ip", "address", "add", f"{host.address}/24", "dev", LINE)
            host.run("ip", "link", "set", LINE, "up")
        while any(" DOWN " in host.run("ip", "-brief", "link", "show", LINE) for host in self.hosts):  # UCX leaves out what is not up yet
            time.sleep(0.01)

    def cut(self):
        self.hosts[0].run("ip", "link", "set", LINE, "down")

    def bytes_on_line(self):
        """Both ways."""
        return sum(host.sent_bytes() for host in self.hosts)

    def launcher(self, name, ranks):
        """The command, on the first host, that starts so many ranks, half of them on each; the program follows. One rank is on the first host."""
        counts = [max(1, ranks // 2)] * min(2, ranks)
        where = ",".join(f"{host.address}:{count}" for host, count in zip(self.hosts, counts))
        words = {
            "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "orte_base_help_aggregate", "0", "--mca", "plm_rsh_agent",
                        self.agent, "--host", where],
            # MPICH would find that both hosts share a memory, and not use the line.
            "mpich": ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", self.agent, "-genv", "UCX_TLS", "tcp,self", "-hosts", where],
        }[name]
        return self.hosts[0].enter("env", f"TMPDIR={self.folder}", *words, "-n", ranks)

    def end(self):
        if self.delay_line:
            self.delay_line.end()
            self.delay_line = None
        while self.hosts:
            self.hosts.pop().end()
        shutil.rmtree(self.folder, ignore_errors=True)


def measured_link(hosts):
    """Seconds one way of a small message, and bytes a second of a large one, by TCP."""
    first, second = hosts.hosts
    listener = inside(second, lambda: socket.create_server((second.address, 0)))
    sender = inside(first, lambda: socket.create_connection(listener.getsockname()))
    receiver, _ = listener.accept()
    for end in sender, receiver:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer(bytes_to_come, times):
        for _ in range(times):
            left = bytes_to_come
            while left > 0:
                left -= len(receiver.recv(min(left, 1 << 20)))
            receiver.sendall(b"x")

    def round_trip(bytes_to_go, times):
        echo = threading.Thread(target=answer, args=(bytes_to_go, times))
        echo.start()
        seconds = []
        data = bytes(bytes_to_go)
        for _ in range(times):
            start = time.monotonic()
            sender.sendall(data)
            sender.recv(1)
            seconds.append(time.monotonic() - start)
        echo.join()
        return statistics.median(seconds)

    round_trip(1 << 20, 20)  # opens the window
    latency = round_trip(1, 100) / 2
    large = 4 << 20
    bandwidth = large / (round_trip(large, 9) - 2 * latency)
    for end in sender, receiver, listener:
        end.close()
    return latency, bandwidth
