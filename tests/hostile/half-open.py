# SPDX-License-Identifier: Apache-2.0
"""So many connections at all times that never end the handshake of TLS: half-open.py PORT COUNT. A quarter says nothing, a quarter sends the head of
a handshake, a quarter sends it byte by byte, and a quarter sends what is no handshake, is refused, and stays."""
import select
import socket
import sys

port, count = int(sys.argv[1]), int(sys.argv[2])
hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(507)
held = {}


def another(number):
    s = socket.create_connection(("127.0.0.1", port))
    s.setblocking(False)
    if number % 4 == 1:
        s.send(hello[:200])
    elif number % 4 == 3:
        s.send(b"no greeting of anybody's\r\n\r\n")
    held[s] = [number % 4, 0]


for number in range(count):
    another(number)
print("there", flush=True)
while True:
    poll = select.poll()
    names = {s.fileno(): s for s, state in held.items() if state[0] != 3}
    for fd in names:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    for fd, _ in poll.poll(200):
        kind = held.pop(names[fd])[0]
        names[fd].close()
        another(kind)
    for s, state in held.items():
        if state[0] == 2 and state[1] < 200:
            try:
                s.send(hello[state[1]:state[1] + 1])
            except OSError:
                pass
            state[1] += 1
