#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Plays the provider of an encrypted volume: seeded edits of what lies on the brick (bits, blocks, files, ends, headers; names), each read through a mount
# that has not seen the file before: the truth, or EIO and a line that names file and reason. ROUNDS of 20 edits; LONG=1: 10,000 edits.
# limit: 900 s, 7200 s with LONG=1
CRYPT=1
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
ROUNDS=${ROUNDS:-$([ "$LONG" = 1 ] && echo 500 || echo 10)}
names() { python3 "$TOP/tests/hostile/names.py" "$@" || fail "SEED=$SEED: names.py $1"; }
provider() { python3 "$TOP/tests/hostile/provider.py" "$@" || fail "SEED=$SEED: provider.py $1"; }

start_stack "$SCRATCH"
mkdir "$SCRATCH/files"
provider make "$MNT" "$BRICK" "$SCRATCH/files" "$SEED"
names make "$MNT" "$BRICK" "$SCRATCH/files"
for ((round = 1; round <= ROUNDS; round++)); do
	stop_mount "$MNT" "$MOUNT_PID"
	provider edit "$SCRATCH/files" "$SEED-$round"
	names edit "$SCRATCH/files" "$SEED-$round"
	: >"$SCRATCH/mount-mnt.log"
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
	provider check "$MNT" "$SCRATCH/files" "$SEED-$round" "$SCRATCH/mount-mnt.log" >>"$SCRATCH/edits"
	names check "$MNT" "$SCRATCH/files" "$SCRATCH/mount-mnt.log" >"$SCRATCH/names"
	provider restore "$SCRATCH/files"
	names restore "$SCRATCH/files"
done
stop_mount "$MNT" "$MOUNT_PID"
start_mount "$MNT"
provider whole "$MNT" "$SCRATCH/files"
say "$(cat "$SCRATCH/names") (the last round)"
stop_mount "$MNT" "$LAST_PID"
stop_brick
# Most edits hit something: else this would show nothing.
sort "$SCRATCH/edits" | uniq -c | awk '{printf "%s%s %s: %s", (NR == 1 ? "" : ", "), $2, ($3 ? "refused" : "true"), $1} END {print ""}'
refused=$(grep -c ' 1$' "$SCRATCH/edits")
edits=$(wc -l <"$SCRATCH/edits")
say "$edits edits, $refused refused (SEED=$SEED)"
[ $((refused * 2)) -gt "$edits" ] || fail "most edits are not noticed"
for kind in flip swap_blocks block_of_another seal_of_another contents_of_another header_of_another cut_within_a_block zeroed_block noise other_parameters changed_header; do
	[ "$edits" -lt 200 ] || grep -qx "$kind 1" "$SCRATCH/edits" || fail "no $kind was refused"
done
pass
