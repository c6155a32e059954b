# SPDX-License-Identifier: Apache-2.0
"""Opens what crypt-format-test has sealed, by another implementation and from doc/crypt.md alone."""
import base64
import hashlib
import hmac
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV, ChaCha20Poly1305


def lines():
    for line in sys.stdin:
        word, *rest = line.split()
        yield word, rest


def derive(master, what):
    return hmac.new(master, b"stratus crypt 1 " + what, hashlib.sha512).digest()


def text(sealed):
    return base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))


def check(what, is_so):
    if not is_so:
        sys.exit(f"{what} is not what doc/crypt.md says")


def check_texts(masters, gfid, name):
    """Names and the like are derived from the first epoch."""
    labels = {"name": b"name", "target": b"link target", "xattr-name": b"xattr name"}
    for what, label in labels.items():
        plain, sealed = name[what]
        if what == "xattr-name":
            check("the prefix of an attribute", plain.startswith("user.") and sealed.startswith("user.~"))
            plain, sealed = plain[5:], sealed[6:]
        siv = AESSIV(derive(masters[0], label))
        check(what, siv.decrypt(text(sealed), [gfid]) == plain.encode())
        check(what + ": one text", siv.encrypt(plain.encode(), [gfid]) == text(sealed))


def check_block(masters, gfid, b):
    header = b["header"]
    magic, version, cipher, flags, zero, epoch = struct.unpack(">4sBBBBI", header[:12])
    check("a header", (magic, version, cipher, flags, zero, epoch) == (b"SFC1", 1, b["cipher"], 0, 0, 2))
    key = AESSIV(derive(masters[epoch - 1], b"file key")).decrypt(header[12:], [header[:12] + gfid])
    check("a file's key", key == b["file-key"])
    nonce, tag, length, flags = struct.unpack(">12s16sHH", b["slot"])
    check("a slot", length == len(b["plain"]) and flags == 5 << 8 | 1)
    number, slots_at, block_at = b["block"]
    check("the place of slots", slots_at == number // 64 * 65 * 4096 + number % 64 * 64)
    check("the place of a block", block_at == (number // 64 * 65 + 1 + number % 64) * 4096)
    data = struct.pack(">BBHHHIQ", 1, cipher, flags, length, 0, epoch, number) + gfid
    aead = (AESGCM if cipher == 1 else ChaCha20Poly1305)(key)
    check("a block", aead.decrypt(nonce, b["sealed"] + tag, data) == b["plain"])
    try:
        aead.decrypt(nonce, b["sealed"] + tag, data[:-1] + b"\0")
        sys.exit("a block opens for another file")
    except InvalidTag:
        pass


def main():
    masters, blocks, named, value, mark, gfid = [], [], {}, b"", b"", b""
    for word, rest in lines():
        if word in ("master1", "master2"):
            masters.append(bytes.fromhex(rest[0]))
        elif word == "id":
            gfid = bytes.fromhex(rest[0])
        elif word in ("name", "target", "xattr-name"):
            named[word] = rest
        elif word == "xattr-value":
            value = bytes.fromhex(rest[0])
        elif word == "mark":
            mark = bytes.fromhex(rest[0])
        elif word == "cipher":
            blocks.append({"cipher": int(rest[0])})
        elif word == "block":
            blocks[-1]["block"] = [int(n) for n in rest]
        else:
            blocks[-1][word] = bytes.fromhex(rest[0])
    check("the number of answers", len(masters) == 2 and len(blocks) == 2 and len(named) == 3)
    check_texts(masters, gfid, named)
    nonce = value[:16]
    siv = AESSIV(derive(masters[0], b"xattr value"))
    check("an attribute's value", siv.decrypt(value[16:], [nonce + gfid + b"user.colour"]) == b"\1green")
    siv = AESSIV(derive(masters[0], b"volume"))
    check("a volume's mark", mark[:8] == b"SFV1\1\0\0\0" and siv.decrypt(mark[8:], [mark[:8]]) == b"stratus\0")
    for b in blocks:
        check_block(masters, gfid, b)


main()
