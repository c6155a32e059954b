# SPDX-License-Identifier: Apache-2.0
"""Uses a directory with every kind of operation and checks what comes back: load.py DIR OPERATIONS SEED [STOPFILE].

Prints the number of operations done; status 1 and a sentence at the first thing that is wrong. OPERATIONS 0: until STOPFILE."""
import fcntl
import os
import random
import sys

top, wanted, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stopfile = sys.argv[4] if len(sys.argv) > 4 else None
rng = random.Random(seed)
files = {}  # name -> contents
held = {}  # name -> an open descriptor that stays for a while
done = 0


def wrong(sentence):
    print(f"seed {seed}, operation {done}: {sentence}")
    sys.exit(1)


def path(name):
    return f"{top}/{name}"


def some():
    return rng.choice(list(files)) if files else make()


def make():
    name = f"f{done}"
    files[name] = rng.randbytes(rng.randrange(9000))
    with open(path(name), "xb") as f:
        f.write(files[name])
    return name


def read():
    name = some()
    with open(path(name), "rb") as f:
        if f.read() != files[name]:
            wrong(f"{name} has other contents")


def append():
    name = some()
    more = rng.randbytes(rng.randrange(1, 500))
    with open(path(name), "ab") as f:
        f.write(more)
        if rng.random() < 0.05:
            os.fsync(f.fileno())
    files[name] += more


def truncate():
    name = some()
    size = rng.randrange(len(files[name]) + 1)
    os.truncate(path(name), size)
    files[name] = files[name][:size]


def look():
    name = some()
    st = os.stat(path(name))
    if st.st_size != len(files[name]):
        wrong(f"{name} has {st.st_size} bytes, not {len(files[name])}")


def rename():
    old, new = some(), f"r{done}"
    os.rename(path(old), path(new))
    files[new] = files.pop(old)
    if old in held:
        held[new] = held.pop(old)


def remove():
    name = some()
    os.unlink(path(name))
    del files[name]
    if name in held:
        os.close(held.pop(name))


def hold():
    """A descriptor that lives on over other operations, with a lock."""
    name = some()
    if name in held:
        fd = held.pop(name)
        if os.pread(fd, 20000, 0) != files[name][:20000]:
            wrong(f"{name} has other contents through a descriptor that was open for long")
        os.close(fd)
    elif len(held) < 20:
        held[name] = os.open(path(name), os.O_RDWR)
        fcntl.lockf(held[name], fcntl.LOCK_EX | fcntl.LOCK_NB)


def listing():
    names = set(os.listdir(top))
    if names != set(files):
        wrong(f"the listing lacks {sorted(set(files) - names)[:3]} and has {sorted(names - set(files))[:3]} besides")


def attributes():
    name = some()
    os.chmod(path(name), 0o600 + rng.randrange(64))
    os.utime(path(name), ns=(1, 10 ** 18 + done))
    os.setxattr(path(name), "user.load", b"%d" % done)
    if os.getxattr(path(name), "user.load") != b"%d" % done or os.stat(path(name)).st_mtime_ns != 10 ** 18 + done:
        wrong(f"attributes of {name} are not as set")


def others():
    name = f"x{done}"
    os.symlink("target", path(name))
    if os.readlink(path(name)) != "target":
        wrong("the link points elsewhere")
    os.unlink(path(name))
    os.mkdir(path(name))
    os.rmdir(path(name))
    os.statvfs(top)


KINDS = [make] * 3 + [read] * 4 + [append] * 3 + [truncate, look, look, rename, remove, remove, hold, hold, attributes, others]
os.makedirs(top, exist_ok=True)
try:
    while (done < wanted or not wanted) and not (stopfile and os.path.exists(stopfile)):
        if len(files) > 60:
            remove()
        rng.choice(KINDS)()
        if done % 100 == 0:
            listing()
        done += 1
    for fd in held.values():
        os.close(fd)
    listing()
    for name in list(files):
        os.unlink(path(name))
    os.rmdir(top)
except OSError as e:
    wrong(repr(e))
print(done)
