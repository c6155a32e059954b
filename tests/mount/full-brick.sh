#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A brick whose disk has no room left, neither inodes nor blocks, starts all the same: what it holds is read, and what is removed makes room.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need mkfs.ext4 python3
scratch
truncate -s 16M "$SCRATCH/disk"
mkfs.ext4 -q -m 0 -N 256 "$SCRATCH/disk"
mkdir "$SCRATCH/brick"
mount -o loop "$SCRATCH/disk" "$SCRATCH/brick"
start_stack "$SCRATCH"

fill() { # until nothing more can be made, nor written
	local i
	for ((i = 0; i < 400; i++)); do echo "$i" >"$MNT/file$i" || break; done 2>/dev/null
	[ "$i" -gt 20 ] && [ "$i" -lt 400 ] || fail "$i files fill a disk of 256 inodes"
	while : >"$BRICK/.stratus/own$i"; do i=$((i + 1)); done 2>/dev/null
	! cat /dev/zero >"$BRICK/.stratus/ballast" 2>/dev/null || fail "a disk of 16 MiB takes all that is written"
	sync -f "$BRICK"
	[ "$(stat -f -c %d "$BRICK")" = 0 ] || fail "$(stat -f -c %d "$BRICK") inodes are left"
}
# What was removed is free: the brick frees it behind the answer, and that of an open file when the kernel has released it.
all_freed() { [[ "$(ls -l "/proc/$BRICK_PID/fd" 2>/dev/null)" != *"(deleted)"* ]]; }
empty() { rm -f "$BRICK"/.stratus/own* "$BRICK/.stratus/ballast"; }

echo "what was there" >"$MNT/before"
: >"$BRICK/.stratus/ballast"
fill
stop_brick
start_brick
[ "$(timeout 100 cat "$MNT/before")" = "what was there" ] || fail "the file that was there can't be read"
! (echo more >"$MNT/more") 2>/dev/null || fail "a disk without room takes a new file"
rm "$MNT/file1" "$MNT/file2" "$MNT/file3"
empty
echo more >"$MNT/more" || fail "there is no room after something was removed"
[ "$(cat "$MNT/more")" = more ] || fail "what was written after that is not there"

# The last blocks, too: what is left below is less than the floor, of which the brick makes sure once a second.
stop_brick
sed -i 's/option brick-id/option free-space-floor 0\n    &/' "$SERVER_VOL"
start_brick

# What is written through a mapping is there, or msync(2) says that it is not, however much of it had room.
for left in 100 300 700; do # KiB
	rm -f "$MNT/mapped"
	wait_until 30 all_freed || fail "what was removed is not freed"
	truncate -s 1M "$MNT/mapped" || fail "no file" # now: so little room is below the floor, and the brick looks at that once a second
	sync -f "$BRICK"
	head -c $((($(stat -f -c %a "$BRICK") * $(stat -f -c %S "$BRICK") / 1024 - left) * 1024)) /dev/zero >"$BRICK/.stratus/ballast" || fail "no ballast"
	sync -f "$BRICK"
	python3 - "$MNT/mapped" "$BRICK/mapped" <<-'END' || fail "what did not fit is lost, and nobody was told"
	import errno, mmap, os, sys
	fd, size = os.open(sys.argv[1], os.O_RDWR), 1 << 20
	told = False
	with mmap.mmap(fd, size) as m:
	    m[:] = b"m" * size
	    try:
	        m.flush()
	        os.fsync(fd)
	    except OSError as e:
	        assert e.errno in (errno.ENOSPC, errno.EIO), e
	        told = True
	    there = open(sys.argv[2], "rb").read().count(b"m")
	    assert told or there == size, f"{there} bytes of {size} are there"
	    print(f"{there} bytes were written", "and the rest was told" if told else "")
	END
	rm "$BRICK/.stratus/ballast"
done
# What was removed a moment ago makes room at once, though the brick frees it behind the answer.
wait_until 30 all_freed || fail "what was removed is not freed"
sync -f "$BRICK"
python3 - "$MNT/big" $(($(stat -f -c %a "$BRICK") * $(stat -f -c %S "$BRICK") * 6 / 10)) <<-'END' || fail "what was removed makes no room"
import os, sys
path, size = sys.argv[1], int(sys.argv[2])
for flags in [0, os.O_APPEND] * 10:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    left = size
    while left:
        left -= os.write(fd, bytes(min(left, 1 << 17)))
    os.close(fd)
    os.unlink(path)
END
stop_stack
pass
