#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Garbage, oversized, truncated and replayed bytes on the server's port don't crash it, take bounded memory, and are logged
# at most once per connection.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
LIMIT_KIB=$((96 * 1024))
[ "$LONG" = 1 ] && CONNECTIONS=2000 || CONNECTIONS=150

no_strangers() { [ "$(fd_count "$BRICK_PID")" -lt 100 ]; }
scratch
start_stack "$SCRATCH"
echo text >"$MNT/text"
say "seed $SEED, $CONNECTIONS connections of each kind"

# A client of the same brick through a tap that keeps what it says: material to replay.
python3 "$(dirname "$0")/garbage.py" tap "$SCRATCH" "$PORT" >"$SCRATCH/tap.out" 2>&1 &
TAP=$!
note "$TAP" tap
wait_until 10 test -s "$SCRATCH/tap-port" || fail "the tap does not start"
write_client_volfile "$SCRATCH/tapped.vol" "$(cat "$SCRATCH/tap-port")" "$VOLUME_ID" "$BRICK_ID"
start_mount "$SCRATCH/tapped" "$SCRATCH/tapped.vol"
TAPPED=$LAST_PID
(cd "$SCRATCH/tapped" && mkdir d && seq 2000 >d/f && cp d/f d/g && mv d/g d/h && ls -l d && rm -r d) >/dev/null
stop_mount "$SCRATCH/tapped" "$TAPPED"

for kind in noise oversized truncated fragments idle replayed mutated; do
	lines=$(wc -l <"$SCRATCH/stratusd.log")
	made=$(timeout 300 python3 "$(dirname "$0")/garbage.py" "$kind" "$SCRATCH" "$PORT" "$SEED" "$CONNECTIONS" "$BRICK_PID") ||
		fail "$kind: the sender broke off"
	gone "$BRICK_PID" && fail "$kind: stratusd has ended"
	connections=${made%% *} peak=${made##* }
	[ "$peak" -lt $LIMIT_KIB ] || fail "$kind: resident memory rose to $peak KiB, the limit is $LIMIT_KIB"
	logged=$(($(wc -l <"$SCRATCH/stratusd.log") - lines))
	[ $logged -le $((connections + 5)) ] || fail "$kind: $logged lines in the log for $connections connections"
	[ "$(timeout 100 cat "$MNT/text")" = text ] || fail "$kind: the mount does not answer"
	say "$kind: $connections connections, $logged log lines, peak $peak KiB"
done
wait_until 30 no_strangers || fail "$(fd_count "$BRICK_PID") descriptors are open after all strangers have gone"
[ "$(find "$BRICK" -mindepth 1 -not -path '*/.stratus*' | wc -l)" -le 1 ] || fail "replayed requests made files: $(ls -A "$BRICK")"
stop_stack
pass
