#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A member's power goes while names change in many directories: on a real ext4 and XFS each directory whose change is on the disk then is on the member's list (R12).
# The file system is shut down as if its machine were (the ioctl that its own tests use), without writing its log.
# limit: 900 s
REPLICA=2 COORDINATOR_OPTIONS="option sync-interval 1h"
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need mkfs.ext4 losetup python3
scratch

DIRECTORIES=150
# What syncs another file writes the log, with all that was changed before.
write_log() {
	python3 - "$BRICK/.stratus/other" <<-'END'
	import os, sys
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
	os.write(fd, b"x")
	os.fsync(fd)
	END
}
cut_power() { # MOUNT-OPTIONS
	kill_member 0
	disk_dies
	disk_on "$1"
}
# How many of the directories have changed, and how many of these have no name beside the list, and no record in it.
look() {
	python3 - "$BRICK" <<-'END'
	import glob, os, sys, uuid
	brick = sys.argv[1]
	state = brick + "/.stratus/replica/"
	changed = [d for d in glob.glob(brick + "/d*") if os.path.exists(d + "/f")]
	gfid = [os.getxattr(d, "trusted.sfs")[2:18] for d in changed]
	names = {os.path.basename(n) for n in glob.glob(state + "names.*/*") if os.path.islink(n)}
	listed = b"".join(open(f, "rb").read() for f in glob.glob(state + "index.*"))
	print(len(changed), sum(str(uuid.UUID(bytes=g)) not in names for g in gfid), sum(g not in listed for g in gfid))
	END
}
epoch_now() { "$STRATUS" dump "$COORDINATOR_PID" | sed -n "s/^  epoch: \([0-9]*\).*/\1/p"; }
# A member that was started anew looks as before until the coordinator hears of it: there is a new view for it.
came_back() { [ "$(epoch_now)" -gt "$1" ] && all_in; }

on() { # FILE-SYSTEM MKFS MOUNT-OPTIONS
	local changed unnamed unlisted i epoch
	mkdir "$SCRATCH/$1"
	rm -f "$SCRATCH/disk"
	truncate -s 400M "$SCRATCH/disk"
	$2 "$SCRATCH/disk" >/dev/null
	mkdir "$SCRATCH/$1/brick"
	BRICK=$SCRATCH/$1/brick
	disk_on "$3"
	start_stack "$SCRATCH/$1"
	for ((i = 0; i < DIRECTORIES; i++)); do mkdir "$MNT/d$i"; done
	sync -f "$BRICK"
	for ((i = 0; i < DIRECTORIES / 2; i++)); do : >"$MNT/d$i/f"; done
	wait_until 60 all_in || fail "a member that was slow does not come back" # it has all of these, then
	write_log
	for (( ; i < DIRECTORIES; i++)); do : >"$MNT/d$i/f"; done
	cut_power "$3"
	read -r changed unnamed unlisted < <(look)
	[ "$changed" -ge $((DIRECTORIES / 2)) ] || fail "on $1 only $changed directories have changed after a power cut, so this proves nothing"
	[ "$unnamed" = 0 ] || fail "on $1 $unnamed of $changed directories have changed and are not on the list"
	say "$1: of $DIRECTORIES directories $changed have changed, all are listed by name, $unlisted of them not in the file"
	epoch=$(epoch_now)
	start_member 0
	wait_until 60 came_back "$epoch" || fail "the member does not come back after a power cut"
	stop_stack
	disk_off
}
on ext4 "mkfs.ext4 -q" ,commit=300
if command -v mkfs.xfs >/dev/null && { grep -qw xfs /proc/filesystems || modprobe xfs 2>/dev/null; }; then
	on xfs "mkfs.xfs -q -f" ""
else
	say "no XFS here"
fi
pass
