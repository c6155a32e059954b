#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A brick whose disk has no room left, neither inodes nor blocks, starts all the same: what it holds is read, and what is removed makes room.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need mkfs.ext4
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
empty() { rm -f "$BRICK"/.stratus/own* "$BRICK/.stratus/ballast"; }

echo "what was there" >"$MNT/before"
: >"$BRICK/.stratus/ballast"
fill
stop_brick
start_brick
[ "$(timeout 20 cat "$MNT/before")" = "what was there" ] || fail "the file that was there can't be read"
! (echo more >"$MNT/more") 2>/dev/null || fail "a disk without room takes a new file"
rm "$MNT/file1" "$MNT/file2" "$MNT/file3"
empty
echo more >"$MNT/more" || fail "there is no room after something was removed"
[ "$(cat "$MNT/more")" = more ] || fail "what was written after that is not there"
stop_stack
pass
