#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Eight mounts of a tenant on a set of three race into its limit: none gets beyond it, each is refused, little is left, no replica differs because of a refusal,
# and none leaves the set for it; what is charged is what there is. So it is over two sets of one server. RACES (3; 20 with LONG=1) of them.
# limit: 900 s, 1200 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
cd "$SCRATCH"
D=$SCRATCH/data LIMIT=$((96 << 20)) RACES=${RACES:-$([ "$LONG" = 1 ] && echo 20 || echo 3)}
demo() { timeout 300 "$STRATUS" demo "$@" --dir "$D"; }
at_exit() {
	for i in 1 2 3 4 5 6 7; do umount "$SCRATCH/m$i" 2>/dev/null; done
	demo stop >/dev/null 2>&1
}
AT_EXIT=at_exit

demo --tenants acme,globex --replica 3 --mount "$SCRATCH/m" >out || fail "demo: $(cat out)"
SERVER=$("$STRATUS" status | sed -n 's/.*volfiles at \([0-9.:]*\),.*/\1/p')
"$STRATUS" tenant resize demo acme --quota $LIMIT >/dev/null || fail "a tenant of a set gets no limit"
ln -s m/acme m0
for i in 1 2 3 4 5 6 7; do
	mkdir "m$i"
	"$STRATUS" mount --log "mount$i.log" --tls-dir "$D/tenant-acme" "$SERVER:/demo" "$SCRATCH/m$i" || fail "mount $i: $(cat "mount$i.log")"
done
writer() { # MOUNT NAME: until it is refused
	timeout 600 python3 - "$1/$2" <<-'END_OF_WRITER'
	import errno, os, sys
	f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o644)
	try:
	    while True:
	        os.write(f, os.urandom(100000))
	except OSError as e:
	    sys.exit(0 if e.errno == errno.EDQUOT else f"{sys.argv[1]}: {e}")
	END_OF_WRITER
}
charged() { "$STRATUS" usage --json | python3 -c 'import json, sys; print(sum(a["bytes"] for b in json.load(sys.stdin) for a in b["accounts"] if a["account"] == "acme"))'; }
equal() { python3 "$TOP/tests/mount/same.py" "$D/brick0" "$D/brick$1" >differ 2>&1; }
alike() {
	local i
	for i in 1 2; do wait_until 30 equal "$i" || fail "$1: the bricks differ: $(cat differ)"; done
	[ "$("$STRATUS" status | grep -c 'brick[0-2] *in, 0 pending')" = 3 ] || fail "$1: a member has left: $("$STRATUS" status)"
	"$STRATUS" usage verify >out || fail "$1: $(cat out)"
}
for ((n = 0; n < RACES; n++)); do
	writers=()
	for i in 0 1 2 3 4 5 6 7; do writer "$SCRATCH/m$i" "f$i" 2>"said$i" & writers+=($!); done
	for i in 0 1 2 3 4 5 6 7; do wait "${writers[i]}" || fail "race $n, writer $i: $(cat "said$i")"; done
	is=$(charged)
	say "race $n: $is of $LIMIT"
	[ "$is" -le "$LIMIT" ] && [ "$is" -ge $((LIMIT - (2 << 20))) ] || fail "race $n: $is are charged, of $LIMIT"
	alike "race $n"
	rm "$SCRATCH"/m/acme/f?
done

# ---- two sets of two, all at one server, and without TLS between servers: each has an allotment ----
for i in 1 2 3 4 5 6 7; do umount "$SCRATCH/m$i"; done
demo stop --purge >/dev/null
demo --tenants acme,globex --bricks 4 --replica 2 --mount "$SCRATCH/m" >out || fail "demo: $(cat out)"
"$STRATUS" tenant resize demo acme --quota $LIMIT >/dev/null || fail "a tenant of two sets gets no limit"
shown() { [ "$(df -B1 --output=size "$SCRATCH/m/acme" | tail -n 1 | tr -d ' ')" = $LIMIT ]; }
wait_until 30 shown || fail "df does not show the limit: $(df -B1 "$SCRATCH/m/acme")"
writers=()
for i in 0 1 2 3; do writer "$SCRATCH/m/acme" "f$i" 2>"said$i" & writers+=($!); done
for i in 0 1 2 3; do wait "${writers[i]}" || fail "two sets, writer $i: $(cat "said$i")"; done
is=$("$STRATUS" usage --total --json --tenant acme | json 'd[0]["accounts"][0]["bytes"]')
say "two sets: $is of $LIMIT"
[ "$is" -le "$LIMIT" ] && [ "$is" -ge $((LIMIT - (4 << 20))) ] || fail "two sets: $is are charged, of $LIMIT"
"$STRATUS" usage verify >out || fail "two sets: $(cat out)"
pass
