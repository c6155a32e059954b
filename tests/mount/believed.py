#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random changes through two mounts of one volume; after each, both must show what a third directory shows, to which the same was done:
believed.py MOUNT MOUNT COMPARISON STEPS SEED. Each step looks at things first, mostly from one side, so that there is something to believe.
ACROSS=1: the volume is spread, and what names things at several subvolumes may be refused (EXDEV)."""
import errno
import os
import random
import stat
import struct
import sys

A, B, MODEL, STEPS, SEED = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
chance = random.Random(SEED)
DIRS = ["", "d0/", "d1/", "d0/sub/"]
NAMES = ["a", "b", "c", "e"]
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in (
    (1, 6, 0xffffffff), (2, 4, 12345), (4, 4, 0xffffffff), (16, 4, 0xffffffff), (32, 0, 0xffffffff)))
held = {}  # name -> (descriptors at A, B, MODEL), open while others change the file


def path():
    return chance.choice(DIRS) + chance.choice(NAMES)


def attempt(deed, *args):
    """What it gives, or the error."""
    try:
        return deed(*args)
    except OSError as e:
        return e.errno


def facts(s):
    return (stat.S_IFMT(s.st_mode), stat.S_IMODE(s.st_mode), s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0,
            s.st_size if stat.S_ISREG(s.st_mode) else 0, s.st_uid)


def seen_by_name(root, name):
    return attempt(lambda: facts(os.lstat(root + "/" + name)))


def all_of(fd):
    """As programs read: until there is nothing more."""
    parts, at = [], 0
    while part := os.pread(fd, 4096, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def seen_content(root, name):
    """And what kind of object refuses it; what it is for a file that is open, too."""
    def look():
        with open(root + "/" + name, "rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            return size, all_of(f.fileno())
    return attempt(look)


def seen_time(name):
    """All see one time at which a file was changed last, whichever that is."""
    def look(root):
        s = os.stat(root + "/" + name)
        return s.st_mtime_ns if stat.S_ISREG(s.st_mode) else 0
    return [attempt(look, root) for root in (A, B)]


def seen_acl(root, name):
    return attempt(lambda: os.getxattr(root + "/" + name, "system.posix_acl_access"))


def seen_listing(root, directory):
    def look():
        with os.scandir(root + "/" + directory) as it:
            return sorted((e.name, facts(os.lstat(e.path))) for e in it if not (directory == "" and e.name in ("model",)))
    return attempt(look)


def write(root, name, data):
    with open(root + "/" + name, "wb") as f:
        f.write(data)


def patch(root, name, at, data):
    """In place, between reads."""
    fd = os.open(root + "/" + name, os.O_RDWR)
    try:
        os.pread(fd, 8192, 0)
        for i in range(3):
            os.pwrite(fd, data, at + i * 7)
            os.pread(fd, 8192, 0)
    finally:
        os.close(fd)


def replace(root, name, data):
    with open(root + "/" + name + ".new", "xb") as f:
        f.write(data)
    try:
        os.rename(root + "/" + name + ".new", root + "/" + name)
    except OSError:
        os.unlink(root + "/" + name + ".new")
        raise


def change():
    kind = chance.choice(["patch", "patch", "replace", "touch", "make", "make", "write", "append", "unlink", "rename", "link", "chmod", "truncate", "mkdir", "rmdir", "acl", "noacl"])
    one, two, number = path(), path(), chance.randrange(1, 5000)
    directory = chance.choice(["d0", "d1", "d0/sub"])
    deeds = {
        "make": lambda r: write(r, one, b""),
        "write": lambda r: write(r, one, b"x" * number),
        "append": lambda r: open(r + "/" + one, "ab").write(b"y" * (number % 100)) if os.path.exists(r + "/" + one) else None,
        "patch": lambda r: patch(r, one, number % 300, b"%d" % number),
        "replace": lambda r: replace(r, one, b"%d " % number * (number % 50)),
        "touch": lambda r: os.utime(r + "/" + one, ns=(number, number)),
        "unlink": lambda r: os.unlink(r + "/" + one),
        "rename": lambda r: os.rename(r + "/" + one, r + "/" + two),
        "link": lambda r: os.link(r + "/" + one, r + "/" + two),
        "chmod": lambda r: os.chmod(r + "/" + one, 0o600 + number % 64),
        "truncate": lambda r: os.truncate(r + "/" + one, number),
        "mkdir": lambda r: os.mkdir(r + "/" + directory),
        "rmdir": lambda r: os.rmdir(r + "/" + directory),
        "acl": lambda r: os.setxattr(r + "/" + one, "system.posix_acl_access", ACL),
        "noacl": lambda r: os.removexattr(r + "/" + one, "system.posix_acl_access"),
    }
    return f"{kind} {one} {two} {directory} {number}", deeds[kind]


def look_around(root):
    for _ in range(chance.randrange(4)):
        chance.choice([lambda: seen_by_name(root, path()), lambda: seen_listing(root, chance.choice(DIRS)), lambda: seen_acl(root, path()),
                       lambda: seen_content(root, path())])()


def judge(step, what, seen, expected):
    if seen != expected:
        sys.exit(f"step {step} of seed {SEED}: {what}: {seen} instead of {expected}")


for step in range(STEPS):
    where = chance.choice((A, B))
    for root in (A, B) if chance.random() < 0.7 else (where,):
        look_around(root)
    if chance.random() < 0.2:
        name = path()
        for fd in held.pop(name, ()):
            os.close(fd)
        if os.path.isfile(MODEL + "/" + name):
            held[name] = [os.open(r + "/" + name, os.O_RDONLY) for r in (A, B, MODEL)]
    said, deed = change()
    result = attempt(deed, where)
    across = os.environ.get("ACROSS") and said.split()[0] in ("rename", "link")
    if not (across and result == errno.EXDEV):
        judge(step, said + " in " + where, result, attempt(deed, MODEL))
    for root in (A, B):
        for name in {*said.split()[1:3], path()}:
            judge(step, f"{root}/{name} after {said} in {where}", seen_by_name(root, name), seen_by_name(MODEL, name))
            judge(step, f"content of {root}/{name} after {said} in {where}", seen_content(root, name), seen_content(MODEL, name))
        name = path()
        judge(step, f"ACL of {root}/{name} after {said} in {where}", seen_acl(root, name), seen_acl(MODEL, name))
        directory = chance.choice(DIRS)
        judge(step, f"listing of {root}/{directory} after {said} in {where}", seen_listing(root, directory), seen_listing(MODEL, directory))
    times = seen_time(name := path())
    judge(step, f"time of {name} in {B} after {said} in {where}", times[1], times[0])
    for name, fds in held.items():
        for fd in fds[:2]:
            judge(step, f"content of the descriptor of {name} after {said} in {where}", all_of(fd), all_of(fds[2]))
            judge(step, f"descriptor of {name} after {said} in {where}", facts(os.fstat(fd)), facts(os.fstat(fds[2])))
