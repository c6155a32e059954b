#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of doc/distribution.md as a model, tried in every order: intents that are taken over, and a name in a transition.

Each action of each party is one step; any party may be slow for ever. That is small enough to look at all states (some seconds). It
says nothing of code: tests/sim does. With --mutants each rule is broken in turn, which must be noticed.
"""
import sys
from collections import namedtuple


class Broken(Exception):
    pass


def explore(first, successors, check):
    """Looks at all states that can be reached; how many there are."""
    seen, todo = {first}, [first]
    while todo:
        state = todo.pop()
        check(state)
        for after in successors(state):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return len(seen)


def put(items, at, value):
    return items[:at] + (value,) + items[at + 1:]


# ---- intents ----
# Two names, A and B, at two subvolumes. Intent 0 renames what is at A to B, intent 1 what is at B to A.

Intent = namedtuple("Intent", "file anchor victim")  # file: None, ("i", attempt) or ("d", attempt)
World = namedtuple("World", "names marks intents at")  # names: (object, pointer); marks: (intent, attempt); at: where each party is
A, B = 0, 1


class Intents:
    def __init__(self, parties, mutant, names=(("F", "F"), ("G", "G"))):
        self.parties, self.mutant = parties, mutant
        self.first = World(names, (None, None), (Intent(None, None, None),) * 2, ("begin",) * len(parties))

    def successors(self, w):
        for k, (kind, number) in enumerate(self.parties):
            yield from getattr(self, kind)(w, k, number)

    # Small changes of the world.
    def name(self, w, at, what):
        return w._replace(names=put(w.names, at, what))

    def mark(self, w, at, what):
        return w._replace(marks=put(w.marks, at, what))

    def intent(self, w, i, **what):
        return w._replace(intents=put(w.intents, i, w.intents[i]._replace(**what)))

    def to(self, w, k, where):
        return w._replace(at=put(w.at, k, where))

    def passes(self, w, at, i, attempt):
        m = w.marks[at]
        return m == (i, attempt) or (self.mutant == "no-fence" and m is not None and m[0] == i)

    def unmark(self, w, at, mark):
        return self.mark(w, at, None) if w.marks[at] == mark else w

    def owner(self, w, k, i):
        """Writes, marks, looks, prepares, decides, ends."""
        at, mine, (source, target) = w.at[k], w.intents[i], ((A, B), (B, A))[i]
        lost = "forgo-source" if self.mutant == "unmark-when-lost" else "stopped"
        if at == "begin":
            yield self.to(self.intent(w, i, file=("i", 1)), k, "mark-source")
        elif at in ("mark-source", "mark-target"):
            name, then = (source, "mark-target") if at == "mark-source" else (target, "look")
            free = w.marks[name] is None
            yield self.to(self.mark(w, name, (i, 1)), k, then) if free else self.to(w, k, "forgo-source")
        elif at == "look":
            if mine.file != ("i", 1) and self.mutant != "no-look":
                yield self.to(w, k, lost)
            else:
                yield self.to(w, k, "take" if w.names[source] else "forgo-source")
        elif at == "take":
            if not self.passes(w, source, i, 1) or not w.names[source]:
                yield self.to(w, k, lost)
            else:
                yield self.to(self.intent(self.name(w, source, None), i, anchor=w.names[source]), k, "displace")
        elif at in ("displace", "place") and not self.passes(w, target, i, 1):
            yield self.to(w, k, lost)
        elif at == "displace":
            yield self.to(self.intent(self.name(w, target, None), i, victim=w.names[target]), k, "place")
        elif at == "place":
            yield self.to(self.name(w, target, (mine.anchor[0], i)), k, "decide") if mine.anchor else self.to(w, k, lost)
        elif at == "decide":
            if mine.file == ("i", 1) or (mine.file and self.mutant == "decide-anyway"):
                yield self.to(self.intent(w, i, file=("d", mine.file[1])), k, "end-source")
            else:
                yield self.to(w, k, lost)
        elif at in ("end-source", "forgo-source"):
            yield self.to(self.unmark(w, source, (i, 1)), k, at.replace("source", "target"))
        elif at in ("end-target", "forgo-target"):
            yield self.to(self.unmark(w, target, (i, 1)), k, "clean" if at == "end-target" else "remove")
        elif at == "clean":
            yield self.to(self.intent(w, i, anchor=None, victim=None), k, "remove")
        elif at == "remove":
            own = mine.file in (("i", 1), ("d", 1))
            yield self.to(self.intent(w, i, file=None) if own else w, k, "stopped")

    def successor(self, w, k, i):
        """Takes over once, whenever it likes. Where it is: (step, attempt, decided)."""
        at, mine, (source, target) = w.at[k], w.intents[i], ((A, B), (B, A))[i]
        if at == "begin":
            if mine.file:
                kind, attempt = mine.file
                yield self.to(self.intent(w, i, file=(kind, attempt + 1)), k, ("mark-source", attempt + 1, kind))
            return
        if at == "stopped":
            return
        step, attempt, kind = at

        def go(after, then):
            return self.to(after, k, (then, attempt, kind))

        if step in ("mark-source", "mark-target"):
            name, then = (source, "mark-target") if step == "mark-source" else (target, "look")
            m = w.marks[name]
            ours = m is None or (m[0] == i and m[1] < attempt)
            yield go(self.mark(w, name, (i, attempt)) if ours else w, then)
        elif step == "look":
            if mine.file != (kind, attempt):
                yield go(w, "unmark-source") if self.mutant == "unmark-when-lost" else self.to(w, k, "stopped")
            else:
                held = all(self.passes(w, n, i, attempt) for n in (source, target))
                yield go(w, "unplace" if kind == "i" and held else "unmark-source")
        elif step in ("unplace", "replace", "untake"):
            name = source if step == "untake" else target
            if not self.passes(w, name, i, attempt):
                yield self.to(w, k, "stopped")
            elif step == "unplace":
                placed = w.names[target] is not None and w.names[target][1] == i
                yield go(self.name(w, target, None) if placed else w, "replace")
            elif step == "replace":
                yield go(self.intent(self.name(w, target, mine.victim), i, victim=None) if mine.victim else w, "untake")
            else:
                back = self.intent(self.name(w, source, mine.anchor), i, anchor=None) if mine.anchor else w
                yield go(back, "unmark-source")
        elif step == "unmark-source":
            yield go(self.unmark(w, source, (i, attempt)), "unmark-target")
        elif step == "unmark-target":
            yield go(self.unmark(w, target, (i, attempt)), "remove")
        elif step == "remove":
            if mine.file == (kind, attempt):
                w = self.intent(w, i, file=None)
                w = self.intent(w, i, anchor=None, victim=None) if kind == "d" else w
            yield self.to(w, k, "stopped")

    def sweeper(self, w, _k, _number):
        """Removes marks whose intent is not there."""
        for name in (A, B):
            if w.marks[name] and not w.intents[w.marks[name][0]].file:
                yield self.mark(w, name, None)

    def unlinker(self, w, k, name):
        if w.at[k] == "begin" and not w.marks[name]:
            yield self.to(self.name(w, name, None), k, "removed" if w.names[name] else "stopped")

    def reader(self, w, k, _number):
        """Looks at A, then at B: what is no more at A must be at B."""
        if w.at[k] == "begin" and not w.marks[A]:
            yield self.to(w, k, "absent" if not w.names[A] else "stopped")
        elif w.at[k] == "absent" and not w.marks[B]:
            if not w.names[B]:
                raise Broken("neither name was seen")
            yield self.to(w, k, "stopped")

    def check(self, w):
        if any(w.marks) or any(i.file for i in w.intents):
            return
        objects = [n[0] for n in w.names if n]
        if len(set(objects)) != len(objects):
            raise Broken("an object has two names")
        if any(i.anchor or i.victim for i in w.intents):
            raise Broken("an object was left without a name")
        if not objects and "removed" not in w.at:
            raise Broken("both objects are gone")


def intents(mutant):
    sweep = ("sweeper", 0)
    states = 0
    for parties in ([("owner", 0), ("successor", 0), ("successor", 0), sweep, ("owner", 1)],
                    [("owner", 0), ("successor", 0), ("owner", 1), ("successor", 1), sweep, ("unlinker", A)],
                    [("owner", 0), ("successor", 0), ("successor", 0), ("owner", 1), sweep, ("unlinker", A)]):
        m = Intents(parties, mutant)
        states += explore(m.first, m.successors, m.check)
    m = Intents([("owner", 0), ("successor", 0), ("successor", 0), ("reader", 0), sweep], mutant, (("F", "F"), None))
    return states + explore(m.first, m.successors, m.check)


# ---- a transition ----
# One name, whose owner was a and is to be b. The home is a third member, which only tells the layout.

Name = namedtuple("Name", "version there marks mover clients acknowledged")  # version: of home, a, b; there: the object at a, at b
HOME, OLD, NEW = 0, 1, 2
Client = namedtuple("Client", "version at answer")


class Transition:
    def __init__(self, deeds, there, mutant):
        self.deeds, self.mutant, self.began_with = deeds, mutant, there
        self.first = Name((0, 0, 1), (there, None), (False, False), "home-moves", (Client(0, OLD, None),) * len(deeds), there)

    def successors(self, s):
        yield from self.mover(s)
        for k, deed in enumerate(self.deeds):
            if not s.clients[k].answer:
                yield from self.client(s, k, deed)

    def mover(self, s):
        """The rebalancer: version 1, the name from a to b under marks, version 2."""
        def go(then, **what):
            return s._replace(mover=then, **what)

        def version(member, v, then):
            return go(then, version=put(s.version, member, v))

        step = s.mover
        if step == "home-moves":
            yield version(HOME, 1, "old-moves")
        elif step == "old-moves":
            yield version(OLD, 1, "list")
        elif step == "list":
            if s.there[0]:
                yield go("mark-b", marks=put(s.marks, 0, True))
            if not s.there[0] and not s.marks[0] or self.mutant == "settle-early":
                yield version(HOME, 2, "settle")
        elif step == "mark-b":
            yield go("look", marks=put(s.marks, 1, True))
        elif step == "look":
            yield go("copy" if s.there[0] else "unmark-a")
        elif step == "copy":
            yield go("remove", there=put(s.there, 1, s.there[0]))
        elif step == "remove":
            yield go("unmark-a", there=put(s.there, 0, None))
        elif step == "unmark-a":
            yield go("unmark-b", marks=put(s.marks, 0, False))
        elif step == "unmark-b":
            yield go("list", marks=put(s.marks, 1, False))
        elif step == "settle":
            yield from (version(m, 2, "settle") for m in (OLD, NEW) if s.version[m] < 2)

    def client(self, s, k, deed):
        """Asks a by version 0, a and then b by version 1, b by version 2."""
        c = s.clients[k]

        def to(after, **what):
            return s._replace(clients=put(s.clients, k, c._replace(**after)), **what)

        if c.at == HOME:
            v = s.version[HOME]
            first = NEW if v == 2 or (v == 1 and self.first_is_new(deed)) else OLD
            yield to({"version": v, "at": first})
            return
        shard = c.at - 1
        if s.version[c.at] != c.version and self.mutant != "accept-old-layout":
            yield to({"at": HOME})
        elif s.marks[shard]:
            return
        elif deed == "create" and s.there[shard]:
            yield to({"answer": "EEXIST"})
        elif deed == "unlink" and s.there[shard]:
            yield to({"answer": "removed"}, there=put(s.there, shard, None), acknowledged=None)
        elif deed == "lookup" and s.there[shard]:
            yield to({"answer": "found"})
        elif c.version == 1 and c.at == (NEW if self.first_is_new(deed) and deed != "create" else OLD):
            yield to({"at": OLD if c.at == NEW else NEW})
        elif deed == "create":
            yield to({"answer": "made"}, there=put(s.there, shard, f"of {k}"), acknowledged=f"of {k}")
        else:
            yield to({"answer": "ENOENT"})

    def first_is_new(self, deed):
        return (self.mutant == "skip-old-owner" and deed == "create") or (self.mutant == "new-before-old" and deed == "lookup")

    def check(self, s):
        answers = [c.answer for c in s.clients]
        if all(o is not None for o in s.there) and not any(s.marks):
            raise Broken("the name is at both")
        if s.acknowledged is not None and s.acknowledged not in s.there:
            raise Broken("what was made is not there")
        if "unlink" in self.deeds:
            return
        if answers.count("made") + (self.began_with is not None) > 1:
            raise Broken("made twice")
        if self.began_with is not None and "ENOENT" in answers:
            raise Broken("what was there all the time was not found")


def transition(mutant):
    states = 0
    for deeds in (("lookup",), ("create", "create"), ("create", "unlink"), ("create", "lookup"), ("create", "create", "lookup"),
                  ("create", "unlink", "lookup"), ("create", "create", "unlink"), ("unlink", "unlink", "create")):
        for there in (None, "x"):
            m = Transition(deeds, there, mutant)
            states += explore(m.first, m.successors, m.check)
    return states


MODELS = {intents: ("no-look", "no-fence", "decide-anyway", "unmark-when-lost"),
          transition: ("settle-early", "accept-old-layout", "skip-old-owner", "new-before-old")}


def main():
    failed = False
    for model, mutants in MODELS.items():
        print(f"{model.__name__}: {model(None)} states, all good")
        for mutant in mutants if "--mutants" in sys.argv[1:] else ():
            try:
                model(mutant)
                print(f"{model.__name__}, {mutant}: NOT FOUND")
                failed = True
            except Broken as why:
                print(f"{model.__name__}, {mutant}: {why}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
