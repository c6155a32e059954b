#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# features/usage: two clients work, the server is killed, again and again, and recounts run beside them: in the end each account is charged what an
# independent program finds on the brick.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
WORKER=$(dirname "$0")/usage.py
ACME=100000 GLOBEX=200000 MANY=65536
KILLS=$([ "$LONG" = 1 ] && echo 40 || echo 6)
start_stack "$SCRATCH"
stop_brick

# with_usage FILE: right above storage/posix
with_usage() {
	sed -i "s/^    subvolumes posix\$/    subvolumes usage/; /^volume locks/i volume usage\n    type features/usage\n    option ledger $BRICK/.stratus/usage\n    option accounts \"acme $ACME $MANY, globex $GLOBEX $MANY\"\n    subvolumes posix\nend-volume\n" "$1"
}
status() { "$STRATUS" ctl -- "$BRICK_PID" usage status --json; }
is_exact() { status | grep -q '"exact": true'; }
# equal: what is charged is what is there; while it is not, both are printed
equal() {
	status >"$SCRATCH/charged" && python3 "$WORKER" count "$BRICK" "acme:$ACME:$MANY" "globex:$GLOBEX:$MANY" >"$SCRATCH/there" &&
		python3 - "$SCRATCH/charged" "$SCRATCH/there" <<-'END'
			import json, sys
			charged, there = (json.load(open(f)) for f in sys.argv[1:])
			sums = {a["account"]: {"bytes": a["bytes"], "inodes": a["inodes"]} for a in charged["accounts"]}
			print("charged", sums, "there", there)
			sys.exit(sums != there)
		END
}
expect_equal() { # WHEN; what clients have let go of is closed a moment later
	wait_until 60 is_exact || fail "$1: no recount ends: $(status)"
	wait_until 20 equal || fail "seed $SEED: $1: $(equal)"
}

with_usage "$SERVER_VOL"
start_brick
wait_until 20 stat "$MNT/." || fail "the mount does not come back"
expect_equal "at the beginning"

start_mount "$SCRATCH/other"
OTHER=$LAST_PID
for n in 1 2; do
	dir=$([ $n = 1 ] && echo "$MNT" || echo "$SCRATCH/other")
	python3 "$WORKER" work "$dir/work" "$SCRATCH/stop" "$((SEED + n))" "$([ $n = 1 ] && echo "$((ACME + 3))" || echo "$GLOBEX")" >"$SCRATCH/work$n.out" 2>&1 &
	PIDS[$!]="work $n"
	WORK[n]=$!
done
for i in $(seq "$KILLS"); do
	sleep "0.$((RANDOM % 9 + 1))"
	[ $((i % 2)) = 0 ] || "$STRATUS" ctl "$BRICK_PID" usage recount >/dev/null || true
	kill_brick
	start_brick
done
touch "$SCRATCH/stop"
for n in 1 2; do
	wait_until 60 gone "${WORK[n]}" || fail "work $n hangs"
	wait "${WORK[n]}" || fail "work $n: $(cat "$SCRATCH/work$n.out")"
	unset "PIDS[${WORK[n]}]"
	say "client $n: $(cat "$SCRATCH/work$n.out")"
done
expect_equal "after $KILLS kills"

# A recount finds the same, and a ledger that is gone is made anew.
"$STRATUS" ctl "$BRICK_PID" usage recount >/dev/null
expect_equal "after a recount"
stop_brick
rm "$BRICK/.stratus/usage"
start_brick
expect_equal "with a new ledger"

# A damaged one is not believed.
stop_brick
printf 'SFSJUNK' | dd of="$BRICK/.stratus/usage" conv=notrunc status=none
"$STRATUSD" --foreground "$SERVER_VOL" >"$SCRATCH/refused" 2>&1 && fail "a damaged ledger is used"
grep -q "no ledger" "$SCRATCH/refused" || fail "no sentence about the damaged ledger: $(cat "$SCRATCH/refused")"
rm "$BRICK/.stratus/usage"
start_brick
expect_equal "with another new ledger"

stop_mount "$SCRATCH/other" "$OTHER"
stop_stack
pass
