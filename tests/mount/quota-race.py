# SPDX-License-Identifier: Apache-2.0
"""Writes, grows, renames and removes files of some directories that have quotas, as others do at the same time, and prints how often it was refused:

   quota-race.py SEED ROUNDS DIRECTORY...
"""
import errno, os, random, sys
seed, rounds, directories = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
random.seed(seed)
refused = 0
for _ in range(rounds):
    name = f"{random.choice(directories)}/f{random.randrange(80)}"
    try:
        if random.randrange(5) == 0:
            os.unlink(name)
            continue
        if random.randrange(5) == 0:
            os.rename(name, f"{os.path.dirname(name)}/f{random.randrange(80)}")
            continue
        fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.pwrite(fd, bytes(random.randrange(200000)), random.randrange(100000))
            if random.randrange(3) == 0:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as e:
        if e.errno == errno.EDQUOT:
            refused += 1
        elif e.errno not in (errno.ENOENT, errno.ESTALE, errno.EIO, errno.EBADF, errno.ENOTCONN, errno.ETIMEDOUT): # of what was under way when the server was killed
            raise
print(refused)
