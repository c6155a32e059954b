#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""entry.py MEMBERS NAME BRICK...: what the bricks, in sets of MEMBERS, have under that name of the root (what it is, its gfid, its xattrs, what it leads to), where else they have that object or what
it leads to, and by which layout each of them goes. For who has found the name where it is not to be."""
import os
import stat
import struct
import sys
import uuid

members, name, bricks = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}


def xattrs(path):
    values = {}
    for x in os.listxattr(path, follow_symlinks=False):
        try:
            values[x] = os.getxattr(path, x, follow_symlinks=False)
        except OSError:
            pass  # it has gone meanwhile
    return values


def gfid_of(values):
    value = values.get("trusted.sfs", b"")
    return uuid.UUID(bytes=value[2:18]) if len(value) >= 18 else None


def target_of(values):
    value = values.get("trusted.dht.pointer", b"")
    return uuid.UUID(bytes=value[5:21]) if len(value) >= 21 else None


def described(path):
    """One object in words, and the gfids that are looked for elsewhere."""
    found, values = os.lstat(path), xattrs(path)
    gfid, target = gfid_of(values), target_of(values)
    kind = KINDS.get(stat.S_IFMT(found.st_mode), "node")
    what = f"{kind} {stat.S_IMODE(found.st_mode):o}, {found.st_nlink} links, {found.st_size} bytes, ctime {found.st_ctime:.3f}, gfid {gfid}"
    if target:
        pointer = values["trusted.dht.pointer"]
        what += f", {'stub' if pointer[0] == 2 else 'pointer'} to {target} at subvolume {struct.unpack('>I', pointer[1:5])[0]}"
    others = " ".join(f"{x}={v.hex()}" for x, v in sorted(values.items()) if x not in ("trusted.sfs", "trusted.dht.pointer"))
    return f"{what} {others}".rstrip(), {gfid, target} - {None}


def layout_of(brick):
    value = xattrs(brick).get("trusted.dht.layout")
    if not value:
        return "no layout"
    _, flags, count, version, home = struct.unpack(">BBHQI", value[:16])
    parts = [struct.unpack(">IHH", value[16 + 8 * i : 24 + 8 * i]) for i in range(count)]
    weights = " ".join(f"{n}:{now}" if now == to else f"{n}:{now}->{to}" for n, now, to in parts)
    return f"layout {version}, {'moving' if flags & 1 else 'settled'}, home {home}, weights {weights}"


def everything(brick):
    for path, dirs, files in os.walk(brick):
        if path == brick and ".stratus" in dirs:
            dirs.remove(".stratus")
        for one in dirs + files:
            yield os.path.join(path, one)


wanted = set()
for i, brick in enumerate(bricks):
    try:
        what, more = described(os.path.join(brick, name))
    except OSError as e:
        what, more = os.strerror(e.errno), set()
    wanted |= more
    marks = " ".join(f"{x[14:]}={v.hex()}" for x, v in sorted(xattrs(brick).items()) if x.startswith("trusted.dht.m."))
    print(f"{os.path.basename(brick)} of subvolume {i // members}: {what}; {layout_of(brick)}{'; marks ' if marks else ''}{marks}")
for brick in bricks:
    for path in everything(brick):
        if path == os.path.join(brick, name):
            continue
        try:
            what, more = described(path)
        except OSError:
            continue  # it has gone meanwhile
        if wanted & more:
            print(f"{os.path.basename(brick)}/{os.path.relpath(path, brick)}: {what}")
