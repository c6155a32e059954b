# SPDX-License-Identifier: Apache-2.0
"""The provider of an encrypted volume changes what lies on its brick; what the mount reads then is the truth, or EIO and a line in the log.

provider.py make MNT BRICK STATE SEED     files, and what they are, in STATE
provider.py edit STATE SEED               each chosen file gets one edit on the brick
provider.py check MNT STATE SEED LOG      through a mount that has not seen the files yet; prints edits, and how many of them were refused
provider.py restore STATE                 the brick as it was
provider.py whole MNT STATE               all files are as they were made
"""
import errno, json, os, random, sys

PAGE, SEAL, BLOCK, HEADER = 4096, 32, 4064, "user.stratus.crypt"
REFUSALS = errno.EIO, errno.ENOKEY  # the second: a header that says it is of a later master key may be right
SIZES = [100, 100, BLOCK, BLOCK, 5000, 5000, 64 * BLOCK, 64 * BLOCK, 64 * BLOCK + 100, 64 * BLOCK + 100, 69 * BLOCK + 3096, 69 * BLOCK + 3096,
         150 * BLOCK + 7, 150 * BLOCK + 7, 1 << 20, 1 << 20, 20000, 20000, 20000, 20000]


class Thing:
    """A file: its contents (plain), and what the brick has of it (raw, header)."""

    def __init__(self, state, number):
        self.number, self.state = number, state
        self.known = json.load(open(f"{state}/{number}.json"))
        self.name, self.path = f"file-{number}", self.known["path"]
        self.plain = open(f"{state}/{number}.plain", "rb").read()
        self.raw = open(f"{state}/{number}.raw", "rb").read()
        self.header = bytes.fromhex(self.known["header"])
        self.blocks = (len(self.plain) + BLOCK - 1) // BLOCK

    def put(self, raw, header):
        with open(self.path, "r+b") as f:
            f.truncate(0)
            f.write(raw)
        if header is None:
            os.removexattr(self.path, HEADER)
        else:
            os.setxattr(self.path, HEADER, header)


def files_below(brick):
    found = set()
    for top, dirs, files in os.walk(brick):
        dirs[:] = [d for d in dirs if d != ".stratus"]
        found.update(os.path.join(top, f) for f in files)
    return found


def make(mnt, brick, state, seed):
    chance, before = random.Random(seed), files_below(brick)
    for number, size in enumerate(SIZES):
        plain = bytearray(chance.randbytes(size))
        fd = os.open(f"{mnt}/file-{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.pwrite(fd, plain, 0)
        for _ in range(3):
            at = chance.randrange(size)
            more = chance.randbytes(min(chance.randrange(1, 30000), size - at))
            os.pwrite(fd, more, at)
            plain[at:at + len(more)] = more
        os.fsync(fd)
        os.close(fd)
        now = files_below(brick)
        (path,) = now - before
        before = now
        known = {"path": path, "gfid": gfid_of(path), "header": os.getxattr(path, HEADER).hex()}
        json.dump(known, open(f"{state}/{number}.json", "w"))
        open(f"{state}/{number}.plain", "wb").write(plain)
        open(f"{state}/{number}.raw", "wb").write(open(path, "rb").read())


def gfid_of(path):
    """Bytes 2 to 17 of the brick's own attribute (doc/disk-format.md)."""
    text = os.getxattr(path, "trusted.sfs")[2:18].hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


# ---- edits: (chance, file, another one of its length) -> raw, header ----

def flip(c, f, _):
    raw = bytearray(f.raw)
    raw[c.randrange(len(raw))] ^= 1 << c.randrange(8)
    return raw, f.header


def copy_page(raw, to, source, at, sealed):
    """With its seal, or without."""
    begin = 0 if sealed else SEAL
    size = min(PAGE, len(raw) - to * PAGE, len(source) - at * PAGE)
    raw[to * PAGE + begin:to * PAGE + size] = source[at * PAGE + begin:at * PAGE + size]


def swap_blocks(c, f, _):
    raw, a, b = bytearray(f.raw), c.randrange(f.blocks), c.randrange(f.blocks)
    sealed = c.random() < 0.7
    copy_page(raw, a, f.raw, b, sealed)
    copy_page(raw, b, f.raw, a, sealed)
    return raw, f.header


def block_of_another(c, f, other):
    raw, a = bytearray(f.raw), c.randrange(f.blocks)
    copy_page(raw, a, other.raw, a, True)
    return raw, f.header


def seal_of_another(c, f, _):
    """A block with the seal of another one of the file."""
    raw, a, b = bytearray(f.raw), c.randrange(f.blocks), c.randrange(f.blocks)
    raw[a * PAGE:a * PAGE + SEAL] = f.raw[b * PAGE:b * PAGE + SEAL]
    return raw, f.header


def contents_of_another(c, f, other):
    return other.raw, f.header


def another_file(c, f, other):
    return other.raw, other.header


def header_of_another(c, f, other):
    return f.raw, other.header


def cut_within_a_block(c, f, _):
    """Not at the end of one: that is not found out (doc/crypt.md)."""
    block = c.randrange(f.blocks)
    length = min(BLOCK, len(f.plain) - block * BLOCK)
    return (f.raw[:block * PAGE + SEAL + c.randrange(1, length)] if length > 1 else f.raw), f.header


def longer(c, f, _):
    """To the end of the last block at most."""
    room = -len(f.raw) % PAGE
    return f.raw + (bytes(c.randrange(1, room + 1)) if c.random() < 0.5 else c.randbytes(c.randrange(1, room + 1))) if room else f.raw, f.header


def zeroed_block(c, f, _):
    raw, a = bytearray(f.raw), c.randrange(f.blocks)
    begin, end = a * PAGE + c.choice((0, SEAL)), min(a * PAGE + PAGE, len(raw))
    raw[begin:end] = bytes(end - begin)
    return raw, f.header


def noise(c, f, _):
    raw, at = bytearray(f.raw), c.randrange(len(f.raw))
    some = c.randbytes(min(c.randrange(1, 9000), len(raw) - at))
    raw[at:at + len(some)] = some
    return raw, f.header


def other_parameters(c, f, _):
    """Version, cipher, flags (a file of which holes are to be believed), epoch; sometimes with a hole."""
    header, at = bytearray(f.header), c.choice((4, 5, 6, 7, 8, 9, 10, 11))
    header[at] ^= {5: 3, 6: 1}.get(at, 1 << c.randrange(8))
    return zeroed_block(c, f, None)[0] if c.random() < 0.5 else f.raw, bytes(header)


def changed_header(c, f, _):
    header = bytearray(f.header)
    header[c.randrange(len(header))] ^= 1 << c.randrange(8)
    return f.raw, c.choice((bytes(header), bytes(header[:c.randrange(len(header))]), None))


EDITS = [flip, flip, swap_blocks, block_of_another, seal_of_another, contents_of_another, another_file, header_of_another, cut_within_a_block,
         longer, zeroed_block, noise, other_parameters, changed_header]


def all_files(state):
    return [Thing(state, n) for n in range(len(SIZES))]


def edit(state, seed):
    chance, files, done = random.Random(seed), all_files(state), {}
    for f in files:
        kind = chance.choice(EDITS)
        f.put(*kind(chance, f, files[f.number ^ 1]))
        done[f.number] = kind.__name__
    json.dump(done, open(f"{state}/edits", "w"))


def restore(state):
    for f in all_files(state):
        f.put(f.raw, f.header)


# ---- what is read ----

def blocks_on(path):
    size = os.path.getsize(path)
    return size // PAGE + (size % PAGE > SEAL)


def judge(f, got, at, size, kind):
    want = f.plain[at:at + size]
    if got is None or got == want:
        return None
    # Where a file seems to end before, there is nothing to look at (doc/crypt.md): it ends with a whole block, or in one that is refused.
    if kind == "cut_within_a_block" and (not got and at >= blocks_on(f.path) * BLOCK or want.startswith(got) and (at + len(got)) % BLOCK == 0):
        return None
    return f"{f.name} ({f.known['gfid']}), {kind}: {len(got)} bytes at {at} that are not what was written"


def read(fd, size, at):
    """To the end, as one call may bring less: what was refused in the middle of it is told by the next one."""
    got = b""
    try:
        while len(got) < size and (more := os.pread(fd, size - len(got), at + len(got))):
            got += more
    except OSError as e:
        if e.errno not in REFUSALS:
            raise
        return None
    return got


def look(mnt, f, chance, kind):
    """Whether something was refused, and what is wrong."""
    refused, size = False, len(f.plain)
    try:
        fd = os.open(f"{mnt}/{f.name}", os.O_RDONLY)
    except OSError as e:
        return e.errno in REFUSALS, None if e.errno in REFUSALS else f"{f.name}, {kind}: {e}"
    ranges = [(0, size + 5000)] + [(chance.randrange(size), chance.randrange(1, 20000)) for _ in range(6)]
    if f.blocks < 70:  # the edit is in one of these
        ranges += [(block * BLOCK, BLOCK) for block in range(f.blocks)]
    try:
        for at, length in ranges:
            got = read(fd, length, at)
            refused |= got is None
            wrong = judge(f, got, at, length, kind)
            if wrong:
                return refused, wrong
    finally:
        os.close(fd)
    return refused, None


def check(mnt, state, seed, log):
    chance, edits, refused = random.Random(seed), json.load(open(f"{state}/edits")), []
    for f in all_files(state):
        was_refused, wrong = look(mnt, f, chance, edits[str(f.number)])
        if wrong:
            sys.exit(wrong)
        if was_refused:
            refused.append(f)
    said = open(log).read()
    for f in refused:
        gfid = f.known["gfid"]
        if not any(f"file {gfid}, block " in line and "refused (EIO)" in line or f"file {gfid} is of a later master key" in line for line in said.splitlines()):
            sys.exit(f"{f.name} ({f.known['gfid']}), {edits[str(f.number)]}: refused, and the log does not say why")
    for f in all_files(state):
        print(edits[str(f.number)], int(f.number in [r.number for r in refused]))


def whole(mnt, state):
    for f in all_files(state):
        if open(f"{mnt}/{f.name}", "rb").read() != f.plain:
            sys.exit(f"{f.name} is not as it was made, though the brick is")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
