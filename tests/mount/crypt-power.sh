#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The power goes while the last block of an encrypted file grows: on a real ext4 and XFS, whose disk has then the block and not the length, or
# the length and not the block, neither or both. What is read is the old block or the new one, and all that was synced.
# The file system is shut down as if its machine were (the ioctl that its own tests use), without writing its log.
# limit: 900 s
CRYPT=1 REPLICA=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need mkfs.ext4 losetup python3
scratch

brick_file() { find "$BRICK" -path "$BRICK/.stratus" -prune -o -type f -print; }

# Contents are the beginning of this, however long.
python3 -c 'import sys; sys.stdout.buffer.write(b"".join(b"%08d" % i for i in range(20000)))' >"$SCRATCH/text"

append() { # TO: up to there, in one write
	python3 - "$MNT/grows" "$SCRATCH/text" "$1" <<-'END'
	import os, sys
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	at, to = os.fstat(fd).st_size, int(sys.argv[3])
	assert os.pwrite(fd, open(sys.argv[2], "rb").read()[at:to], at) == to - at
	END
}
page_first() { # the kernel writes the file's pages, and not yet its inode
	python3 - "$(brick_file)" <<-'END'
	import ctypes, os, sys
	libc = ctypes.CDLL(None, use_errno=True)
	fd = os.open(sys.argv[1], os.O_RDONLY)
	assert not libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7), os.strerror(ctypes.get_errno())
	END
}
length_first() { # what syncs another file takes the file's inode along, and not its old page
	python3 - "$BRICK/.stratus/other" <<-'END'
	import os, sys
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	os.write(fd, b"x")
	os.fsync(fd)
	END
}
neither() { :; }
both() { page_first; length_first; }

cut_power() {
	kill_brick
	disk_dies
	disk_on "$1"
	start_brick
}
mended() { sed -n '/the length is mended/p' "$STACK/stratusd.log" | wc -l; } # the log has one line a second at most

# Of the first $1 bytes, which are synced, the file grows by writes to each of the other lengths.
one() { # OPTIONS WHAT-IS-FIRST SYNCED LENGTHS...
	local options=$1 first=$2 synced=$3 to size pid
	shift 3
	append "$synced"
	sync "$MNT/grows"
	for to; do append "$to"; done
	$first
	cut_power "$options"
	start_mount "$SCRATCH/other"
	pid=$LAST_PID
	timeout 60 cat "$SCRATCH/other/grows" >"$SCRATCH/read" || fail "after a power cut the file can't be read ($first, $synced, $*)"
	size=$(stat -c %s "$SCRATCH/read")
	[ "$size" -ge "$synced" ] || fail "of $synced bytes that were synced $size are left ($first, $*)"
	[ "$size" = "$(stat -c %s "$SCRATCH/other/grows")" ] || fail "$size bytes are read of a file that says another length ($first, $synced, $*)"
	cmp -n "$size" "$SCRATCH/read" "$SCRATCH/text" || fail "what is read was never written ($first, $synced, $*)"
	rm "$SCRATCH/other/grows"
	stop_mount "$SCRATCH/other" "$pid"
}

on() { # FILE-SYSTEM MKFS MOUNT-OPTIONS
	local first try before
	mkdir "$SCRATCH/$1"
	rm -f "$SCRATCH/disk"
	truncate -s 400M "$SCRATCH/disk"
	$2 "$SCRATCH/disk" >/dev/null
	mkdir "$SCRATCH/$1/brick"
	BRICK=$SCRATCH/$1/brick
	disk_on "$3"
	start_stack "$SCRATCH/$1"
	for first in neither page_first length_first both; do one "$3" "$first" 1000 2000 50000 50100; done
	for first in page_first length_first; do
		one "$3" "$first" 1000 2000 3000
		one "$3" "$first" 1 4064
	done
	# The kernel may write by itself: so until there was something to mend.
	before=$(mended)
	for ((try = 0; try < 10 && before == 0; try++)); do
		one "$3" page_first 1000 2000
		before=$(mended)
	done
	[ "$before" -gt 0 ] || fail "on $1 nothing was ever there to be mended"
	say "$1: files were mended, of which the log tells $before"
	stop_stack
	disk_off
}
on ext4 "mkfs.ext4 -q -b 4096" ,commit=300
if command -v mkfs.xfs >/dev/null && { grep -qw xfs /proc/filesystems || modprobe xfs 2>/dev/null; }; then
	on xfs "mkfs.xfs -q -f" ""
else
	say "no XFS here"
fi
pass
