#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant's limits hold over two servers with two bricks each: whoever races into them, and though one of the servers is killed meanwhile, more is never stored, and who is refused has all but
# little; what one server has free another one gets; df tells of all; a limit that is lowered or lifted, a brick that comes at a third server; and nobody but a server may ask for allotments.
# limit: 900 s, 1500 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need bc
scratch
cd "$SCRATCH"
. "$TOP/tests/mount/tenants-cluster.sh"
LIMIT=$((96 << 20)) INODES=4001

start_for acme globex
"$STRATUS" cert issue --dir ca --admin root --out admin >/dev/null
apply_on_servers
lead tenant create photos acme --quota $LIMIT --inodes $INODES >/dev/null 2>err || fail "tenant create: $(cat err)"
lead tenant create photos globex >/dev/null || fail "tenant create"
mount_as() { # TENANT NAME
	mkdir -p "$SCRATCH/$2"
	MOUNTS+=("$SCRATCH/$2")
	"$STRATUS" mount --log "$SCRATCH/$2.log" --pid-file "$SCRATCH/$2.pid" --tls-dir "$SCRATCH/$1" "$SERVERS:/photos" "$SCRATCH/$2" 2>err || fail "$2 is not mounted: $(cat err)"
	note "$(cat "$SCRATCH/$2.pid")" "mount $2"
}
mount_as acme a
mount_as acme a2
mount_as globex g
A=$SCRATCH/a A2=$SCRATCH/a2

# ---- what is counted ----
count() { for i in 0 1 2 3 ${FIFTH:-}; do python3 "$TOP/tests/fault/usage.py" count "b$i" acme:65536:65536 | json "d['acme']['$1']"; done | paste -sd+ | bc; }
charged() { for name in alpha beta; do on $name usage --total --tenant acme --json | json 'd[0]["accounts"][0]["bytes"]'; done | paste -sd+ | bc; }
agrees() { for name in alpha beta; do on $name usage verify --wait 30 >verified.$name 2>&1 || return 1; done; }
# Each brick has a part, of which it shows whole blocks: of some of each of them a block may be missing.
size_is() { local is; is=$(size size) && [ "$is" -le "$1" ] && [ "$is" -gt $(($1 - 8 * 4096)) ]; }
wait_until 30 size_is $LIMIT || fail "df does not show the limit: $(df -B1 "$A")"
inodes_are() { [ "$(size itotal)" = "$1" ]; }
wait_until 30 inodes_are $INODES || fail "df shows $(size itotal) inodes"

# ---- eight race into the limit ----
race() {
	local pids=() pid i
	for i in 0 1 2 3 4 5 6 7; do
		racer "$([ $((i % 2)) = 0 ] && echo "$A" || echo "$A2")/race$i" "$@" 2>racer$i &
		pids+=($!)
	done
	"${MEANWHILE:-:}"
	for pid in "${pids[@]}"; do wait "$pid" || fail "a writer met something else than EDQUOT: $(cat racer?)"; done
}
within() { # WHAT: never above, never far below; and who tries again (a server may be slow) has all but what is kept free
	local stored tries
	for tries in 1 2 3 4 5; do
		stored=$(count bytes)
		[ "$stored" -le $LIMIT ] || fail "$1: $stored are stored, of $LIMIT"
		[ "$stored" -ge $((LIMIT - (64 << 20))) ] || fail "$1: refused with $stored of $LIMIT"
		[ "$stored" -lt $((LIMIT - (4 << 20))) ] || { say "$1: $stored of $LIMIT, tried $tries times"; return; }
		race
	done
	fail "$1: refused with $stored of $LIMIT"
}
RACES=2
[ "${LONG:-}" = 1 ] && RACES=20
for ((n = 0; n < RACES; n++)); do
	race
	within "race $n"
	! dd if=/dev/zero of="$A/last" bs=1M count=64 2>/dev/null || fail "race $n: the limit was not reached"
	rm -f "$A/last"
	agrees_with_counters() { [ "$(charged)" = "$(count bytes)" ]; }
	wait_until 30 agrees_with_counters || fail "race $n: $(charged) are charged, $(count bytes) are there"
	rm "$A2"/race* || fail "race $n: with a full account nothing can be removed"
done
agrees || fail "usage verify: $(cat verified.*)"

# ---- what one server has, the other one gets ----
big=$(( (LIMIT >> 20) - 4 ))
for i in 1 2 3 4; do # at one brick each, so that it must be had at one server
	dd if=/dev/zero of="$A/whole$i" bs=1M count=$big 2>err || fail "a file of $big MiB, with nothing else there: $(cat err)"
	rm "$A/whole$i"
done

# ---- one is killed in the middle: one that follows, then one that leads, or did ----
kill_one() {
	half() { [ "$(count bytes)" -gt $((LIMIT / 4)) ]; }
	wait_until 60 half || fail "nothing is written"
	kill_hard "${PID[$VICTIM]}" "stratusd $VICTIM"
	start_server "$VICTIM"
}
for VICTIM in beta alpha; do
	MEANWHILE=kill_one race "and goes on"
	stored=$(count bytes)
	[ "$stored" -le $LIMIT ] || fail "after kill -9 of $VICTIM $stored are stored, of $LIMIT"
	wait_until 60 agrees || fail "after kill -9 of $VICTIM: $(cat verified.*)"
	wait_until 60 find_leader || fail "nobody leads"
	race # all are up: what was missing is had
	within "after kill -9 of $VICTIM"
	rm "$A2"/race* || fail "after kill -9 of $VICTIM nothing can be removed"
	wait_until 60 agrees || fail "usage verify: $(cat verified.*)"
done

# ---- a limit that is lowered, lifted, and set again ----
dd if=/dev/zero of="$A/some" bs=1M count=20 2>/dev/null || fail "20 MiB"
lead tenant resize photos acme --quota 32M >/dev/null || fail "tenant resize"
wait_until 30 size_is $((32 << 20)) || fail "df does not show another limit: $(df -B1 "$A")"
more() { dd if=/dev/zero of="$A/more" bs=1M count="$1" 2>/dev/null; }
wait_until 30 more 8 || fail "8 MiB, of 12 that are free"
! more 16 || fail "more than a limit that was lowered"
rm "$A/more"
lead tenant resize photos acme --quota 0 >/dev/null || fail "tenant resize"
wait_until 30 more 80 || fail "without a limit"
lead tenant resize photos acme --quota 96M >/dev/null || fail "tenant resize"
refused() { ! dd if=/dev/zero of="$A/beyond" bs=1M count=1 2>/dev/null; }
wait_until 30 refused || fail "more than a limit that was set again"
rm -f "$A/more" "$A/beyond" # there was more than that
wait_until 30 size_is $LIMIT || fail "df does not show the limit again: $(df -B1 "$A")"
rm "$A"/*

# ---- a server that is no server ----
ask() { # WHO [BODY]
	rm -f answer
	curl -sS -o answer -w '%{http_code}' --cacert ca/ca.pem --cert "$1/cert.pem" --key "$1/key.pem" -d "${2:-{\}}" "https://127.0.0.1:${HTTP[$LEADER]}/v1/allotments" 2>curl.err || { cat curl.err >>curl.all; true; }
}
for who in acme globex admin; do
	[ "$(ask $who)" = 403 ] && grep -q 'between servers' answer || fail "$who may ask for allotments: $(cat answer)"
done
listen() { curl -sS --max-time 60 --cacert ca/ca.pem --cert "$1/cert.pem" --key "$1/key.pem" "https://127.0.0.1:${HTTP[$LEADER]}/v1/allotments?after=$2" 2>curl.err; }
listen acme 0 | grep -q 'between servers' || fail "a tenant may listen for allotments"
listen beta x | grep -q 'decimal number' || fail "nonsense is taken for a number"
NEWS=$(listen beta 0 | json 'd["news"]')
[ "$NEWS" -gt 0 ] || fail "a server hears of no news: $(cat curl.err)"
listen beta "$NEWS" >heard &
LISTENER=$!
at_limit() { ! dd if=/dev/zero of="$A/beyond" bs=1M count=200 2>/dev/null; }
at_limit || fail "200 MiB, of a limit of $LIMIT"
wait $LISTENER || fail "who listens is not answered: $(cat curl.err)"
[ "$(json 'd["news"]' <heard)" != "$NEWS" ] || fail "who listens does not hear that somebody is at his limit"
rm -f "$A/beyond"
[ "$(ask beta 'nonsense')" = 400 ] || fail "nonsense is taken for something: $(cat answer)"
head -c 300000 /dev/zero | tr '\0' x >endless
too_long() { [ "$(ask beta @endless)" = 413 ]; } # or the connection is closed before curl has read that
wait_until 30 too_long || fail "something endless is read: $(cat answer curl.err)"

# ---- a brick at a third server ----
lead brick add photos gamma:"$SCRATCH/b4" >out 2>&1 || fail "brick add: $(cat out)"
FIFTH=4
lead rebalance start photos >out 2>&1 || fail "rebalance start: $(cat out)"
balanced() { on $LEADER rebalance status photos --json | json 'd["state"]' | grep -q done; }
wait_until 120 balanced || fail "not balanced: $(on $LEADER rebalance status photos --json)"
race
within "with a third server"
[ "$(python3 "$TOP/tests/fault/usage.py" count b4 acme:65536:65536 | json "d['acme']['bytes']")" -gt 1000000 ] || fail "the third server has nothing"
rm "$A2"/race*
pass
