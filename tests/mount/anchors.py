#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""anchors.py BRICK...: one brick of each subvolume, in their order. Every pointer has its anchor and every anchor its pointer (the anchor of what is left of a file that was moved leads on to the same one where that is), a directory that is
away says where its pointer is, nothing is under way, and no two objects of the volume share a gfid. Prints what is not so, and how many pointers there are; exits with 1 then."""
import os
import struct
import sys
import uuid

wrong = []


def walk(top):
    for path, dirs, files in os.walk(top):
        if path == top and ".stratus" in dirs:
            dirs.remove(".stratus")
        for name in dirs + files:
            yield os.path.relpath(os.path.join(path, name), top)


def xattr(path, name):
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return None


def gfid_of(path):
    value = xattr(path, "trusted.sfs")
    return uuid.UUID(bytes=value[2:18]) if value else None


def note(table, key, subvolume, path):
    if key in table:
        wrong.append(f"{path} and {table[key][1]} are the same")
    table[key] = subvolume, path


def check_marks(path):
    if any(x.startswith("trusted.dht.m.") for x in os.listxattr(path, follow_symlinks=False)):
        wrong.append(f"names in {path} are marked")


# A file's by its gfid and the pointer's, a directory's by its gfid.
pointers, anchors, homes, kept = {}, {}, {}, {}
stubs = {}  # anchors of what is left of files that were moved with several names, and where these are
for number, brick in enumerate(sys.argv[1:]):
    check_marks(brick)
    for name in walk(brick):
        path = os.path.join(brick, name)
        parts = name.split("/")
        hidden = parts[0] == ".stratus.dht"
        if hidden and len(parts) <= 3:
            continue
        if hidden and parts[1] == "work" and len(parts) == 4 and len(parts[3]) == 38 and parts[3][:2] in ("s.", "k."):
            kept.setdefault(parts[3][2:], set()).add(parts[3][0])
            continue
        gfid, value = gfid_of(path), xattr(path, "trusted.dht.pointer")
        if not value or value[0] != 2:  # what is left of a file keeps the mark with which it was moved
            check_marks(path)
        if hidden and parts[1] == "work":
            wrong.append(f"{path} is under way")
        elif hidden and len(parts) == 4 and parts[3].startswith("d."):
            note(anchors, gfid, number, path)
            if parts[3] != f"d.{gfid}":
                wrong.append(f"{path} is the directory {gfid}")
        elif hidden and len(parts) == 4:
            _, second, first = os.path.basename(name).split(".")
            if value and value[0] == 2:
                note(stubs, (uuid.UUID(first), uuid.UUID(second)), (number, struct.unpack(">I", value[1:5])[0]), path)
            else:
                note(anchors, (uuid.UUID(first), uuid.UUID(second)), number, path)
            if uuid.UUID(first) != gfid:
                wrong.append(f"{path} is the object {gfid}")
        elif value:
            kind, subvolume = struct.unpack(">BI", value[:5])
            leads_to = uuid.UUID(bytes=value[5:21])
            note(pointers, leads_to if os.path.isdir(path) else (leads_to, gfid), subvolume, path)
        if not value and homes.setdefault(gfid, number) != number:
            wrong.append(f"{path} is at subvolume {homes[gfid]}, too")
for key, (subvolume, path) in pointers.items():
    if key in stubs and stubs[key][0][0] == subvolume:
        subvolume = stubs.pop(key)[0][1]
    if key not in anchors:
        wrong.append(f"{path} leads to nothing")
    elif anchors[key][0] != subvolume:
        wrong.append(f"{path} leads to subvolume {subvolume}, and {anchors[key][1]} is there")
    elif os.path.isdir(path):
        where = sys.argv[1:].index(next(b for b in sys.argv[1:] if path.startswith(f"{b}/")))
        said = xattr(anchors[key][1], "trusted.dht.parent")
        if not said or struct.unpack(">I", said[9:13])[0] != where or uuid.UUID(bytes=said[13:29]) != gfid_of(os.path.dirname(path)):
            wrong.append(f"{anchors[key][1]} does not say that {path} leads to it")
for mover, kinds in kept.items():  # of files that were moved, as long as somebody has them open by what they were
    if kinds == {"s"}:
        wrong.append(f"the stub s.{mover} is left alone")
for key in anchors.keys() - pointers.keys():
    wrong.append(f"nothing leads to {anchors[key][1]}")
for key in stubs:
    wrong.append(f"nothing leads to {stubs[key][1]}")
print(f"{len(pointers)} pointers")
print("\n".join(wrong))
sys.exit(bool(wrong))
