#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The counts of descriptors, inodes, open files, tasks and requests, and the memory, are flat over a million operations.
#
# A sample of 50,000 without LONG=1.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/counts.sh"
need_root
need_stack
need python3
OPERATIONS=$([ "$LONG" = 1 ] && echo 1000000 || echo 50000)
GROWTH_KIB=4096 # what an allocator keeps here and there

scratch
start_stack "$SCRATCH"
say "seed $SEED, $OPERATIONS operations"
# The first part fills pools and caches to the level that the load needs.
run() { # NAME OPERATIONS
	local n pids=()
	for n in 1 2 3 4; do
		python3 "$(dirname "$0")/load.py" "$MNT/load$n" $(($2 / 4)) $((SEED + n)) >"$SCRATCH/load$n.out" 2>&1 &
		pids+=($!)
	done
	for n in 1 2 3 4; do
		wait "${pids[n - 1]}" || fail "$1: $(tail -n 3 "$SCRATCH/load$n.out")"
	done
	counts "$SCRATCH/$1" mount "$MOUNT_PID" brick "$BRICK_PID"
}
run first $((OPERATIONS / 4))
run second $((OPERATIONS / 2))
run third $((OPERATIONS / 4))
# What is given back late (inodes that the kernel forgets, threads that were needed at once) is no growth.
is_flat() {
	counts "$SCRATCH/third" mount "$MOUNT_PID" brick "$BRICK_PID"
	compare_counts "$SCRATCH/first" "$SCRATCH/third" $GROWTH_KIB >"$SCRATCH/compared"
}
wait_until 20 is_flat || fail "something grows: $(cat "$SCRATCH/compared")"
cat "$SCRATCH/compared"
stop_stack
pass
