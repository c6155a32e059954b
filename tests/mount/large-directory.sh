#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A directory of very many names is made, listed and removed in memory that is bounded: a brick's does not grow with the directory, a
# mount's only with what the kernel remembers, by less than 1 KiB for each name (and the kernel gives that back when memory is short).
#
# LONG=1: 1,000,000 names; else 20,000. SPREAD=4: in the root, whose names are spread over the bricks.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
COUNT=$([ "$LONG" = 1 ] && echo 1000000 || echo 20000)
BRICK_KIB=65536 MOUNT_KIB=32768 BYTES_EACH=1024
LIMIT=$([ "$LONG" = 1 ] && echo 7200 || echo 300)

peak_kib() { awk '/^VmHWM/ {print $2}' "/proc/$1/status"; }
bricks() { local pid; for pid in "${!PIDS[@]}"; do [[ ${PIDS[$pid]} != stratusd* ]] || echo "$pid"; done; }

step() { # make|list|remove
	timeout "$LIMIT" python3 "$TOP/tests/mount/large-directory.py" "$1" "$DIRECTORY" "$COUNT" || fail "$1 of $COUNT names in $DIRECTORY"
	look "$1"
}
look() { # STEP
	local pid peak most=0 mount
	mount=$(peak_kib "$MOUNT_PID")
	for pid in $(bricks); do
		peak=$(peak_kib "$pid")
		[ "$most" -ge "$peak" ] || most=$peak
	done
	say "$1: at most $mount KiB in the mount, $most KiB in a brick"
	[ "$most" -gt 0 ] && [ "$most" -le "$BRICK_KIB" ] || fail "a brick needs $most KiB, more than $BRICK_KIB, to $1 $COUNT names"
	[ "$mount" -le $((MOUNT_KIB + COUNT * BYTES_EACH / 1024)) ] || fail "the mount needs $mount KiB to $1 $COUNT names"
}
forget() { sync; echo 2 >/proc/sys/vm/drop_caches; }
is_small() { forget; [ "$(rss_kib "$MOUNT_PID")" -le "$MOUNT_KIB" ]; }

scratch
start_stack "$SCRATCH"
if [ "$SPREAD" = 1 ]; then mkdir "$MNT/large"; DIRECTORY=$MNT/large; else DIRECTORY=$MNT; fi
step make
step list
forget
step list
wait_until 30 is_small || fail "the mount keeps $(rss_kib "$MOUNT_PID") KiB of what the kernel has forgotten"
step remove
stop_stack
pass
