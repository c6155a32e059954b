# SPDX-License-Identifier: Apache-2.0
"""The load of replicas.py: workers that use all mounts of a volume and know, at any time, exactly what must be there.

Each worker changes only what is its own (a directory, and names of its own in a directory that all share), each step through a mount
chosen at random. Nothing may fail or last longer than BOUND, unless the mount that was used has been killed or cut off: then what was
under way has happened or not (of bytes: each one), is looked at, and must stay so.

Directories are renamed only below w*/m, which one machine uses by itself until the end: Linux answers ESTALE for a directory that it
knows by the place that it had before another machine moved it, if a rename is under way meanwhile (d_splice_alias)."""
import errno
import os
import random
import stat
import threading
import time

BOUND = 40.0  # seconds that any system call may take: max-wait, and what a busy machine adds
# What was under way in a mount that was killed is settled so long after: its sessions end (session-timeout), the coordinator hears of it and
# recovers. The same after a time without a coordinator.
AFTER_KILL, AFTER_COORDINATOR = 4.5, 2
MAX_BYTES = 6 << 20  # of one worker's files
BLOCK = 4064 if os.environ.get("CRYPT") == "1" else 0  # of encryption/crypt, which takes several steps where plain takes one


def half_truncated(old, size):
    """What else encryption/crypt may leave when its client dies (doc/crypt.md, "What a crash leaves")."""
    if not BLOCK or size == len(old):
        return []
    end = -(-min(size, len(old)) // BLOCK) * BLOCK  # of the block that ends elsewhere than before
    if size > len(old):
        return [old.ljust(min(end, size), b"\0")]
    end = min(end, len(old))
    return [old[:end], old[:size].ljust(end, b"\0")]


class Broken(Exception):
    """A property does not hold."""


class Excused(Exception):
    """The call failed because its mount was killed or cut off."""


class Mount:
    """One mount, as the workers see it."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.machine = name[0]
        self.killed_at = None
        self.cuts = []  # [from, to or None]: when it could not reach the servers

    def cut_between(self, begin, end):
        return sum(min(c[1] or end, end) - max(c[0], begin) + 0.001 for c in self.cuts if c[0] <= end and begin <= (c[1] or end) + 1)

    def usable(self):
        return self.killed_at is None and not (self.cuts and self.cuts[-1][1] is None)


class Judge:
    """What the workers share."""

    def __init__(self, log):
        self.mounts = []  # those to choose from
        self.problems = []
        self.stop = threading.Event()
        self.log, self.log_step = log, lambda text: None
        self.slowest = (0, "")
        self.coordinator_away, self.coordinator_back = False, 0

    def broken(self, text):
        self.problems.append(text)
        self.log("BROKEN: " + text)
        self.stop.set()
        raise Broken(text)

    def judge_time(self, mount, what, begin, end):
        took = end - begin
        if took > self.slowest[0]:
            self.slowest = (took, what)
        if took > 2:
            self.log(f"slow: {what} on {mount.name} took {took:.1f} s")
        if took > BOUND + mount.cut_between(begin, end) and mount.killed_at is None:
            self.broken(f"{what} on {mount.name} took {took:.1f} s")

    def judge_error(self, mount, what, begin, e):
        end = time.monotonic()
        if mount.killed_at is not None:
            return
        cut = mount.cut_between(begin, end)
        if cut and e.errno in (errno.EIO, errno.ENOTCONN, errno.ETIMEDOUT, errno.EBADF, errno.ESTALE):
            return
        self.broken(f"{what} on {mount.name} failed after {end - begin:.1f} s: {e}")


class File:
    def __init__(self, ino):
        self.ino, self.data, self.xattrs, self.mode = ino, bytearray(), {}, 0o644

    def fact(self):
        return ("file", self.ino)


class Dir:
    def __init__(self, ino):
        self.ino = ino

    def fact(self):
        return ("dir", self.ino)


def fact_of(st):
    return ("dir" if stat.S_ISDIR(st.st_mode) else "file", st.st_ino)


def fits(seen, wanted):
    """None in the place of an inode number: any."""
    return len(seen) == len(wanted) and all(s == w or (s and w and s[0] == w[0] and w[1] is None) for s, w in zip(seen, wanted))


class Worker(threading.Thread):
    def __init__(self, judge, number, seed):
        super().__init__(daemon=True)
        self.judge, self.number = judge, number
        self.rng = random.Random(seed * 100 + number)
        self.home = f"w{number}"
        self.moving = f"{self.home}/m"
        self.machine = "ab"[number % 2]  # for what is below `moving`
        self.names = {}  # path -> File or Dir, of all that is this worker's
        self.held = []  # open files: [descriptor, File, Mount]
        self.serial = self.done = 0
        self.began = False
        self.now = None  # (what, begin, mount): the call under way

    # ---- calls ----

    def call(self, mount, what, fn, *args, **kw):
        begin = time.monotonic()
        self.now = (what, begin, mount)
        try:
            result = fn(*args, **kw)
        except OSError as e:
            self.judge.judge_error(mount, what, begin, e)
            self.judge.log(f"excused: {what} on {mount.name}: {e.strerror}")
            raise Excused(what)
        finally:
            self.now = None
        self.judge.judge_time(mount, what, begin, time.monotonic())
        return result

    def moves(self, path):
        return (path + "/").startswith(self.moving + "/")

    def mount(self, *paths):
        alone = any(self.moves(p) for p in paths)
        while not self.judge.problems:
            usable = [m for m in self.judge.mounts if m.usable() and (not alone or m.machine == self.machine)]
            if usable:
                return self.rng.choice(usable)
            time.sleep(0.02)
        raise Broken("stopped")

    def settled(self, fn, *paths):
        """Asks until a mount answers that is not being killed or cut off; what a killed one had under way is over by then."""
        killed = [m.killed_at for m in self.judge.mounts + self.judge.gone if m.killed_at]
        time.sleep(max(0, (max(killed) if killed else 0) + AFTER_KILL - time.monotonic()))
        while killed and (self.judge.coordinator_away or time.monotonic() < self.judge.coordinator_back + AFTER_COORDINATOR):
            time.sleep(0.02)
        while True:
            m = self.mount(*paths)
            try:
                return fn(m)
            except Excused:
                time.sleep(0.1)

    # ---- looking ----

    def look(self, m, path):
        def lstat():
            try:
                return fact_of(os.lstat(f"{m.path}/{path}"))
            except FileNotFoundError:
                return None
        return self.call(m, f"lstat {path}", lstat)

    def read_file(self, m, path):
        fd = self.call(m, f"open {path} to read", os.open, f"{m.path}/{path}", os.O_RDONLY)
        try:
            parts = []
            while True:
                part = self.call(m, f"read {path}", os.read, fd, 1 << 20)
                if not part:
                    return b"".join(parts)
                parts.append(part)
        finally:
            self.close(m, fd, path)

    def close(self, m, fd, path):
        self.call(m, f"close {path}", os.close, fd)

    # ---- changing names ----

    def change(self, what, paths, after, fn, *tails):
        """fn with these paths in a mount; `after`: what must stand under each path then. True: it was done."""
        m = self.mount(*paths)
        before = [self.names[p].fact() if p in self.names else None for p in paths]
        try:
            self.call(m, what, fn, *(f"{m.path}/{p}" for p in paths), *tails)
            self.judge.log_step(f"{what} on {m.name}")
            return True
        except Excused:
            pass
        seen = self.settled(lambda m: [self.look(m, p) for p in paths], *paths)
        if fits(seen, before):
            return False
        if not fits(seen, after):
            self.judge.broken(f"{what} was cut off: it left {seen}, neither {before} nor {after}")
        return True

    def new_name(self):
        self.serial += 1
        moving = self.rng.random() < 0.4
        folders = [p for p, o in self.names.items() if isinstance(o, Dir) and self.moves(p) == moving]
        if self.rng.random() < 0.25:
            return f"shared/{self.home}-{self.serial}"
        return f"{self.rng.choice(folders)}/n{self.serial}"

    def some_file(self):
        files = [p for p, o in self.names.items() if isinstance(o, File)]
        return self.rng.choice(files) if files else None

    def some_dir(self):
        dirs = [p for p, o in self.names.items() if isinstance(o, Dir) and p not in (self.home, self.moving)]
        return self.rng.choice(dirs) if dirs else None

    def bytes_now(self):
        return sum(len(f.data) for f in {id(o): o for o in self.names.values() if isinstance(o, File)}.values())

    def make(self):
        path = self.new_name()
        if not self.change(f"create {path}", [path], [("file", None)], self.create):
            return
        ino = self.settled(lambda m: self.look(m, path), path)
        if not ino:
            self.judge.broken(f"{path} was created and is not there")
        self.names[path] = File(ino[1])
        large = self.rng.random() < 0.15 and self.bytes_now() < MAX_BYTES
        self.write_through(path, 0, self.content(self.rng.randrange(1 << 20, 5 << 19) if large else self.rng.randrange(9000)))

    @staticmethod
    def create(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))

    def make_dir(self):
        path = self.new_name()
        if path.count("/") > 4 or not self.change(f"mkdir {path}", [path], [("dir", None)], os.mkdir, 0o755):
            return
        seen = self.settled(lambda m: self.look(m, path), path)
        if not seen:
            self.judge.broken(f"{path} was made and is not there")
        self.names[path] = Dir(seen[1])

    def empty(self, path):
        return not any(p.startswith(path + "/") for p in self.names)

    def remove_dir(self):
        path = self.some_dir()
        if path and self.empty(path) and self.change(f"rmdir {path}", [path], [None], os.rmdir):
            del self.names[path]

    def rename_dir(self):
        old, new = self.some_dir(), self.new_name()
        if not old or not self.moves(old) or not self.moves(new) or new.startswith(old + "/") or new.count("/") > 5:
            return
        if self.change(f"rename {old} to {new}", [old, new], [None, self.names[old].fact()], os.rename):
            self.names = {new + p[len(old):] if p == old or p.startswith(old + "/") else p: o for p, o in self.names.items()}

    def rename(self):
        old = self.some_file()
        new = self.some_file() if self.rng.random() < 0.3 else self.new_name()
        if not old or not new or self.names.get(new) is self.names[old]:
            return
        if self.change(f"rename {old} to {new}", [old, new], [None, self.names[old].fact()], os.rename):
            self.names[new] = self.names.pop(old)

    def link(self):
        old, new = self.some_file(), self.new_name()
        if old and self.change(f"link {old} to {new}", [old, new], [self.names[old].fact()] * 2, os.link):
            self.names[new] = self.names[old]

    def unlink(self):
        path = self.some_file()
        if path and self.change(f"unlink {path}", [path], [None], os.unlink):
            del self.names[path]

    # ---- changing files ----

    def content(self, size):
        """No two pieces are alike."""
        self.serial += 1
        return self.rng.randbytes(size) if size > 64 else (b"%d.%d;" % (self.number, self.serial) * 16)[:size]

    def adopt(self, path, offset, data):
        """A write was cut off: each of its bytes is there or not, all others are as they were."""
        f = self.names[path]
        old = bytes(f.data)
        seen = self.settled(lambda m: self.read_file(m, path), path)
        new = bytearray(old.ljust(offset, b"\0"))
        new[offset:offset + len(data)] = data
        if not min(len(old), len(new)) <= len(seen) <= max(len(old), len(new)):
            self.judge.broken(f"{path} has {len(seen)} bytes after a write that was cut off, had {len(old)}, writing to {len(new)}")
        padded = old.ljust(len(new), b"\0")
        for i, b in enumerate(seen):
            if b != padded[i] and b != new[i]:
                self.judge.broken(f"{path}: byte {i} is neither as before nor as in the write that was cut off")
        f.data = bytearray(seen)

    def write_at(self, m, fd, path, offset, data):
        """In pieces, each acknowledged by itself."""
        f = self.names[path]
        while data:
            piece = data[:self.rng.choice((4096, 65536, 1 << 18, 1 << 20))]
            try:
                got = self.call(m, f"write {len(piece)} at {offset} of {path}", os.pwrite, fd, piece, offset)
            except Excused:
                self.adopt(path, offset, piece)
                raise
            self.put(f, offset, piece[:got])
            self.judge.log_step(f"wrote {got} at {offset} of {path} on {m.name}")
            offset, data = offset + got, data[got:]

    @staticmethod
    def put(f, offset, data):
        if data:
            f.data.extend(bytes(max(0, offset - len(f.data))))
            f.data[offset:offset + len(data)] = data

    def with_file(self, path, flags, fn):
        m = self.mount(path)
        fd = self.call(m, f"open {path}", os.open, f"{m.path}/{path}", flags)
        try:
            fn(m, fd)
            if self.rng.random() < 0.3:
                self.call(m, f"fsync {path}", os.fsync, fd)
        finally:
            self.close(m, fd, path)

    def write_through(self, path, offset, data):
        self.with_file(path, os.O_WRONLY, lambda m, fd: self.write_at(m, fd, path, offset, data))

    def overwrite(self):
        path = self.some_file()
        if path:
            self.write_through(path, self.rng.randrange(len(self.names[path].data) + 5000), self.content(self.rng.randrange(1, 9000)))

    def append(self):
        path = self.some_file()
        if not path:
            return
        f, data = self.names[path], self.content(self.rng.randrange(1, 5000))

        def one(m, fd):
            try:
                got = self.call(m, f"append {len(data)} to {path}", os.write, fd, data)
            except Excused:
                self.adopt(path, len(f.data), data)
                raise
            self.judge.log_step(f"appended {got} at {len(f.data)} of {path} on {m.name}")
            self.put(f, len(f.data), data[:got])
        self.with_file(path, os.O_WRONLY | os.O_APPEND, one)

    def truncate(self):
        path = self.some_file()
        if not path:
            return
        f = self.names[path]
        size = self.rng.randrange(len(f.data) + 100)
        new = f.data[:size].ljust(size, b"\0")
        m = self.mount(path)
        try:
            self.call(m, f"truncate {path} to {size}", os.truncate, f"{m.path}/{path}", size)
            f.data = bytearray(new)
            self.judge.log_step(f"truncated {path} to {size} on {m.name}")
        except Excused:
            seen = self.settled(lambda m: self.read_file(m, path), path)
            if seen not in (bytes(f.data), bytes(new), *half_truncated(bytes(f.data), size)):
                self.judge.broken(f"{path}: a truncate that was cut off left neither the old nor the new")
            f.data = bytearray(seen)

    def get_xattrs(self, m, path):
        full = f"{m.path}/{path}"
        names = self.call(m, f"listxattr {path}", os.listxattr, full)
        return {n: self.call(m, f"getxattr {path}", os.getxattr, full, n) for n in names if n.startswith("user.")}

    def xattr(self):
        path = self.some_file()
        if not path:
            return
        f, name, value = self.names[path], f"user.x{self.rng.randrange(4)}", self.content(self.rng.randrange(1, 60))
        new = {**f.xattrs, name: value}
        m = self.mount(path)
        try:
            self.call(m, f"setxattr {path}", os.setxattr, f"{m.path}/{path}", name, value)
            f.xattrs = new
        except Excused:
            seen = self.settled(lambda m: self.get_xattrs(m, path), path)
            if seen not in (f.xattrs, new):
                self.judge.broken(f"{path}: a setxattr that was cut off left neither the old nor the new")
            f.xattrs = seen

    def chmod(self):
        path = self.some_file()
        if not path:
            return
        f, mode = self.names[path], 0o600 + self.rng.randrange(64)
        m = self.mount(path)
        try:
            self.call(m, f"chmod {path}", os.chmod, f"{m.path}/{path}", mode)
            f.mode = mode
        except Excused:
            seen = self.settled(lambda m: self.call(m, f"stat {path}", os.stat, f"{m.path}/{path}").st_mode & 0o7777, path)
            if seen not in (f.mode, mode):
                self.judge.broken(f"{path}: a chmod that was cut off left neither the old nor the new")
            f.mode = seen

    # ---- files that stay open ----

    def hold(self):
        path = self.some_file()
        if path and len(self.held) < 6:
            m = self.mount(path)
            self.held.append((self.call(m, f"open {path} to hold", os.open, f"{m.path}/{path}", os.O_RDWR), self.names[path], m))

    def use_held(self):
        if not self.held:
            return
        fd, f, m = self.rng.choice(self.held)
        paths = [p for p, o in self.names.items() if o is f]
        if not paths or not m.usable() or self.rng.random() < 0.2:  # who is deleted while open may be lost with a brick: no claim
            self.held.remove((fd, f, m))
            self.close(m, fd, "a held file")
            return
        self.write_at(m, fd, paths[0], self.rng.randrange(len(f.data) + 100), self.content(self.rng.randrange(1, 3000)))
        if self.rng.random() < 0.3:
            self.call(m, f"fsync {paths[0]}, held", os.fsync, fd)

    # ---- checking ----

    def read(self):
        path = self.some_file()
        if path:
            self.check_file(self.mount(path), path)

    def check_file(self, m, path):
        f = self.names[path]
        seen = self.read_file(m, path)
        if seen != f.data:
            self.judge.broken(f"{path} on {m.name}: {self.difference(seen, bytes(f.data))}")

    @staticmethod
    def difference(seen, wanted):
        at = next((i for i, (a, b) in enumerate(zip(seen, wanted)) if a != b), min(len(seen), len(wanted)))
        return f"has {len(seen)} bytes for {len(wanted)}, differs from byte {at} on: {seen[at:at + 20]!r} for {wanted[at:at + 20]!r}"

    def check_listing(self, m, folder):
        seen = set(self.call(m, f"list {folder}", os.listdir, f"{m.path}/{folder}"))
        if folder == "shared":
            seen = {n for n in seen if n.startswith(self.home + "-")}
        wanted = {p[len(folder) + 1:] for p in self.names if p.startswith(folder + "/") and "/" not in p[len(folder) + 1:]}
        if seen != wanted:
            self.judge.broken(f"{folder} on {m.name} lacks {sorted(wanted - seen)[:5]} and has {sorted(seen - wanted)[:5]} besides")

    def listing(self):
        folders = [p for p, o in self.names.items() if isinstance(o, Dir)] + ["shared"]
        folder = self.rng.choice(folders)
        self.check_listing(self.mount(folder), folder)

    def check_all(self, m):
        """Every name and byte, through this mount."""
        for folder in [p for p, o in self.names.items() if isinstance(o, Dir)] + ["shared"]:
            self.check_listing(m, folder)
        for path, o in self.names.items():
            st = self.call(m, f"lstat {path}", os.lstat, f"{m.path}/{path}")
            if fact_of(st) != o.fact():
                self.judge.broken(f"{path} on {m.name} is {fact_of(st)}, not {o.fact()}")
            if isinstance(o, Dir):
                continue
            self.check_file(m, path)
            links = sum(1 for x in self.names.values() if x is o)
            if (st.st_mode & 0o7777, st.st_nlink) != (o.mode, links) or self.get_xattrs(m, path) != o.xattrs:
                self.judge.broken(f"{path} on {m.name}: mode, number of links or xattrs are not as they were set")

    # ---- the loop ----

    KINDS = ([make] * 5 + [overwrite] * 3 + [append] * 4 + [read] * 5 + [rename] * 3 + [unlink] * 3 + [truncate] * 2 + [link] * 2 +
             [make_dir] * 2 + [remove_dir, rename_dir, rename_dir, xattr, xattr, chmod, hold, hold, use_held, use_held, listing])

    def step(self):
        kind = self.rng.choice(self.KINDS)
        if len(self.names) > 60 or self.bytes_now() > 2 * MAX_BYTES:
            kind = self.rng.choice((Worker.unlink, Worker.unlink, Worker.remove_dir))
        try:
            kind(self)
            self.done += 1
        except Excused:
            pass

    def begin(self):
        for path in (self.home, self.moving):
            if not self.change(f"mkdir {path}", [path], [("dir", None)], os.mkdir):
                self.judge.broken(f"{path} could not be made")
            self.names[path] = Dir(self.settled(lambda m: self.look(m, path), path)[1])

    def run(self):
        try:
            self.begin()
            self.began = True
            while not self.judge.stop.is_set():
                self.step()
            for fd, _, m in self.held:
                try:
                    self.close(m, fd, "a held file")
                except Excused:
                    pass
        except Broken:
            pass
        except Exception as e:  # of any kind: the test itself is wrong, or a result makes no sense
            self.judge.problems.append(f"worker {self.number}: {e!r}")
            self.judge.log(f"worker {self.number}: {e!r}")
            self.judge.stop.set()
