# SPDX-License-Identifier: Apache-2.0
"""Counts what is on a brick, by itself: usage.py count BRICK [--set] NAME:BASE:COUNT... (--set: a member of a replica set); or works in a mount: usage.py work DIR STOP SEED UID."""
import json
import os
import random
import stat
import sys

UNIT = 4096
IN_SET = "--set" in sys.argv


def attributes(path):
    """Bytes of names and values that are not the brick's own, and what is reserved beyond the end."""
    size, end = 0, 0
    for name in os.listxattr(path, follow_symlinks=False):
        if name.startswith(("trusted.sfs", "trusted.stratus")):
            continue
        value = os.getxattr(path, name, follow_symlinks=False)
        size += len(name.encode()) + len(value)
        if name == "trusted.usage.end":
            end = int.from_bytes(value, "big")
    return size, end


def charge(path, info):
    size, end = attributes(path)
    length = max(UNIT if IN_SET and stat.S_ISDIR(info.st_mode) else info.st_size, end)
    further = 512 * (info.st_nlink - 1) if IN_SET and not stat.S_ISDIR(info.st_mode) else 0
    return further + (length + UNIT - 1) // UNIT * UNIT + UNIT + max(0, size - UNIT)


def objects(brick):
    yield brick
    for where, dirs, files in os.walk(brick):
        if where == brick:
            dirs.remove(".stratus")
        for name in dirs + files:
            yield os.path.join(where, name)


def count(brick, ranges):
    sums = {name: {"bytes": 0, "inodes": 0} for name, _, _ in ranges} | {"-": {"bytes": 0, "inodes": 0}}
    seen = set()
    for path in objects(brick):
        info = os.lstat(path)
        if info.st_ino in seen:
            continue
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            seen.add(info.st_ino)
        who = next((name for name, base, many in ranges if base <= info.st_uid < base + many), "-")
        sums[who]["bytes"] += charge(path, info)
        sums[who]["inodes"] += 1
    return sums


class Work:
    """Changes of all kinds, by a user of its own; errors of a server that is away do not count."""

    def __init__(self, top, seed, uid):
        self.random, self.top, self.uid = random.Random(seed), top, uid

    def name(self):
        return os.path.join(self.top, f"d{self.random.randrange(4)}", f"f{self.random.randrange(12)}")

    def write(self):
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if self.random.random() < 0.3 else 0)
        name = self.name()
        fd = os.open(name, flags, 0o644)
        try:
            os.pwrite(fd, b"x" * self.random.randrange(1, 100000), self.random.randrange(200000))
            if self.random.random() < 0.3:
                os.unlink(name)
                os.pwrite(fd, b"y" * 5000, 300000)
            if self.random.random() < 0.3:
                os.posix_fallocate(fd, 0, self.random.randrange(1, 400000))
        finally:
            os.close(fd)

    def step(self):
        one, other = self.name(), self.name()
        self.random.choice([
            self.write, self.write,
            lambda: os.unlink(one),
            lambda: os.rename(one, other),
            lambda: os.link(one, other),
            lambda: os.symlink("x" * 50, one),
            lambda: os.truncate(one, self.random.randrange(100000)),
            lambda: os.chown(one, self.uid, -1),
            lambda: os.setxattr(one, "user.note", b"z" * self.random.randrange(2000)),
            lambda: os.mkdir(os.path.dirname(one)),
            lambda: os.rmdir(os.path.dirname(one)),
            lambda: os.rename(os.path.dirname(one), os.path.join(self.top, "e")),
            lambda: os.rename(os.path.join(self.top, "e"), os.path.dirname(one)),
        ])()


def work(top, stop, seed, uid):
    os.makedirs(top, exist_ok=True)
    doing = Work(top, seed, uid)
    done = 0
    while not os.path.exists(stop):
        try:
            doing.step()
            done += 1
        except OSError:
            pass
    print(done, "changes")


def main():
    if sys.argv[1] == "count":
        print(json.dumps(count(sys.argv[2], [(n, int(b), int(c)) for n, b, c in (a.split(":") for a in sys.argv[3:] if a != "--set")])))
    else:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))


if __name__ == "__main__":
    main()
