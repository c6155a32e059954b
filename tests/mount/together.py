#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes at several mounts work together by means of the file system alone: together.py SECONDS DIRECTORY...

Each DIRECTORY is the same one, seen through another mount. In each part a process at each mount does what excludes the others (a name that only one
can make, move or link; a lock) and adds one to a number in a file meanwhile: what the file tells in the end is how often all of them did it. Other
parts append to one file, replace one that others read, and make files in a directory that others remove. Prints what did not hold."""
import errno
import fcntl
import multiprocessing
import os
import sys
import time


def count(where):
    fd = os.open(where + "/counter", os.O_RDWR)
    number = int(os.read(fd, 64) or b"0")
    os.pwrite(fd, b"%d" % (number + 1), 0)
    os.close(fd)


def exclusive(take, leave, refused):
    def work(where, me, end):
        done = 0
        while time.monotonic() < end:
            try:
                take(where, me)
            except refused:
                continue
            count(where)
            done += 1
            leave(where, me)
        return done

    return work


def make(where, me):
    os.close(os.open(where + "/lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def link(where, me):
    own = where + f"/own{me}"
    os.close(os.open(own, os.O_CREAT | os.O_WRONLY, 0o600))
    os.link(own, where + "/lock")
    if os.stat(own).st_nlink != 2:
        raise AssertionError(f"{own} has {os.stat(own).st_nlink} links after one was made")


def unlink(where, me):
    os.unlink(where + "/lock")


def locked(where, me, end):
    done, fd = 0, os.open(where + "/counter", os.O_RDWR)
    while time.monotonic() < end:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        number = int(os.pread(fd, 64, 0) or b"0")
        os.pwrite(fd, b"%d" % (number + 1), 0)
        fcntl.lockf(fd, fcntl.LOCK_UN)
        done += 1
    return done


def append(where, me, end):
    done, fd = 0, os.open(where + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while time.monotonic() < end:
        os.write(fd, b"%03d %08d\n" % (me, done))
        done += 1
    return done


def replace(where, me, end):
    """Who opens the name between two replacements that are close may hear ESTALE (doc/fuse.md), but sees one file or another, whole."""
    done, own, text = 0, where + f"/own{me}", b"%d:" % me * 1000
    while time.monotonic() < end:
        with open(own, "wb") as f:
            f.write(text)
        os.rename(own, where + "/target")
        done += 1
        try:
            with open(where + "/target", "rb") as f:
                seen = f.read()
        except OSError as e:
            if e.errno != errno.ESTALE:
                raise
            continue
        if len(seen) != len(text) or len(set(seen.split(b":")[:-1])) != 1:
            raise AssertionError(f"a file that was replaced has {len(seen)} bytes, not {len(text)} of one writer")
    return done


def come_and_go(where, me, end):
    done, shared = 0, where + "/shared"
    while time.monotonic() < end:
        try:
            os.mkdir(shared)
        except FileExistsError:
            pass
        try:
            os.close(os.open(shared + f"/own{me}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            if f"own{me}" not in os.listdir(shared):
                raise AssertionError("a file that was made is not listed")
            os.unlink(shared + f"/own{me}")
            done += 1
        except FileNotFoundError:
            pass
        except OSError as e:  # Linux itself, which tries again but once
            if e.errno != errno.ESTALE:
                raise
        try:
            os.rmdir(shared)
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.ESTALE):  # the last: another was there each time it was looked at
                raise
    return done


COUNTING = {
    "a file that only one makes": exclusive(make, unlink, FileExistsError),
    "a directory that only one makes": exclusive(lambda w, me: os.mkdir(w + "/lock"), lambda w, me: os.rmdir(w + "/lock"), FileExistsError),
    "a name that only one moves": exclusive(
        lambda w, me: os.rename(w + "/baton", w + f"/mine{me}"), lambda w, me: os.rename(w + f"/mine{me}", w + "/baton"), FileNotFoundError
    ),
    "a name that only one links": exclusive(link, unlink, FileExistsError),
    "a lock": locked,
}
OTHERS = {"appending": append, "replacing": replace, "a directory that comes and goes": come_and_go}


def process(work, where, me, end, results):
    try:
        results.put((work(where, me, end), None))
    except (OSError, AssertionError, ValueError) as e:
        results.put((0, f"{where}: {e!r}"))


def run(work, directories, seconds):
    results = multiprocessing.Queue()
    end = time.monotonic() + seconds
    workers = [multiprocessing.Process(target=process, args=(work, d, i, end, results)) for i, d in enumerate(directories)]
    for w in workers:
        w.start()
    told = [results.get() for w in workers]
    for w in workers:
        w.join()
    return sum(t[0] for t in told), [t[1] for t in told if t[1]]


def clear(where):
    for name in os.listdir(where):
        if os.path.isfile(where + "/" + name):
            os.unlink(where + "/" + name)
    for name in ("counter", "baton"):
        open(where + "/" + name, "w").close()


def main():
    seconds, directories = float(sys.argv[1]), sys.argv[2:]
    wrong = []
    for name, work in {**COUNTING, **OTHERS}.items():
        clear(directories[0])
        done, errors = run(work, directories, seconds)
        wrong += [f"{name}: {e}" for e in errors]
        if not done:
            wrong.append(f"{name}: nothing was done")
        if name in COUNTING and not errors:
            counted = int(open(directories[0] + "/counter").read() or 0)
            if counted != done:
                wrong.append(f"{name}: done {done} times, counted {counted}")
        if work is append and not errors:
            lines = open(directories[0] + "/log").read().splitlines()
            if len(lines) != done or len(set(lines)) != done:
                wrong.append(f"{name}: {done} lines were appended, {len(lines)} are there, {len(set(lines))} different ones")
    clear(directories[0])
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
