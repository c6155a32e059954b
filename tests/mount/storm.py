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


def check(top):
    names, directories = collections.defaultdict(list), collections.defaultdict(list)
    for path, dirs, files in os.walk(top):
        for name in dirs:
            directories[os.stat(f"{path}/{name}").st_ino].append(f"{path}/{name}")
        for name in files:
            names[os.stat(f"{path}/{name}").st_ino].append(f"{path}/{name}")
    bad = 0
    for ino, paths in directories.items():
        if len(paths) > 1:
            print(f"directory {ino}: {paths}")
            bad += 1
    for ino, paths in names.items():
        texts = {open(path).read() for path in paths}
        links = {os.stat(path).st_nlink for path in paths}
        if len(texts) != 1 or links != {len(paths)} or not all(t == "" or t.startswith("mark ") for t in texts):
            print(f"{ino}: {paths}: links {links}, texts {texts}")
            bad += 1
    print(f"{len(names)} files with {sum(map(len, names.values()))} names, {len(directories)} directories")
    return bad


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
    sys.exit(check(a.mounts[0]) != 0)
