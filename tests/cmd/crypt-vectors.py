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


DIGITS = [d for d in range(0x21, 0x7f) if d != ord("/")] + list(range(0x80, 0x100))
CLASSES = [(0x10000, 144, 1 << 20), (0x800, 141, 21163), (0x80, 128, 148), (0, 0, 1)]  # first character, lead, base


def packed(name):
    number = 0
    for code in map(ord, reversed(name)):
        first, lead, base = next(c for c in CLASSES if code >= c[0])
        number = (number * base + (code - first) % base) * 145 + lead + (code - first) // base
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def long_text(siv, gfid, name):
    """What is sealed of a long name, and the text of it: by its form."""
    try:
        form, plain = b"~", packed(name.decode())
    except UnicodeDecodeError:
        form, plain = b"=", name
    sealed = siv.encrypt(plain, [gfid + form])
    number, digits = int.from_bytes(sealed, "big"), []
    for _ in range(-(-len(sealed) * 1028 // 1000)):
        number, digit = divmod(number, 221)
        digits.append(DIGITS[digit])
    check("the digits of a long name", number == 0)
    return form + bytes(reversed(digits))


def open_long(siv, gfid, text):
    """And back, without knowing it."""
    number = 0
    for digit in text[1:]:
        number = number * 221 + DIGITS.index(digit)
    plain = siv.decrypt(number.to_bytes((len(text) - 1) * 1000 // 1028, "big"), [gfid + text[:1]])
    if text[:1] == b"=":
        return plain
    number, name = int.from_bytes(plain, "big"), ""
    while number:
        number, lead = divmod(number, 145)
        first, least, base = next(c for c in CLASSES if lead >= c[1])
        number, rest = divmod(number, base)
        name += chr(first + (lead - least) * base + rest)
    return name.encode()


def check_long(masters, gfid, name, sealed, xattr):
    siv = AESSIV(derive(masters[0], b"name"))
    check("a long name", long_text(siv, gfid, name) == sealed and len(sealed) <= 255)
    check("a long name, opened", open_long(siv, gfid, sealed) == name)
    siv = AESSIV(derive(masters[0], b"xattr name"))
    check("the long name of an attribute", xattr[:6] == b"user.~" and long_text(siv, gfid, name[:220]) == xattr[6:] and len(xattr) <= 255)


def check_block(masters, gfid, b):
    header = b["header"]
    magic, version, cipher, flags, zero, epoch = struct.unpack(">4sBBBBI", header[:12])
    check("a header", (magic, version, cipher, flags, zero, epoch) == (b"SFC1", 2, b["cipher"], 0, 0, 2))
    key = AESSIV(derive(masters[epoch - 1], b"file key")).decrypt(header[12:], [header[:12] + gfid])
    check("a file's key", key == b["file-key"])
    nonce, tag, length, flags = struct.unpack(">12s16sHH", b["page"][:32])
    sealed = b["page"][32:]
    check("a seal", length == len(b["plain"]) == len(sealed) and flags == 1)
    number, page_at, size = b["block"]
    check("the place of a page", page_at == number * 4096)
    check("the length of a file", size == number * 4096 + 32 + length)
    data = struct.pack(">BBHHHIQ", 2, cipher, flags, length, 0, epoch, number) + gfid
    aead = (AESGCM if cipher == 1 else ChaCha20Poly1305)(key)
    check("a block", aead.decrypt(nonce, sealed + tag, data) == b["plain"])
    try:
        aead.decrypt(nonce, sealed + tag, data[:-1] + b"\0")
        sys.exit("a block opens for another file")
    except InvalidTag:
        pass


def main():
    masters, blocks, named, longs, value, mark, gfid = [], [], {}, [], b"", b"", b""
    for word, rest in lines():
        if word in ("master1", "master2"):
            masters.append(bytes.fromhex(rest[0]))
        elif word == "id":
            gfid = bytes.fromhex(rest[0])
        elif word in ("name", "target", "xattr-name"):
            named[word] = rest
        elif word == "long":
            longs.append([bytes.fromhex(rest[0])])
        elif word in ("long-name", "long-xattr-name"):
            longs[-1].append(bytes.fromhex(rest[0]))
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
    check("the number of answers", len(masters) == 2 and len(blocks) == 2 and len(named) == 3 and len(longs) == 9)
    check_texts(masters, gfid, named)
    for long in longs:
        check_long(masters, gfid, *long)
    nonce = value[:16]
    siv = AESSIV(derive(masters[0], b"xattr value"))
    check("an attribute's value", siv.decrypt(value[16:], [nonce + gfid + b"user.colour"]) == b"\1green")
    siv = AESSIV(derive(masters[0], b"volume"))
    check("a volume's mark", mark[:8] == b"SFV1\1\0\0\0" and siv.decrypt(mark[8:], [mark[:8]]) == b"stratus\0")
    for b in blocks:
        check_block(masters, gfid, b)


main()
