#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's limits hold over two replica sets of three servers: eight mounts that race into them, though the server of a set's first member, and the one that leads the cluster, are killed
# meanwhile, never store more, and who is refused has all but little; the members of each set stay equal, and all are charged what is there; what one set has free the other one gets; df tells of
# all; a limit that is lowered, lifted and set again; and sets that come and go while there is a limit.
# limit: 1500 s, 3600 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need bc
scratch
cd "$SCRATCH"
STACK=$SCRATCH
. "$TOP/tests/mount/tenants-cluster.sh"
LIMIT=$((160 << 20)) INODES=4001
MOUNT_NAMES="a0 a1 a2 a3 a4 a5 a6 a7"

start_for acme
apply_on_sets
lead tenant create photos acme --quota $LIMIT --inodes $INODES >/dev/null 2>err || fail "tenant create: $(cat err)"
wait_until 30 known || fail "not all bricks hear of the tenant"
for name in $MOUNT_NAMES; do start_mount "$SCRATCH/$name" "$SERVERS:/photos" --tls-dir "$SCRATCH/acme"; done
A=$SCRATCH/a0

# ---- what is counted ----
count_at() { python3 "$TOP/tests/fault/usage.py" count "$1" --set acme:65536:65536 | json "d['acme']['$2']"; }
# At the fullest member of each set, so that nothing is missed of what only some of them have.
count() {
	local set name
	for set in $SETS; do for name in $SERVER_NAMES; do count_at "s$set-$name" "$1"; done | sort -n | tail -n 1; done | paste -sd+ | bc
}
# Each set has a part, of which it shows whole blocks: of some of each of them a block may be missing.
size_is() { local is; is=$(size size) && [ "$is" -le "$1" ] && [ "$is" -gt $(($1 - 4096 * $(wc -w <<<"$SETS"))) ]; }
inodes_are() { [ "$(size itotal)" = "$1" ]; }
wait_until 30 size_is $LIMIT || fail "df does not show the limit: $(df -B1 "$A")"
wait_until 30 inodes_are $INODES || fail "df shows $(size itotal) inodes"
epochs() { local name; for name in $SERVER_NAMES; do on "$name" heal status photos --json 2>/dev/null | json '[s["epoch"] for s in d]' 2>/dev/null && return; done; }

# ---- eight mounts race into the limit ----
race() {
	local pids=() pid name
	for name in $MOUNT_NAMES; do
		racer "$SCRATCH/$name/race-$name" "$@" 2>"racer-$name" &
		pids+=($!)
	done
	"${MEANWHILE:-:}"
	for pid in "${pids[@]}"; do wait "$pid" || fail "a writer met something else than EDQUOT: $(cat racer-*)"; done
}
within() { # WHAT: never above; and who is refused, and tries again (a server may be slow), has all but what is kept free
	local stored tries
	for tries in 1 2 3 4 5; do
		stored=$(count bytes)
		[ "$stored" -le $LIMIT ] || fail "$1: $stored are stored, of $LIMIT"
		[ "$stored" -lt $((LIMIT - (4 << 20))) ] || { say "$1: $stored of $LIMIT, tried $tries times"; return; }
		race
	done
	fail "$1: refused with $stored of $LIMIT"
}
RACES=1
[ "${LONG:-}" = 1 ] && RACES=20
wait_until 60 whole || fail "the sets are not whole: $(status_of_heal)"
for ((n = 0; n < RACES; n++)); do
	before=$(epochs)
	race
	within "race $n"
	! dd if=/dev/zero of="$A/last" bs=1M count=64 2>/dev/null || fail "race $n: the limit was not reached"
	rm -f "$A/last"
	[ "$(epochs)" = "$before" ] || say "race $n: other views, $before, now $(epochs)"
	alike "race $n"
	little_is_free() { [ "$(size avail)" -lt $((4 << 20)) ]; }
	wait_until 60 little_is_free || fail "race $n: df tells of $(size avail) that are free"
	rm "$A"/race-* || fail "race $n: with a full account nothing can be removed"
done

# ---- what one set has, the other one gets ----
big=$(((LIMIT >> 20) - 4))
for i in 1 2 3 4; do # each in one set
	dd if=/dev/zero of="$A/whole$i" bs=1M count=$big 2>err || fail "a file of $big MiB, with nothing else there: $(cat err)"
	rm "$A/whole$i"
done

# ---- one is killed in the middle: the first member of both sets, then the server that leads the cluster; and one that stays away until all are refused ----
kill_one() {
	half() { [ "$(count bytes)" -gt $((LIMIT / 4)) ]; }
	wait_until 90 half || fail "nothing is written: $(cat racer-*)"
	kill_hard "${PID[$VICTIM]}" "stratusd $VICTIM"
	[ -n "$stays" ] || start_server "$VICTIM"
}
for n in 0 1 2; do
	wait_until 60 find_leader || fail "nobody leads"
	VICTIM=$(case $n in 0) echo alpha ;; 1) echo $LEADER ;; 2) echo beta ;; esac) stays=$([ $n != 2 ] || echo "until the race is over")
	MEANWHILE=kill_one race "and goes on"
	[ -z "$stays" ] || start_server "$VICTIM"
	alike "after kill -9 of $VICTIM" # before, a member may have what the others never did
	stored=$(count bytes)
	[ "$stored" -le $LIMIT ] || fail "after kill -9 of $VICTIM $stored are stored, of $LIMIT"
	race # all are up: what was missing is had
	within "after kill -9 of $VICTIM"
	alike "after a race that followed the kill -9 of $VICTIM"
	rm "$A"/race-* || fail "after kill -9 of $VICTIM nothing can be removed"
done
wait_until 60 find_leader || fail "nobody leads"

# ---- inodes ----
makes() { # DIRECTORY: empty files until EDQUOT
	timeout 600 python3 - "$1" <<-'END'
	import errno, os, sys
	for number in range(100000):
	    try:
	        os.close(os.open(f"{sys.argv[1]}.{number}", os.O_WRONLY | os.O_CREAT, 0o644))
	    except OSError as e:
	        sys.exit(0 if e.errno == errno.EDQUOT else f"{e}, {number}")
	END
}
lead tenant resize photos acme --inodes 801 >/dev/null || fail "tenant resize"
wait_until 30 inodes_are 801 || fail "df shows $(size itotal) inodes"
pids=()
for name in $MOUNT_NAMES; do makes "$SCRATCH/$name/race-$name" 2>"racer-$name" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || fail "who makes files met something else than EDQUOT: $(cat racer-*)"; done
is=$(count inodes)
say "inodes: $is of 801"
[ "$is" -le 801 ] && [ "$is" -ge $((801 - 64)) ] || fail "$is inodes, of 801"
alike "after a race for inodes"
rm "$A"/race-* || fail "with a full account nothing can be removed"
lead tenant resize photos acme --inodes $INODES >/dev/null || fail "tenant resize"

# ---- a limit that is lowered, lifted, and set again ----
dd if=/dev/zero of="$A/some" bs=1M count=20 2>/dev/null || fail "20 MiB"
lead tenant resize photos acme --quota 32M >/dev/null || fail "tenant resize"
wait_until 30 size_is $((32 << 20)) || fail "df does not show another limit: $(df -B1 "$A")"
more() { dd if=/dev/zero of="$A/more" bs=1M count="$1" 2>/dev/null; }
wait_until 30 more 8 || fail "8 MiB, of 12 that are free"
! more 16 || fail "more than a limit that was lowered"
rm "$A/more"
lead tenant resize photos acme --quota 0 >/dev/null || fail "tenant resize"
wait_until 30 more 120 || fail "without a limit"
lead tenant resize photos acme --quota 96M >/dev/null || fail "tenant resize"
refused() { ! dd if=/dev/zero of="$A/beyond" bs=1M count=1 2>/dev/null; }
wait_until 30 refused || fail "more than a limit that was set again"
rm -f "$A/more" "$A/beyond" # there was more than that
wait_until 30 size_is $((96 << 20)) || fail "df does not show the limit again: $(df -B1 "$A")"
lead tenant resize photos acme --quota $LIMIT >/dev/null || fail "tenant resize"
wait_until 30 size_is $LIMIT || fail "df does not show the limit again: $(df -B1 "$A")"
rm "$A"/*

# ---- a set comes, and goes, while there is a limit; and another one comes in its place ----
balanced() { on $LEADER rebalance status photos --json | json 'd["state"]' | grep -q done; }
third_set() { # as `stratus brick add`, with ports: here all servers are one machine
	python3 -c '
import sys, uuid
lines = sys.stdin.read().splitlines()
at = max(i for i, line in enumerate(lines) if line.startswith("    port: ")) + 1
for name, port in zip(sys.argv[2::2], sys.argv[3::2]):
    lines[at:at] = [f"  - server: {name}", f"    directory: {sys.argv[1]}-{name}", f"    id: {uuid.uuid4()}", f"    port: {port}"]
    at += 4
print("\n".join(lines))' "$SCRATCH/s2" alpha "$(free_port)" beta "$(free_port)" gamma "$(free_port)"
}
for turn in 1 $([ "${LONG:-}" != 1 ] || echo 2); do
	on $LEADER volume info photos | sed 1d | third_set >photos.yaml
	lead apply photos.yaml >out 2>&1 || fail "a third set: $(cat out)"
	SETS="0 1 2"
	lead rebalance start photos >out 2>&1 || fail "rebalance start: $(cat out)"
	wait_until 120 balanced || fail "not balanced: $(on $LEADER rebalance status photos --json)"
	wait_until 60 whole || fail "the sets are not whole: $(status_of_heal)"
	wait_until 30 size_is $LIMIT || fail "df does not show the limit with three sets: $(df -B1 "$A")"
	race
	within "with a third set, $turn"
	[ "$(count_at s2-alpha bytes)" -gt 1000000 ] || fail "the third set has nothing"
	alike "with a third set"
	rm "$A"/race-*
	dd if=/dev/zero of="$A/kept" bs=1M count=20 2>/dev/null || fail "20 MiB"
	# shellcheck disable=SC2046
	lead brick remove photos $(for name in $SERVER_NAMES; do echo "$name:$SCRATCH/s2-$name"; done) >out 2>&1 || fail "brick remove: $(cat out)"
	left() { ! on $LEADER volume info photos 2>/dev/null | grep -q s2-alpha; }
	wait_until 180 left || fail "the third set does not leave: $(on $LEADER volume info photos; on $LEADER rebalance status photos --json)"
	SETS="0 1"
	emptied() { rm -rf "$SCRATCH"/s2-* && [ -z "$(compgen -G "$SCRATCH/s2-*")" ]; } # a server may just be writing down that it has ended
	wait_until 30 emptied || fail "the bricks of the third set are still used"
	wait_until 30 size_is $LIMIT || fail "df does not show the limit with two sets again: $(df -B1 "$A")"
	race
	within "with two sets again, $turn"
	alike "with two sets again"
	rm "$A"/race-* "$A/kept"
done
pass
