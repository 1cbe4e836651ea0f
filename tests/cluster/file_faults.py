"""The library file_faults.cpp from Python: variables that tell it what to do, and the calls that it wrote down."""
import collections
import os
import pathlib

Call = collections.namedtuple("Call", "rank process name descriptor offset path other_path is_done content")


def variables(library, folder, *, log=None, rank=None, at=None, do=None, calls=None, mark=None):
    """Words for env(1), before the program of a rank."""
    words = [f"LD_PRELOAD={library}", f"FILE_FAULTS_FOLDER={folder}"]
    for name, value in dict(LOG=log, RANK=rank, AT=at, DO=do, CALLS=calls, MARK=mark).items():
        if value is not None:
            words.append(f"FILE_FAULTS_{name}={value}")
    return ["env", *words]


def read_log(path):
    """All calls of all ranks, in the order in which they happened."""
    data, position, calls = pathlib.Path(path).read_bytes(), 0, []
    while position < len(data):
        end = data.index(b"\n", position)
        rank, process, name, descriptor, offset, length, first, second, end_of_call = data[position:end].decode().split("\t")
        position = end + 1 + int(length)
        calls.append(Call(int(rank), int(process), name, int(descriptor), int(offset), first, second, end_of_call == "done", data[end + 1:position]))
    return calls


class File:
    def __init__(self):
        self.synced = b""
        self.pending = []    # (offset, content), or None where it was emptied

    def text(self):
        """As programs see it."""
        return self.content(self.pending).decode()

    def content(self, changes):
        content = bytearray(self.synced)
        for change in changes:
            if change is None:
                content.clear()
            else:
                offset, written = change
                content.extend(bytes(max(0, offset - len(content))))
                content[offset:offset + len(written)] = written
        return bytes(content)

    def after_cut(self, choose, random):
        """What of it is on the disk. The last write may be there by half."""
        changes = choose(self.pending, in_order=True)
        if changes and random is not None and changes[-1] is not None:
            offset, written = changes[-1]
            changes = [*changes[:-1], (offset, written[:random.randrange(len(written) + 1)])]
        return self.content(changes)


class Folder:
    def __init__(self):
        self.synced = {}
        self.names = {}      # as programs see it


class Disk:
    """What a disk holds of the calls so far, as programs see it, and as it may be after a cut of power.

    A file has what was written to it before its last fsync. A name is made, renamed or gone for certain only after an fsync of its folder.
    All else may be on the disk or not: each write in its order, each change of a name by itself.
    """

    def __init__(self, root, ignored=()):
        self.root, self.tree, self.open_files = pathlib.Path(root), Folder(), {}
        self.changes = []        # of names: (folders that it is in, [(folder, name, what stands there then)])
        self.ignored = ignored   # kinds of fsync that are taken for nothing: "files", "folders"

    def place(self, path):
        folder = self.tree
        *parents, name = pathlib.Path(os.path.normpath(path)).relative_to(self.root).parts or (None,)
        for parent in parents:
            folder = folder.names[parent]
        return folder, name

    def at(self, path):
        folder, name = self.place(path)
        return folder if name is None else folder.names[name]

    def change(self, *entries):
        for folder, name, what in entries:
            folder.names.pop(name, None) if what is None else folder.names.__setitem__(name, what)
        self.changes.append(entries)

    def apply(self, call):
        if call.is_done:
            getattr(self, call.name)(call)

    def open(self, call):
        folder, name = self.place(call.path)
        if name is not None and call.offset & os.O_CREAT and name not in folder.names:
            self.change((folder, name, File()))
        opened = folder if name is None else folder.names[name]
        if isinstance(opened, File) and call.offset & os.O_TRUNC:
            opened.pending.append(None)
        self.open_files[call.process, call.descriptor] = opened

    def mkdir(self, call):
        self.change((*self.place(call.path), Folder()))

    def write(self, call):
        self.open_files[call.process, call.descriptor].pending.append((call.offset, call.content))

    def allocate(self, call):
        pass  # room without content

    def fsync(self, call):
        what = self.open_files[call.process, call.descriptor]
        if isinstance(what, File):
            if "files" not in self.ignored:
                what.synced, what.pending = what.content(what.pending), []
        elif "folders" not in self.ignored:
            for change in self.changes:
                if any(folder is what for folder, _, _ in change):
                    self.settle(change, lambda folder: folder.synced)
            self.changes = [change for change in self.changes if all(folder is not what for folder, _, _ in change)]

    def rename(self, call):
        what, source, target = self.at(call.path), self.place(call.path), self.place(call.other_path)
        self.change((*source, None), (*target, what))

    def unlink(self, call):
        self.change((*self.place(call.path), None))

    rmdir = unlink

    @staticmethod
    def settle(change, names_of):
        for folder, name, what in change:
            names_of(folder).pop(name, None) if what is None else names_of(folder).__setitem__(name, what)

    def after_cut(self, choose, random=None):
        """{path: content, or None for a folder}. `choose` says which of a list of pending changes are on the disk."""
        names = {}
        names_of = lambda folder: names.setdefault(id(folder), dict(folder.synced))
        for change in choose(self.changes, in_order=False):
            self.settle(change, names_of)
        found = {}

        def walk(folder, path):
            for name, what in names_of(folder).items():
                if isinstance(what, Folder):
                    found[path / name] = None
                    walk(what, path / name)
                else:
                    found[path / name] = what.after_cut(choose, random)
        walk(self.tree, pathlib.PurePath())
        return found


def nothing(pending, in_order):
    return []


def everything(pending, in_order):
    return list(pending)


def some(random):
    """Writes up to a random one, and any names."""
    def choose(pending, in_order):
        if in_order:
            return pending[:random.randrange(len(pending) + 1)]
        return [change for change in pending if random.random() < 0.5]
    return choose


def put(state, folder):
    folder.mkdir()
    for path, content in state.items():
        (folder / path).mkdir() if content is None else (folder / path).write_bytes(content)
