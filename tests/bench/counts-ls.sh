#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `ls -ln` of a directory of 1,000 files costs, when the kernel has forgotten it and again: messages to the bricks, which are some for each piece of the listing and none for a
# file; and requests of the kernel, which are one for each file's ACL, or some for all with `acl off`, by 4 bricks, a set of three, and two sets.
#
# Arguments: runs of SETSxREPLICA instead of all.
# limit: 900 s
# calm: what the kernel believes runs out after 0.6 s
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
need_root
need_stack
need python3
FILES=1000

# requests of the kernel beside those for ACLs: of 8 pieces of the listing, opening and releasing it, the names on the way and their attributes
REQUESTS=30
# messages: what the kernel has forgotten must be asked for again, with its tokens; what it has not is listed once
COLD=45 WARM=20

requests() { facts "$MNT" | sed -n 's/^  requests: \([0-9]*\)$/\1/p'; }
messages() { facts "$MNT" | sed -n 's/.*: up, requests \([0-9]*\), .*/\1/p' | awk '{n += $1} END {print n + 0}'; }
# A machine that is busy forgets in between what it believed, so the least of some counts.
costs_at_most() { # cold|warm REQUESTS MESSAGES
	local asked sent
	[ "$1" = warm ] || echo 2 >/proc/sys/vm/drop_caches
	asked=$(requests) sent=$(messages)
	ls -ln "$MNT/list" >/dev/null || return 1
	sent=$(($(messages) - sent)) asked=$(($(requests) - asked))
	LEAST_ASKED=$((asked < LEAST_ASKED ? asked : LEAST_ASKED)) LEAST_SENT=$((sent < LEAST_SENT ? sent : LEAST_SENT))
	[ "$asked" -le "$2" ] && [ "$sent" -le "$3" ]
}
await() { # cold|warm REQUESTS MESSAGES WHAT
	LEAST_ASKED=1000000 LEAST_SENT=1000000
	wait_until 120 costs_at_most "$1" "$2" "$3" || fail "$4, $1: $LEAST_ASKED requests and $LEAST_SENT messages at least, not $2 and $3 or less"
	say "$4, $1: $LEAST_ASKED requests, $LEAST_SENT messages"
}
listed() { # SETS REPLICA
	local fuse
	SPREAD=$1 REPLICA=$2
	. "$TOP/tests/mount/spread.sh"
	scratch
	BEGAN_WITH=$1 start_spread "$SCRATCH"
	chmod 755 "$MNT"
	mkdir "$MNT/list"
	python3 -c 'import os, sys
for i in range(int(sys.argv[2])): os.close(os.open(f"{sys.argv[1]}/f{i:04}", os.O_CREAT))' "$MNT/list" "$FILES"
	await cold $((FILES + REQUESTS)) $COLD "with ACLs"
	await warm $((FILES + REQUESTS)) $WARM "with ACLs"
	fuse=$(awk '$1 == "volume" {name = $2} $1 == "type" && $2 == "mount/fuse" {print name}' "$CLIENT_VOL")
	"$STRATUS" set "$MNT" "$fuse" acl off
	await cold $REQUESTS $COLD "without"
	await warm $REQUESTS $WARM "without"
	umount "$MNT" && await_end "$MOUNT_PID" "the mount" "after umount"
	stop_spread
	pass
}

LIMIT=300
case ${1-} in
in)
	listed "${@:2}"
	;;
esac
for shape in ${@:-4x1 1x3 2x3}; do
	run_one "$shape" "$0" in $(tr x ' ' <<<"$shape")
done
runs_end
