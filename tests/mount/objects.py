#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""objects.py BRICK... <FINDINGS: what the bricks have of the inode numbers (hexadecimal, from 6 digits on) and names that the findings of storm.py tell: a line for each
object of that number, and for each pointer to one or name that was told, with its links, size and trusted.dht.*."""
import os
import re
import sys
import uuid


def ino_of(gfid):  # as gfid_ino of libcore/gfid.c
    return int.from_bytes(gfid[8:16], "big") ^ int.from_bytes(gfid[0:8], "little")


def of_dht(path):
    values = {}
    for x in os.listxattr(path, follow_symlinks=False):
        if x == "trusted.sfs" or x.startswith("trusted.dht."):
            values[x] = os.getxattr(path, x, follow_symlinks=False)
    return values


def leads_to(value):
    """An object's gfid, from a pointer or a stub."""
    return value[5:21] if value and len(value) >= 21 else b"\0" * 16


told = sys.stdin.read()
inos = {int(x, 16) for x in re.findall(r"\b[0-9a-f]{6,16}\b", told)}
names = set(re.findall(r"'([^']+)'", told)) | set(re.findall(r"^(\S+) (?:is listed|can't be)", told, re.M))
for brick in sys.argv[1:]:
    for path, dirs, files in os.walk(brick):
        if path == brick and ".stratus" in dirs:
            dirs.remove(".stratus")
        for name in dirs + files:
            full = os.path.join(path, name)
            try:
                values, found = of_dht(full), os.lstat(full)
            except OSError:
                continue  # it has gone meanwhile
            gfid = values.pop("trusted.sfs", b"\0" * 18)[2:18]
            target = leads_to(values.get("trusted.dht.pointer"))
            if ino_of(gfid) in inos or ino_of(target) in inos or os.path.relpath(full, brick) in names:
                said = " ".join(f"{x[12:]}={v.hex()}" for x, v in sorted(values.items()))
                print(f"{os.path.basename(brick)}/{os.path.relpath(full, brick)}: gfid {uuid.UUID(bytes=gfid)} {found.st_nlink} links {found.st_size} bytes {said}")
