#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""storm.py DIR... --seed N --seconds S [--dies] [--top]: links, names, files and small directories in directories of several subvolumes, in each DIR (mounts of one volume) by two
processes that share most of the names. Each file says which it is. With --dies the last mount may end at any time; with --top half of the names are in DIR itself.

Afterwards, through the first: each file has as many names as it has links, its text is its own, and names of one file agree."""
import argparse
import collections
import ctypes
import errno
import os
import random
import stat
import sys
import time

p = argparse.ArgumentParser()
p.add_argument("mounts", nargs="+")
p.add_argument("--seed", type=int, required=True)
p.add_argument("--seconds", type=float, required=True)
p.add_argument("--dies", action="store_true")
p.add_argument("--top", action="store_true")
p.add_argument("--names", type=int, default=6)
a = p.parse_args()
DIRS = [f"dir{i}" for i in range(12)]
# EPERM: a link to a directory. EINVAL: a directory into itself.
EXPECTED = {errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EPERM, errno.EINVAL}
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ENODEV}


def make(path, mark):
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    except FileExistsError:
        fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)  # what is there
        os.close(fd)
        return
    os.write(fd, mark.encode())
    os.close(fd)


LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(x, y):
    if LIBC.renameat2(-100, x.encode(), -100, y.encode(), 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read(path):
    with open(path) as f:
        text = f.read()
    if text and not text.startswith("mark "):
        sys.exit(f"{path} says {text[:40]!r}")


def work(top, who):
    rng = random.Random(f"{a.seed}-{who}")
    end = time.monotonic() + a.seconds
    count = collections.Counter()

    def some():
        below = f"/n{rng.randrange(a.names)}" if rng.random() < 0.15 else ""
        if a.top and rng.random() < 0.5:
            return f"{top}/t{rng.randrange(5 * a.names)}{below}"
        return f"{top}/{rng.choice(DIRS)}/n{rng.randrange(a.names)}{below}"

    # Who has waited all the time for a server that was killed or stood still goes on until something is done.
    while time.monotonic() < end + (0 if count else 60):
        what = rng.choice(["make", "make", "link", "link", "link", "unlink", "unlink", "rename", "rename", "exchange", "mkdir", "rmdir", "read",
                           "list", "stat"])
        try:
            if what == "make":
                make(some(), f"mark {who} {rng.random()}")
            elif what == "link":
                os.link(some(), some())
            elif what == "unlink":
                os.unlink(some())
            elif what == "rename":
                os.rename(some(), some())
            elif what == "exchange":
                exchange(some(), some())
            elif what == "mkdir":
                path = some()
                os.mkdir(path)
                make(f"{path}/precious", "mark inside")
            elif what == "rmdir":
                path = some()
                os.unlink(f"{path}/precious")
                os.rmdir(path)
            elif what == "read":
                read(some())
            elif what == "list":
                os.listdir(f"{top}/{rng.choice(DIRS)}")
            else:
                os.stat(some())
            count[what] += 1
        except OSError as e:
            if a.dies and top == a.mounts[-1] and e.errno in GONE:
                return
            # The kernel itself says so where a directory that the other mount has moved is met while this one renames between directories
            # (__d_unalias does not wait for that), and it may meet it again when it looks once more. Whether the mount said it, the mount tells
            # (away.sh).
            if e.errno not in EXPECTED | {errno.ESTALE}:
                sys.exit(f"{what} in {top}: {e}")
    if not count:
        sys.exit(f"{who} did nothing in {top}")
    if who == 0:
        print("done:", ", ".join(f"{n} {w}" for w, n in sorted(count.items())))


def agree(ino, paths):
    """What is wrong with the names of one file, or None."""
    stats = {path: os.stat(path) for path in paths}
    texts = {open(path).read() for path in paths}
    others = [path for path in paths if stats[path].st_ino != ino]
    links = {st.st_nlink for st in stats.values()}
    if others:
        return f"{ino:x}: {others} is another file now"
    if links != {len(paths)}:
        return f"{ino:x}: {len(paths)} names {paths}, but {sorted(links)} links"
    if len(texts) != 1 or not all(t == "" or t.startswith("mark ") for t in texts):
        return f"{ino:x}: {paths} say {sorted(texts)}"


def look(top):
    """All names once: what is wrong, and how many there are."""
    names, directories, wrong = collections.defaultdict(list), collections.defaultdict(list), []
    for path, dirs, files in os.walk(top, onerror=lambda e: wrong.append(f"{e.filename} can't be listed: {e.strerror}")):
        for name in dirs + files:
            try:
                found = os.lstat(f"{path}/{name}")
                (directories if stat.S_ISDIR(found.st_mode) else names)[found.st_ino].append(f"{path}/{name}")
            except OSError as e:
                wrong.append(f"{path}/{name} is listed, but can't be looked at: {e.strerror}")
    wrong += [f"directory {ino:x} has {len(paths)} names {paths}" for ino, paths in directories.items() if len(paths) > 1]
    for ino, paths in names.items():
        try:
            wrong += filter(None, [agree(ino, paths)])
        except OSError as e:
            wrong.append(f"{ino:x}: {paths}: {e.filename}: {e.strerror}")
    return wrong, f"{len(names)} files with {sum(map(len, names.values()))} names, {len(directories)} directories"


def check(top):
    wrong, all_names = look(top)
    if wrong:
        time.sleep(5)  # what lasts is on the bricks; what has gone by then was under way, or in a cache
        lasting, _ = look(top)
        wrong = [f"{w} ({'lasts' if w in lasting else 'not so 5 s later'})" for w in wrong] + [f"only 5 s later: {w}" for w in lasting if w not in wrong]
    print("\n".join(wrong + [all_names]).replace(f"{top}/", ""))
    return wrong


if a.seconds:
    for d in DIRS:
        os.makedirs(f"{a.mounts[0]}/{d}", exist_ok=True)
    children = []
    for who in range(2 * len(a.mounts)):
        pid = os.fork()
        if not pid:
            try:
                work(a.mounts[who % len(a.mounts)], who)
            except SystemExit as e:
                print(e, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(pid)
    if any([os.waitpid(pid, 0)[1] for pid in children]):
        sys.exit(1)
else:
    sys.exit(bool(check(a.mounts[0])))
