# SPDX-License-Identifier: Apache-2.0
"""long-names.py A B DIR SEED: two mounts, A and B, rename, link and replace files of names with 255 bytes in one directory, while servers are killed.

A listing shows no name that nobody has made, and each file is found by the names that it was given last. DIR gets kick-0, kick-1 on the way."""
import os, random, sys

ROUNDS, NAMES = 300, 12
WIDTHS = ["s", "ä", "漢", "\U0001f40e"]


def name_of(owner, i):
    text = f"{owner}{i:02}" + (WIDTHS[i % 4] * 255)
    return text.encode()[:255].decode(errors="ignore")


ALL = {name_of(owner, i) for owner in "AB" for i in range(NAMES)}


def work(top, owner, kicks, seed):
    """Each mount has files of its own; what is where is known after each answer."""
    chance, where, made = random.Random(f"{seed}{owner}"), {}, 0
    for step in range(ROUNDS):
        if kicks and step % 120 == 60:
            open(f"{kicks}/kick-{step // 120}", "w").close()
        a, b = (name_of(owner, i) for i in chance.sample(range(NAMES), 2))
        if a not in where:
            with open(f"{top}/{a}", "x") as f:
                f.write(str(made))
            where[a], made = made, made + 1
        elif chance.random() < 0.3 and b not in where:
            os.link(f"{top}/{a}", f"{top}/{b}")
            where[b] = where[a]
        elif where.get(b) == where[a]:  # rename(2) leaves two names of one file as they are
            os.unlink(f"{top}/{a}")
            del where[a]
        else:
            os.rename(f"{top}/{a}", f"{top}/{b}")
            where[b] = where.pop(a)
        strange = set(os.listdir(top)) - ALL
        if strange:
            sys.exit(f"{owner}, step {step}: {strange} were never made")
    return where


def check(tops, owner, where):
    for top in tops:
        shown = {name for name in os.listdir(top) if name.startswith(owner)}
        if shown != set(where):
            sys.exit(f"{top}: {shown ^ set(where)} of {owner}'s are shown or missing")
        for name, number in where.items():
            if open(f"{top}/{name}").read() != str(number):
                sys.exit(f"{top}/{name} is another file")


def main(a, b, directory, seed):
    tops = [f"{a}/long", f"{b}/long"]
    os.mkdir(tops[0])
    child = os.fork()
    if not child:
        check(tops, "B", work(tops[1], "B", None, seed))
        return
    where = work(tops[0], "A", directory, seed)
    if os.waitpid(child, 0)[1]:
        sys.exit("the other mount's names are wrong")
    check(tops, "A", where)


main(*sys.argv[1:])
