#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an encrypted mount knows of files without asking (doc/crypt.md, "What need not be read"): the length of those that it has made, and the block in
# which its last write has ended; and that it does not know it any more when another mount has written.
SPREAD=2 REPLICA=1 CRYPT=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER=$SCRATCH/other OTHER_PID=$LAST_PID
chmod 755 "$MNT"
count() { facts "$MNT" | awk -F': ' -v what="  $1" '$1 == what { sum += $2 } END { print sum + 0 }'; }
FILES=40

# ---- files that are made and written at once ----
mkdir "$MNT/d"
echo x >"$MNT/d/first" # from here on the brick's word is there
before=$(count "lengths asked for")
for ((i = 0; i < FILES; i++)); do echo "contents $i" >"$MNT/d/f$i"; done
asked=$(($(count "lengths asked for") - before))
say "lengths asked for while $FILES files were made: $asked"
[ "$asked" -lt $((FILES / 2)) ] || fail "of $FILES new files $asked lengths were asked for"
for ((i = 0; i < FILES; i++)); do
	[ "$(cat "$OTHER/d/f$i")" = "contents $i" ] || fail "file $i has other contents at the other mount"
done

# ---- another mount writes between the making and the first write ----
python3 - "$MNT/d" "$OTHER/d" <<'END' || fail "what the other mount has written into a new file is lost"
import os, sys
for i in range(30):
    a = os.open(f"{sys.argv[1]}/n{i}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    b = os.open(f"{sys.argv[2]}/n{i}", os.O_RDWR)
    os.pwrite(b, b"b" * 5000, 0)
    os.pwrite(a, b"a", 4999 if i % 2 else 2)
    left = bytearray(b"b" * 5000)
    left[4999 if i % 2 else 2] = ord("a")
    for fd in a, b:
        if os.pread(fd, 6000, 0) != bytes(left):
            sys.exit(f"file {i} is not what was written")
        os.close(fd)
END

# ---- in pieces, one behind the other: nothing is read while the lock is held ----
before=$(count "blocks read to change a part") locks=$(count "locks taken")
python3 - "$MNT/d/pieces" "$OTHER/d/pieces" <<'END' || fail "a file that was written in pieces is another one"
import os, random, sys
chance, size, data = random.Random(1), 300000, bytearray()
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL)
while len(data) < size:
    piece = chance.randbytes(chance.randrange(1, 9000))
    os.pwrite(fd, piece, len(data))
    data += piece
os.close(fd)
if open(sys.argv[2], "rb").read() != bytes(data):
    sys.exit(1)
END
read=$(($(count "blocks read to change a part") - before)) locks=$(($(count "locks taken") - locks))
say "a file of 300000 bytes written in pieces: $read blocks read, $locks locks"
[ "$read" -lt "$locks" ] || fail "the block in which the last write has ended is read again"

# ---- a large file, replaced by both ----
python3 - "$MNT/d/large" "$OTHER/d/large" <<'END' || fail "a file that two mounts replace in turn is not what was written last"
import os, random, sys
chance, mib = random.Random(2), 1 << 20
data, fds = bytearray(chance.randbytes(4 * mib)), []
fds = [os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:]]
os.pwrite(fds[0], data, 0)
for i in range(60):
    by = chance.randrange(2)
    at, n = (chance.randrange(4) * mib, mib) if chance.randrange(2) else (chance.randrange(4 * mib - 9000), chance.randrange(1, 9000))
    piece = chance.randbytes(n)
    os.pwrite(fds[by], piece, at)
    data[at:at + n] = piece
    if chance.randrange(8) == 0:
        os.fsync(fds[1 - by])
for fd in fds:
    if os.pread(fd, 4 * mib, 0) != bytes(data):
        sys.exit(1)
END

# ---- a small file that is written by some at once: each waits for the others' locks ----
python3 "$TOP/tests/mount/beside.py" "$MNT/d/beside" 300 "$SEED" || fail "what is written beside another write is lost"

# ---- a name that is too long only for what encrypts it, in a directory whose names are known ----
too_long() { # BYTES of ff
	python3 -c 'import errno, os, sys
for i in range(20):
    os.listdir(sys.argv[1])
    try: os.lstat(os.fsencode(sys.argv[1]) + b"/" + b"\xff" * int(sys.argv[2]))
    except OSError as e: assert e.errno == errno.ENAMETOOLONG, e' "$MNT/d" "$1"
}
too_long 240 || fail "a name that cannot be encrypted is not too long"
too_long 256 || fail "a name of 256 bytes is not too long"
stop_mount "$OTHER" "$OTHER_PID"
stop_stack
pass
