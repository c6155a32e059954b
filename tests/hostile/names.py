# SPDX-License-Identifier: Apache-2.0
"""The provider of an encrypted volume changes names on its brick: a mount shows those that were made, or none (doc/crypt.md, "Long names").

names.py make MNT BRICK STATE           two directories of files with names of up to 255 bytes, and what they are, in STATE
names.py edit STATE SEED                some of them get another name on the brick
names.py check MNT STATE LOG            through a mount that has not seen them yet
names.py restore STATE
"""
import errno, json, os, random, sys

DIRECTORIES = "names", "others"
WIDTHS = ["s", "ä", "漢", "\U0001f40e"]


def all_names():
    """Short ones and long ones, of all widths of UTF-8, and some that are none."""
    made = [os.fsencode(f"{i:02}" + (WIDTHS[i % 4] * 255)[:70 if i % 3 == 0 else 253]) for i in range(24)]
    cut = [name[:255].decode(errors="ignore").encode() for name in made]
    return [os.fsdecode(name) for name in cut + [b"%02d" % i + b"\xff" * 200 for i in range(24, 28)]]


def entries_below(brick):
    return {os.path.join(top, name) for top, dirs, files in os.walk(os.fsencode(brick)) if b"/.stratus" not in top for name in map(os.fsencode, dirs + files)}


def make(mnt, brick, state):
    known, before = {}, entries_below(brick)
    for directory in DIRECTORIES:
        os.mkdir(f"{mnt}/{directory}")
        for name in [None] + all_names():
            if name is not None:
                open(f"{mnt}/{directory}/{name}", "x").close()
            now = entries_below(brick)
            (path,) = now - before
            before = now
            if name is not None:
                known[f"{directory}/{name}"] = path.hex()
    json.dump(known, open(f"{state}/names.json", "w"))


# ---- edits: (chance, path on the brick, those of all) -> another path ----

def digit(c, path, _):
    at = c.randrange(path.rindex(b"/") + 1, len(path))
    return path[:at] + bytes([c.choice([b for b in range(1, 256) if b not in (ord("/"), path[at])])]) + path[at + 1:]


def other_form(c, path, _):
    at = path.rindex(b"/") + 1
    return path[:at] + (b"=" if path[at:at + 1] == b"~" else b"~") + path[at + 1:]


def shorter(c, path, _):
    return path[:c.randrange(path.rindex(b"/") + 2, len(path))]


def longer(c, path, _):
    return path + b"!" if len(os.path.basename(path)) < 255 else shorter(c, path, _)


def elsewhere(c, path, all_paths):
    return os.path.join(os.path.dirname(c.choice([p for p in all_paths if os.path.dirname(p) != os.path.dirname(path)])), os.path.basename(path))


def made_up(c, path, _):
    return os.path.join(os.path.dirname(path), b"~" + bytes(c.choice([b for b in range(33, 256) if b not in (47, 127)]) for _ in range(c.randrange(20, 254))))


EDITS = [digit, digit, other_form, shorter, longer, elsewhere, made_up]


def edit(state, seed):
    chance, known, done = random.Random(seed), json.load(open(f"{state}/names.json")), {}
    paths = [bytes.fromhex(path) for path in known.values()]
    for plain, path in known.items():
        if chance.random() < 0.6:
            path = bytes.fromhex(path)
            to = chance.choice(EDITS)(chance, path, paths)
            if os.path.basename(to) not in (b".", b"..") and not os.path.lexists(to):
                os.rename(path, to)
                done[plain] = to.hex()
    json.dump(done, open(f"{state}/names-edits.json", "w"))


def restore(state):
    known = json.load(open(f"{state}/names.json"))
    for plain, to in json.load(open(f"{state}/names-edits.json")).items():
        os.rename(bytes.fromhex(to), bytes.fromhex(known[plain]))


def check(mnt, state, log):
    known, done = json.load(open(f"{state}/names.json")), json.load(open(f"{state}/names-edits.json"))
    for directory in DIRECTORIES:
        shown = {f"{directory}/{name}" for name in os.listdir(f"{mnt}/{directory}")}
        should = {plain for plain in known if plain.startswith(directory + "/") and plain not in done}
        if shown != should:
            sys.exit(f"{directory}: shown and not there {sorted(shown - should)}, not shown {sorted(should - shown)}")
    for plain in known:
        try:
            os.stat(f"{mnt}/{plain}")
            found = True
        except OSError as e:
            if e.errno != errno.ENOENT:
                raise
            found = False
        if found == (plain in done):
            sys.exit(f"{plain}: {'found' if found else 'not found'}, as {done.get(plain)}")
    if done and "names that are not sealed for it" not in open(log).read():
        sys.exit("names were changed, and the log does not say so")
    print(f"names: {len(known)}, of which {len(done)} were changed and are hidden")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
