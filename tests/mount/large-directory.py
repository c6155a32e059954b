#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""large-directory.py make|list|remove DIR COUNT: one step of large-directory.sh. Holds no list of the names itself."""
import os
import sys


def make(count):
    for i in range(count):
        os.close(os.open(f"file-{i:08d}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def listed(count):
    """Each name once."""
    seen = bytearray((count + 7) // 8)
    others = 0
    with os.scandir(".") as entries:
        for e in entries:
            if not e.name.startswith("file-"):
                others += 1
                continue
            i = int(e.name[5:])
            assert i < count, f"{e.name} was never made"
            assert not seen[i >> 3] >> (i & 7) & 1, f"{e.name} is listed twice"
            seen[i >> 3] |= 1 << (i & 7)
    found = sum(bin(b).count("1") for b in seen)
    assert found == count, f"{found} of {count} names are listed"
    return others


def remove(count):
    """While it is listed, as `rm -r` does it."""
    removed = 0
    with os.scandir(".") as entries:
        for e in entries:
            if e.name.startswith("file-"):
                os.unlink(e.name)
                removed += 1
    assert removed == count, f"the listing told of {removed} of {count} names while they were removed"
    assert not any(name.startswith("file-") for name in os.listdir(".")), "a name is left"


os.chdir(sys.argv[2])
{"make": make, "list": listed, "remove": remove}[sys.argv[1]](int(sys.argv[3]))
