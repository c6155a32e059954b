# SPDX-License-Identifier: Apache-2.0
"""Sends what no client sends to a server's port (see garbage.sh). Prints "CONNECTIONS PEAK_RSS_KIB"."""
import os
import random
import socket
import struct
import sys
import threading
import time

kind, scratch, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


def connect():
    return socket.create_connection(("127.0.0.1", port), timeout=100)


def tap():
    """Stands between a client and the server, and keeps each connection's requests in a file."""
    listener = socket.create_server(("127.0.0.1", 0))
    number = 0

    def pump(a, b, keep):
        try:
            while data := a.recv(65536):
                if keep:
                    keep.write(data)
                    keep.flush()
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    with open(scratch + "/tap-port", "w") as f:
        f.write(str(listener.getsockname()[1]))
    while True:
        client, _ = listener.accept()
        server = connect()
        server.settimeout(None)
        keep = open(f"{scratch}/tapped-{number}", "wb")
        number += 1
        threading.Thread(target=pump, args=(client, server, keep), daemon=True).start()
        threading.Thread(target=pump, args=(server, client, None), daemon=True).start()


if kind == "tap":
    tap()

seed, count, server_pid = int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
rng = random.Random(f"{seed} {kind}")
peak = 0


def look():
    global peak
    with open(f"/proc/{server_pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS"):
                peak = max(peak, int(line.split()[1]))


def drain(s):
    """Until the server closes the connection, or for a short while."""
    try:
        s.settimeout(0.05)
        while s.recv(65536):
            pass
    except OSError:
        pass


def send(data, wait=True):
    with connect() as s:
        try:
            s.sendall(data)
            if rng.random() < 0.5:
                s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused in the middle: right so
        if wait:
            drain(s)
    look()


def record(data, last=True):
    return struct.pack(">I", len(data) | (0x80000000 if last else 0)) + data


def call_header(program=None, version=1, procedure=None):
    """An ONC RPC call with plausible or random numbers."""
    return struct.pack(">IIIIII", rng.getrandbits(32), 0, 2, program if program is not None else rng.getrandbits(32), version,
                       procedure if procedure is not None else rng.randrange(40)) + bytes(16)


def known_program():
    """The program number that real clients use, from the tapped bytes."""
    for name in sorted(os.listdir(scratch)):
        if name.startswith("tapped-") and os.path.getsize(f"{scratch}/{name}") > 28:
            with open(f"{scratch}/{name}", "rb") as f:
                return struct.unpack(">I", f.read(20)[16:20])[0]
    return 0


def tapped():
    streams = []
    for name in sorted(os.listdir(scratch)):
        if name.startswith("tapped-"):
            with open(f"{scratch}/{name}", "rb") as f:
                streams.append(f.read())
    return [s for s in streams if s]


def records_of(stream):
    at, found = 0, []
    while at + 4 <= len(stream):
        size = struct.unpack(">I", stream[at:at + 4])[0] & 0x7fffffff
        found.append(stream[at:at + 4 + size])
        at += 4 + size
    return found


def noise(_):
    send(rng.randbytes(rng.choice((1, 3, 4, 27, 100, 5000, 70000))))


def oversized(_):
    size = rng.choice((0x7fffffff, 0x10000000, 0x02000000, 0x00800000))
    head = struct.pack(">I", size | rng.choice((0, 0x80000000)))
    send(head + call_header(known_program()) + rng.choice((b"", b"\xff" * 200000)))


def truncated(_):
    stream = rng.choice(tapped())
    send(stream[:rng.randrange(1, len(stream))])


def fragments(_):
    """Records of many fragments that never end, empty ones among them."""
    send(b"".join(record(b"" if rng.random() < 0.8 else rng.randbytes(rng.randrange(64)), last=False) for _ in range(3000)))


def replayed(_):
    streams = tapped()
    stream = rng.choice(streams)
    whole = records_of(stream)
    if rng.random() < 0.5:
        rng.shuffle(whole)
    send(rng.choice((stream, stream + stream, b"".join(whole), b"".join(records_of(rng.choice(streams)) + whole))))


def mutated(_):
    found = records_of(rng.choice(tapped()))
    first = found[0]  # kept, so that the rest gets past the greeting
    chosen = [bytearray(r) for r in rng.choices(found, k=20)]
    for r in chosen:
        for _ in range(rng.choice((1, 1, 2, 8))):
            if len(r) > 4:
                r[rng.randrange(4, len(r))] = rng.choice((0, 0xff, 0x7f, rng.randrange(256)))
        if rng.random() < 0.3:
            words = rng.randrange(1, 6)
            r += rng.choice((b"\xff", b"\0")) * 4 * words
            r[:4] = struct.pack(">I", (len(r) - 4) | 0x80000000)
    send(first + b"".join(map(bytes, chosen)))


def idle():
    """All at once: connections that announce a large record and then say nothing more."""
    held = []
    for _ in range(min(count, 400)):
        try:
            s = connect()
            s.sendall(struct.pack(">I", 0x80000000 | rng.choice((1000, 1 << 20, (1 << 20) + 4000))) + call_header(known_program()) +
                      rng.randbytes(rng.randrange(3000)))
            held.append(s)
        except OSError:
            pass
    for _ in range(10):
        look()
        time.sleep(0.05)
    for s in held:
        s.close()
    return len(held)


look()
made = idle() if kind == "idle" else count
if kind != "idle":
    for i in range(count):
        globals()[kind](i)
time.sleep(0.2)
look()
print(made, peak)
