#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""listed.py DIRECTORY [COUNT [SEED]]: telldir(3) and seekdir(3) come back to the same places, forward, back and at random, also after names
were made and removed. The directory must be empty."""
import ctypes
import os
import random
import sys

libc = ctypes.CDLL(None, use_errno=True)


class Dirent(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_uint16), ("type", ctypes.c_uint8),
                ("name", ctypes.c_char * 256)]


libc.opendir.restype = ctypes.c_void_p
libc.opendir.argtypes = [ctypes.c_char_p]
libc.readdir.restype = ctypes.POINTER(Dirent)
for call in (libc.readdir, libc.closedir, libc.telldir, libc.rewinddir):
    call.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


class Listing:
    def __init__(self, path):
        self.dir = libc.opendir(path.encode())
        if not self.dir:
            raise OSError(ctypes.get_errno(), "opendir", path)

    def tell(self):
        return libc.telldir(self.dir)

    def seek(self, place):
        libc.seekdir(self.dir, place)

    def rewind(self):
        libc.rewinddir(self.dir)

    def next(self):
        """The next name, None at the end."""
        ctypes.set_errno(0)
        entry = libc.readdir(self.dir)
        if not entry:
            if ctypes.get_errno():
                raise OSError(ctypes.get_errno(), "readdir")
            return None
        return entry.contents.name.decode()

    def rest(self):
        names = []
        while (name := self.next()) is not None:
            names.append(name)
        return names


def first_pass(listing):
    """For each entry its name, and the place before it; at the end None."""
    seen = []
    while True:
        place = listing.tell()
        name = listing.next()
        seen.append((place, name))
        if name is None:
            return seen


def expect(condition, *words):
    if not condition:
        sys.exit(" ".join(str(word) for word in words))


def check_seeks(listing, seen, order):
    for i in order:
        listing.seek(seen[i][0])
        for place, name in seen[i:i + 3]:
            expect(listing.tell() == place, "entry", i, "place", listing.tell(), "instead of", place)
            got = listing.next()
            expect(got == name, "entry", i, "is", got, "instead of", name)
            if name is None:
                break


def check_after_changes(listing, seen, gone, order):
    """What was there before and still is comes in the old order after the place; what is new or gone (POSIX leaves it open) may come, once."""
    for i in order:
        listing.seek(seen[i][0])
        got = listing.rest()
        expect(len(got) == len(set(got)), "a name comes twice after place", i)
        old = [name for name in got if not name.startswith("new") and name not in gone]
        want = [name for _, name in seen[i:-1] if name not in gone]
        expect(old == want, "after place", i, "come", old[:4], "instead of", want[:4])


def main():
    top = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    made = [f"file-{i}" for i in range(count)]
    for name in made:
        open(f"{top}/{name}", "w").close()
    listing = Listing(top)
    seen = first_pass(listing)
    names = [name for _, name in seen[:-1]]
    expect(sorted(names) == sorted(made + [".", ".."]), "the first pass has", len(names), "names")

    check_seeks(listing, seen, range(0, len(seen), 17))
    check_seeks(listing, seen, range(len(seen) - 1, -1, -23))
    check_seeks(listing, seen, [chance.randrange(len(seen)) for _ in range(500)])
    listing.rewind()
    expect(listing.rest() == names, "another list after rewinddir")
    check_seeks(listing, seen, [chance.randrange(len(seen)) for _ in range(100)])
    other = Listing(top)
    expect(other.rest() == names, "another list through another descriptor")
    with os.scandir(top) as entries:  # which a mount may keep for who comes next
        for entry in entries:
            os.lstat(entry.path)
    other = Listing(top)
    again = first_pass(other)
    expect([name for _, name in again[:-1]] == names, "another list after it was looked at")
    check_seeks(other, again, [chance.randrange(len(again)) for _ in range(200)])

    gone = set(chance.sample(made, count // 3))
    for name in gone:
        os.unlink(f"{top}/{name}")
        open(f"{top}/new-{name}", "w").close()
    check_after_changes(listing, seen, gone, [chance.randrange(len(seen) - 1) for _ in range(60)])
    for name in os.listdir(top):
        os.unlink(f"{top}/{name}")
    listing.rewind()
    expect(sorted(listing.rest()) == [".", ".."], "names that are gone are listed")


main()
