#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A thousand graph switches under load: no operation fails, no open file or lock is lost, nothing leaks.
#
# A sample of 50 without LONG=1.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/counts.sh"
need_root
need_stack
need python3
SWITCHES=$([ "$LONG" = 1 ] && echo 1000 || echo 50)
GROWTH_KIB=6144

scratch
start_stack "$SCRATCH"
say "seed $SEED, $SWITCHES switches"
variant=0
switch() {
	local extra=()
	variant=$(((variant + 1) % 4))
	case $variant in
	1) extra=(+debug/null) ;;
	2) extra=(+debug/io-stats) ;;
	3) extra=(+debug/null +debug/io-stats +debug/null) ;;
	esac
	write_client_volfile "$CLIENT_VOL" "$PORT" "$VOLUME_ID" "$BRICK_ID" "${extra[@]}"
	timeout 300 "$STRATUS" reload "$MNT" >"$SCRATCH/reload.out" 2>&1 || fail "reload: $(cat "$SCRATCH/reload.out")"
}
start_load() {
	rm -f "$SCRATCH/stop"
	LOADS=()
	for n in 1 2 3; do
		python3 "$(dirname "$0")/load.py" "$MNT/load$n" 0 $((SEED + n)) "$SCRATCH/stop" >"$SCRATCH/load$n.out" 2>&1 9>&- &
		LOADS+=($!)
		note $! "load $n"
	done
}
stop_load() {
	touch "$SCRATCH/stop"
	for n in 1 2 3; do
		wait_until 60 gone "${LOADS[n - 1]}" || fail "load $n hangs: $("$STRATUS" dump "$MNT" | grep '^request' | head -n 5)"
		wait "${LOADS[n - 1]}" || fail "load $n: $(tail -n 3 "$SCRATCH/load$n.out")"
		unset "PIDS[${LOADS[n - 1]}]"
	done
	say "operations: $(cat "$SCRATCH"/load?.out | tr '\n' ' ')"
}
# Also under load: a program that waits for a lock over many switches, and a held lock.
touch "$MNT/lock"
exec 9<>"$MNT/lock"
flock 9
flock "$MNT/lock" true 9>&- &
WAITER=$!
note "$WAITER" waiter

for i in $(seq 12); do switch; done
start_load
for i in $(seq 8); do switch; done
stop_load
variant=3
switch
counts "$SCRATCH/first" mount "$MOUNT_PID" brick "$BRICK_PID"
start_load
begin=$(now_ms)
for i in $(seq "$SWITCHES"); do switch; done
say "$(( ($(now_ms) - begin) / SWITCHES )) ms each"
stop_load
variant=3
switch
is_flat() {
	counts "$SCRATCH/last" mount "$MOUNT_PID" brick "$BRICK_PID"
	compare_counts "$SCRATCH/first" "$SCRATCH/last" $GROWTH_KIB >"$SCRATCH/compared"
}
wait_until 20 is_flat || fail "something grows: $(cat "$SCRATCH/compared")" # threads of a burst end after a while
cat "$SCRATCH/compared"
gone "$WAITER" && fail "a waiting lock was given while another held it"
exec 9>&-
wait_until 30 gone "$WAITER" || fail "the waiter did not get the lock after $SWITCHES switches"
wait "$WAITER" || fail "the waiter for the lock got an error"
unset "PIDS[$WAITER]"
stop_stack
pass
