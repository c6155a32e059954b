#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are two bricks the same?  same.py BRICK BRICK [--no-data]: names, types, owners, modes, mtimes, contents, hard links, xattrs with
the identity (whose birth is the same on all replicas). It reads the directories itself and trusts nothing of StratusFS."""
import os
import stat
import sys

data = "--no-data" not in sys.argv
top = [p for p in sys.argv[1:] if not p.startswith("--")]
LIMBO = {".stratus", ".stratus.limbo"}


def identity(value):
    """Its links come in the order in which they were made on that brick, and one that was the only one once is cut: that tells nothing
    (doc/disk-format.md)."""
    links, at = [], 26
    while at + 18 <= len(value):
        size = 18 + value[at + 17]
        links.append(value[at:at + 17] + value[at + 18:at + size][:24])
        at += size
    return value[:26] + b"".join(sorted(links)) + value[at:]


def xattrs(path):
    found = {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}
    return {n: identity(v) if n == "trusted.sfs" else v for n, v in found.items()}


def facts(path):
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    f = {"mode": oct(s.st_mode), "owner": (s.st_uid, s.st_gid), "xattrs": xattrs(path), "mtime": s.st_mtime_ns}
    if kind != stat.S_IFDIR:
        f["links"] = s.st_nlink
    if kind == stat.S_IFREG:
        if data:
            f["size"] = s.st_size
        else:
            del f["mtime"]  # an arbiter does not do writes
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        f["rdev"] = s.st_rdev
    if kind == stat.S_IFLNK:
        f["target"] = os.readlink(path)
    if path in top:
        del f["mtime"]  # limbo comes and goes there
        f["xattrs"].pop("trusted.sfs", None)  # each brick is born by itself
    return f


def same_data(a, b):
    with open(a, "rb") as x, open(b, "rb") as y:
        while True:
            p, q = x.read(1 << 20), y.read(1 << 20)
            if p != q:
                return False
            if not p:
                return True


def compare(rel, seen):
    a, b = (os.path.join(t, rel) if rel else t for t in top)
    x, y = facts(a), facts(b)
    for key in x:
        if x[key] != y.get(key):
            print(f"/{rel}: {key} is {x[key]} in {top[0]}, {y.get(key)} in {top[1]}")
            return 1
    s = os.lstat(a)
    if stat.S_ISREG(s.st_mode) and data and not same_data(a, b):
        print(f"/{rel}: the contents differ")
        return 1
    if stat.S_ISREG(s.st_mode) and s.st_nlink > 1:
        one = seen.setdefault(s.st_ino, os.lstat(b).st_ino)
        if one != os.lstat(b).st_ino:
            print(f"/{rel}: its hard links differ")
            return 1
    if not stat.S_ISDIR(s.st_mode):
        return 0
    names, others = (set(os.listdir(p)) for p in (a, b))
    if not rel:
        names, others = names - LIMBO, others - LIMBO
    if names != others:
        print(f"/{rel}: only in {top[0]}: {sorted(names - others)[:5]}, only in {top[1]}: {sorted(others - names)[:5]}")
        return 1
    return sum(compare(os.path.join(rel, n), seen) for n in sorted(names))


def limbo_is_empty(brick):
    """What the coordinator moved out of the way has been deleted."""
    left = os.listdir(brick + "/.stratus.limbo") if os.path.isdir(brick + "/.stratus.limbo") else []
    if left:
        print(f"{brick} has {len(left)} objects in the limbo")
    return not left


bad = compare("", {}) + sum(not limbo_is_empty(t) for t in top)
sys.exit(1 if bad else 0)
