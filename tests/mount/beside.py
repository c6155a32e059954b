#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes to one small file beside each other, through one mount, and reads between them: beside.py FILE ROUNDS SEED. Each thread has a part of the file, and
finds in it what it has written last; in the end all is as it was written, for who was there and for who opens the file anew."""
import os
import random
import sys
import threading

FILE, ROUNDS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
THREADS, PART = 4, 100
SIZE = THREADS * PART
left = [b"-" * PART for _ in range(THREADS)]
wrong = []


def work(number, start):
    chance = random.Random(f"{SEED} {number}")
    fd = os.open(FILE, os.O_RDWR)
    start.wait()
    for i in range(ROUNDS):
        if chance.random() < 0.3:
            os.stat(FILE)  # so that there is something to know
        if chance.random() < 0.7:
            os.pread(fd, 8192, 0)
        at, new = chance.randrange(PART - 20), b"%020d" % (i * THREADS + number)
        os.pwrite(fd, new, number * PART + at)
        left[number] = left[number][:at] + new + left[number][at + 20:]
        for turn in range(2):
            seen = os.pread(fd, 8192, 0)
            if len(seen) != SIZE or seen[number * PART:(number + 1) * PART] != left[number]:
                wrong.append(f"round {i} of thread {number}, look {turn}, seed {SEED}: {seen!r} instead of {left[number]!r}")
                return
    os.close(fd)


with open(FILE, "wb") as f:
    f.write(b"".join(left))
start = threading.Barrier(THREADS)
threads = [threading.Thread(target=work, args=(i, start)) for i in range(THREADS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
if not wrong and open(FILE, "rb").read() != b"".join(left):
    wrong.append(f"seed {SEED}: in the end it is {open(FILE, 'rb').read()!r} instead of {left!r}")
os.unlink(FILE)
sys.exit("\n".join(wrong) if wrong else 0)
