# SPDX-License-Identifier: Apache-2.0
"""Who is not let in, and what he may say before: strangers.py PORT DIRECTORY SEED [SECRET...]"""
import os
import random
import socket
import ssl
import sys
import threading

import wire
from wire import *

wire.stage(sys.argv[1], sys.argv[2], [bytes.fromhex(secret) for secret in sys.argv[4:]])
random.seed(int(sys.argv[3]))


def certificates():
    """By the certificate: in TLS 1.3 the client has finished before the server refuses it, so the end of it comes with the first answer."""
    for who in "expired", "revoked", "foreign", None:
        try:
            Client(who)
            wrong(f"{who} is let in")
        except (Closed, ConnectionError, ssl.SSLError):
            pass
    for who in "nobody", "admin", "stranger", "point":
        expect(f"{who}", Client(who).refused, EACCES)
    plain = socket.create_connection(("127.0.0.1", wire.place["port"]))
    plain.settimeout(60)
    plain.sendall(record(8191, HELLO, Client("acme").greeting(1)))
    try:
        expect("without TLS", plain.recv(1000)[:1], b"", b"\x15") # 21: an alert
    except ConnectionError:
        pass
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(f"{wire.place['directory']}/good-ca.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        old.wrap_socket(socket.create_connection(("127.0.0.1", wire.place["port"])), server_hostname="127.0.0.1")
        wrong("TLS 1.2 is spoken")
    except (ConnectionError, ssl.SSLError):
        pass


class Early(Client):
    """Has done the handshake of TLS, and says something before it is welcome."""

    def hello(self):
        self.socket = connect(self.who)
        self.root = b""
        return 0


def said_early(what, *sent):
    one = Early("acme")
    try:
        for raw in sent:
            one.socket.sendall(raw)
        while True:
            status, _, results = one.receive()
            if status == 0 and results:
                wrong(f"{what}: {len(results)} bytes before WELCOME")
    except (Closed, ConnectionError, ssl.SSLError):
        pass


def before_welcome():
    known = Client("acme")
    for fop in range(1, 35):
        said_early(f"fop {fop}", record(1 << 13, 100 + fop, head() + opaque(known.root) + bytes(64)))
    for procedure in 2, 3, 4, 5, 6, 7, 99, 135, 2**32 - 1:
        said_early(f"procedure {procedure}", record(8191, procedure, words(1)))
    hello = record(8191, HELLO, Early("acme").greeting(1))
    unwelcome = record(8191, HELLO, opaque(b"nothing") + Early("acme").greeting(1)[12:])
    lookup = record(1 << 13, 100 + LOOKUP, head() + loc(known.root, b"secret"))
    said_early("a call after a refusal", unwelcome, lookup)
    said_early("a second HELLO after a refusal", unwelcome, hello, lookup)
    said_early("two HELLOs at once, of two sessions", hello, record(8191, HELLO, Early("acme").greeting(1)))


def greetings():
    """HELLO that is too long, too short, or of bytes as they come (CVE-2018-14653 was one such)."""
    good = Early("acme").greeting(1)
    for sizes in (256, 36, 36), (255, 65, 36), (255, 64, 65), (2**31, 0, 0), (2**32 - 1, 2**32 - 1, 2**32 - 1), (4096, 0, 0):
        body = b"".join(words(size) + b"%n" * (min(size, 300) // 2) for size in sizes)
        said_early(f"a HELLO of {sizes}", record(8191, HELLO, body + good[20:]))
    for count in 9, 2**16, 2**32 - 1:
        said_early(f"a HELLO with {count} extensions", record(8191, HELLO, good[:-4] + words(count) + bytes(200)))
    for size in 4097 - 44, 8192, 2**20:
        said_early(f"a HELLO and {size} bytes", record(8191, HELLO, good + bytes(size)))
    for cut in range(0, len(good), 7):
        said_early(f"{cut} bytes of a HELLO", record(8191, HELLO, good[:cut // 4 * 4]))
    for _ in range(300):
        body = bytearray(good)
        for _ in range(random.randrange(1, 9)):
            body[random.randrange(len(body))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
        one = Early("acme")
        try:
            one.socket.sendall(record(8191, HELLO, bytes(body)))
            one.receive()
        except (Closed, ConnectionError, ssl.SSLError):
            pass
    for channel in 64, 65, 2**31, 2**32 - 1:
        expect(f"channel {channel}", Client("acme", channel=channel).refused, EINVAL)


def crowd(who):
    """The first clients of a tenant may come all at once: its tree is made for one of them, and the others find it."""
    outcome = []

    def come(channel):
        try:
            outcome.append(Client(who, channel=channel).refused)
        except (Closed, ConnectionError, ssl.SSLError) as error:
            outcome.append(repr(error))

    all_ = [threading.Thread(target=come, args=(n % 2,)) for n in range(16)]
    for one in all_:
        one.start()
    for one in all_:
        one.join()
    expect(f"the first clients of {who}", outcome, [0] * 16)


for new in "new0", "new1", "new2", "new3":
    crowd(new)
certificates()
before_welcome()
greetings()
wire.done()
