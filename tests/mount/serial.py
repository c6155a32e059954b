# SPDX-License-Identifier: Apache-2.0
"""Two mounts write one file at random places: is what is left what the acknowledged writes leave in some serial order, which keeps the order of
those that did not overlap in time?

serial.py A B DIR SECONDS SEED     A, B: the file by each mount. Every 3 seconds DIR/kick-N appears, for who wants to kill a server.
"""
import hashlib, os, random, signal, sys, time

SIZE, MOST, KICK_S = 400000, 20000, 3
BURST, RATE = 50, 600  # writes in a row; in a second, of each mount: the judge needs time by the square of them


def pattern(number, size):
    return hashlib.shake_128(str(number).encode()).digest(size)


def write_for(path, number, seconds, seed, log):
    """Each line: start, end, offset, size, number of the write, whether it was acknowledged."""
    chance, fd, begin = random.Random(f"{seed} {number}"), os.open(path, os.O_RDWR), time.monotonic()
    with open(log, "w") as f:
        count = number
        while time.monotonic() < begin + seconds:
            if count // 2 % BURST == 0:
                time.sleep(max(0, begin + count // 2 / RATE - time.monotonic()))
            count += 2
            size = chance.choice((chance.randrange(1, 100), chance.randrange(1, 6000), chance.randrange(1, MOST)))
            at, start = chance.randrange(SIZE - size), time.monotonic_ns()
            try:
                done = os.pwrite(fd, pattern(count, size), at)
            except OSError as e:
                print(f"write {count} of {number}: {e}", file=sys.stderr)
                done = -1
            print(start, time.monotonic_ns(), at, size, count, int(done == size), file=f)


class Write:
    def __init__(self, line):
        self.start, self.end, self.at, self.size, self.number, self.done = map(int, line.split())
        self.bytes = pattern(self.number, self.size)
        self.after = []  # writes that must come later


def intervals(writes):
    """(from, to, writes that cover all of it), where no write begins or ends within."""
    edges, active = {}, set()
    for w in writes:
        edges.setdefault(w.at, []).append((w, True))
        edges.setdefault(w.at + w.size, []).append((w, False))
    places = sorted(edges)
    for place, following in zip(places, places[1:]):
        for w, begins in edges[place]:
            (active.add if begins else active.discard)(w)
        if active:
            yield place, following, active


def order(writes, data):
    """Adds what the bytes say of the order; a sentence, if no order has them."""
    for begin, end, over in intervals(writes):
        told = [w for w in over if w.done]
        latest = max((w.start for w in told), default=0)  # who ended before that was overwritten by an acknowledged write
        last = [w for w in over if (w.end >= latest or not w.done) and w.bytes[begin - w.at:end - w.at] == data[begin:end]]
        if not last:
            whose = [w.number for w in over if w.bytes[begin - w.at:end - w.at] == data[begin:end]]
            late = sorted((w for w in over), key=lambda w: w.end)[-6:]
            return (f"bytes {begin} to {end} are of none of the writes that may have come last, but of {whose or 'nobody'}; the last of them "
                    f"(number, start, end, from, to, acknowledged): {[(w.number, w.start, w.end, w.at, w.at + w.size, w.done) for w in late]}")
        if len(last) == 1 and last[0].done:
            for w in told:
                if w is not last[0] and w.end >= last[0].start:  # the others are before it anyway
                    w.after.append(last[0])
    return None


def in_time(writes):
    """Who had been acknowledged when another began is before it: of each client the first of those is enough."""
    for client in 0, 1:
        later = sorted((w for w in writes if w.number % 2 == client), key=lambda w: w.start)
        at = 0
        for w in sorted(writes, key=lambda w: w.end):
            while at < len(later) and later[at].start <= w.end:
                at += 1
            if at < len(later):
                w.after.append(later[at])
        for one, following in zip(later, later[1:]):
            one.after.append(following)


def circle_of(writes):
    before = {w: 0 for w in writes}
    for w in writes:
        for later in w.after:
            before[later] += 1
    ready, seen = [w for w in writes if not before[w]], 0
    while ready:
        w = ready.pop()
        seen += 1
        for later in w.after:
            before[later] -= 1
            if not before[later]:
                ready.append(later)
    if seen == len(writes):
        return None
    # Of those that are left each has one before it that is left, too: going back from any leads around.
    left = {w for w in writes if before[w]}
    earlier = {later: w for w in left for later in w.after if later in left}
    w, way = next(iter(left)), []
    while w not in way:
        way.append(w)
        w = earlier[w]
    return way[way.index(w):][::-1]


def judge(writes, data):
    wrong = order(writes, data)
    if wrong:
        return wrong
    done = [w for w in writes if w.done]
    in_time(done)
    circle = circle_of(done)
    return circle and ("the bytes that are left say that writes came before each other in a circle (number, start, end, from, to): "
                       f"{[(w.number, w.start, w.end, w.at, w.at + w.size) for w in circle]}")


def main(a, b, directory, seconds, seed):
    doing = "the file is made"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"seed {seed}: stopped while {doing}"))
    open(a, "wb").write(bytes(SIZE))
    doing = "the writers write"
    pids, begin = [], time.monotonic()
    for number, path in enumerate((a, b)):
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            write_for(path, number, seconds, seed, f"{directory}/writes-{number}")
            os._exit(0)
        pids.append(pid)
    for kick in range(seconds // KICK_S):
        time.sleep(max(0, begin + kick * KICK_S + 1 - time.monotonic()))
        open(f"{directory}/kick-{kick}", "w").close()
    if any(os.waitpid(pid, 0)[1] for pid in pids):
        sys.exit("a writer failed")
    doing = "it is read"
    writes = [Write(line) for number in (0, 1) for line in open(f"{directory}/writes-{number}")]
    zeros = Write("0 1 0 %d -2 1" % SIZE)  # what the file was before
    zeros.bytes = bytes(SIZE)
    left = [open(path, "rb").read() for path in (a, b)]
    doing = "it is judged"
    wrong = "the mounts read different things" if left[0] != left[1] else judge(writes + [zeros], left[0])
    if wrong:
        sys.exit(f"seed {seed}: {wrong}, of {len(writes)} writes")
    failed = sum(not w.done for w in writes)
    print(f"{len(writes)} writes, {failed} failed, in some order (SEED={seed})")
    if len(writes) < 10 * seconds or failed * 10 > len(writes):
        sys.exit("too little was written to show anything")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
