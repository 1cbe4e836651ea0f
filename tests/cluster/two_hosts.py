"""Two hosts on one machine: network namespaces with host names of their own, joined by one line.

A host lives as long as its first process, which reads from a pipe that only the maker holds: however that one ends, the namespaces and the line
go with it. Needs root.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
LINE = "line"  # the name of the network device on both hosts


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
        self.first.wait()


class TwoHosts:
    """Hosts "first" and "second", and an agent that launchers take for ssh. The line is a veth unless `joins` is false: then the caller makes it."""

    def __init__(self, joins=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-hosts-"))
        self.hosts = []
        try:
            for name, address in ("first", "10.77.0.1"), ("second", "10.77.0.2"):
                self.hosts.append(Host(name, address))
            if joins:
                self.hosts[0].run("ip", "link", "add", LINE, "type", "veth", "peer", "name", LINE, "netns", self.hosts[1].first.pid)
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
        while self.hosts:
            self.hosts.pop().end()
        shutil.rmtree(self.folder, ignore_errors=True)
