# SPDX-License-Identifier: Apache-2.0
"""One who works while others attack: victim.py DIR TIMES. Whatever it has done it looks at; what is not so ends it with a sentence.
On SIGUSR1 (and when it begins) TIMES gets the median, the 99th percentile and the worst of its operations since the last time, in ms."""
import fcntl
import os
import random
import signal
import sys
import time

where, times = sys.argv[1:3]
took, asked, ended = [], True, False


def ask(*_):
    global asked
    asked = True


def end(*_):
    global ended
    ended = True


def tell():
    global took, asked
    took.sort()
    with open(times + ".new", "w") as f:
        f.write("%.1f %.1f %.1f\n" % tuple(1000 * took[min(len(took) - 1, int(len(took) * part))] for part in (.5, .99, 1)))
    os.rename(times + ".new", times)
    took, asked = [], False


def timed(work, *arguments):
    begin = time.monotonic()
    result = work(*arguments)
    took.append(time.monotonic() - begin)
    return result


def check(what, is_, should):
    if is_ != should:
        sys.exit(f"the victim found {what}: {is_!r}, not {should!r}")


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def locked(path):
    with open(path, "r+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX)
        fcntl.lockf(f, fcntl.LOCK_UN)


def one_round(number):
    name, other = f"{where}/file{number % 50}", f"{where}/other{number % 50}"
    data = random.randbytes(random.randrange(1, 20000))
    timed(write, name, data)
    check("its file", timed(read, name), data)
    timed(os.setxattr, name, "user.number", str(number).encode())
    check("its attribute", timed(os.getxattr, name, "user.number"), str(number).encode())
    timed(locked, name)
    timed(os.rename, name, other)
    check("its names", timed(os.listdir, where), [os.path.basename(other)])
    timed(os.mkdir, name)
    timed(os.rmdir, name)
    timed(os.unlink, other)


signal.signal(signal.SIGUSR1, ask)
signal.signal(signal.SIGTERM, end)
number = 0
while not ended:
    number += 1
    one_round(number)
    if asked:
        tell()
    time.sleep(.01)
