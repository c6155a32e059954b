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

# verify STATUS [OPTION...]: what the command of users finds; its output is in $SCRATCH/verified
verify() {
	local expected=$1 status=0
	"$STRATUS" usage verify --stratusd "$BRICK_PID" "${@:2}" >"$SCRATCH/verified" 2>"$SCRATCH/verified.err" || status=$?
	[ "$status" = "$expected" ] || fail "usage verify ${*:2} ends with $status: $(cat "$SCRATCH/verified" "$SCRATCH/verified.err")"
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
	note $! "work $n"
	WORK[n]=$!
done
for i in $(seq "$KILLS"); do
	sleep "0.$((RANDOM % 9 + 1))"
	# Beside the work: what can't be compared is not called wrong, whatever is under way.
	"$STRATUS" usage verify --stratusd "$BRICK_PID" --wait 0 >"$SCRATCH/verified" 2>&1 || [ $? = 2 ] ||
		fail "usage verify beside the work: $(cat "$SCRATCH/verified")"
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
verify 0
grep -q "^$BRICK *acme .* agrees\$" "$SCRATCH/verified" || fail "usage verify does not tell of acme: $(cat "$SCRATCH/verified")"
verify 0 --json --tenant globex
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert [[(a["account"], a["result"]) for a in b["accounts"]] for b in d] == [[("globex", "agrees")]], d' "$SCRATCH/verified" ||
	fail "usage verify --tenant: $(cat "$SCRATCH/verified")"
verify 2 --wait forever
verify 2 --tenant nobody

# A file without a name that is open is charged, and is nowhere to be found: that is no difference.
exec 8>"$MNT/nameless"
head -c 100000 /dev/zero >&8
chown "$ACME" "$MNT/nameless"
rm "$MNT/nameless"
verify 0
exec 8>&-

# wrong NAME BASE: its counter is by 4096 bytes, and one inode, too high
wrong() {
	python3 - "$BRICK/.stratus/usage" "$1" <<-'END'
		import mmap, struct, sys
		base = struct.pack("<Q", int(sys.argv[2]))
		with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
		    at, rows = m.find(base), 0
		    while at >= 0:
		        if at % 8 == 0:
		            size, inodes = struct.unpack_from("<qq", m, at + 8)
		            struct.pack_into("<qq", m, at + 8, size + 4096, inodes + 1)
		            rows += 1
		        at = m.find(base, at + 8)
		    sys.exit(rows != 2)
	END
}
wait_until 20 equal || fail "after the nameless file: $(equal)"
stop_brick
wrong "$ACME" || fail "the ledger has no row of acme"
start_brick
verify 1
grep -q "^$BRICK *acme .* differs: found " "$SCRATCH/verified" && grep -q "^$BRICK *globex .* agrees\$" "$SCRATCH/verified" ||
	fail "a wrong counter is not told of as such: $(cat "$SCRATCH/verified")"
verify 0 --tenant globex
"$STRATUS" ctl "$BRICK_PID" usage recount >/dev/null
wait_until 60 is_exact || fail "no recount ends: $(status)"
verify 0

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
