#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants of one brick, over TLS: one that floods it is held to its limits, and the other one's work goes on; limits and shares change while they
# work, and who is held back gets no error.
# alone: it tells shares from each other
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3

scratch
T=$SCRATCH/tenants TM=$SCRATCH/of A=$SCRATCH/of/acme G=$SCRATCH/of/globex
FLOOD=()
demo() { timeout 300 "$STRATUS" demo "$@" --dir "$T"; }
end_demo() {
	[ ${#FLOOD[@]} = 0 ] || kill "${FLOOD[@]}" 2>/dev/null
	demo stop >/dev/null 2>&1
}
AT_EXIT=end_demo
demo --tenants acme,globex --mount "$TM" >/dev/null || fail "no demo with tenants"
SERVER=$(demo status --json | json 'd["server-pid"]')
tenant() { "$STRATUS" tenant "$@" --stratusd "$SERVER"; }
told() { "$STRATUS" ctl -- "$SERVER" features/throttle status --json | json "[t for t in d['tenants'] if t['tenant'] == '$1'][0]['$2']"; }
is_told() { [ "$(told "$1" "$2")" "$3" "$4" ]; }
# Creates, writes and removes, until it is ended; tells of each error.
flood() { # DIRECTORY NUMBER
	python3 - "$1" "$2" <<-'END' &
	import os, sys
	while True:
	    name = f"{sys.argv[1]}/flood{sys.argv[2]}"
	    try:
	        with open(name, "wb") as f:
	            f.write(b"x" * 5000)
	        os.stat(name)
	        os.unlink(name)
	    except OSError as e:
	        print(e, flush=True)
	END
	FLOOD+=($!)
}
end_flood() {
	kill "${FLOOD[@]}"
	wait "${FLOOD[@]}" 2>/dev/null || true
	FLOOD=()
}
work() { # of the other one
	local i
	for i in {1..30}; do
		echo "$i" >"$G/work$i"
		[ "$(cat "$G/work$i")" = "$i" ] && rm "$G/work$i" || return 1
	done
}

# ---- a limit of operations: a flood is held back, the other is not ----
tenant resize demo acme --ops 20 --weight 3 | grep -q "20 operations in a second" || fail "the limit is not told"
tenant list demo | grep -q '^acme .*ops 20  weight 3$' || fail "listed: $(tenant list demo)"
[ "$(tenant info demo acme --json | json '(d["ops"], d["bandwidth"], d["weight"])')" = "(20, 0, 3)" ] || fail "$(tenant info demo acme --json)"
[ "$(tenant info demo globex --json | json '(d["ops"], d["bandwidth"], d["weight"])')" = "(0, 0, 1)" ] || fail "$(tenant info demo globex --json)"
wait_until 10 is_told acme ops -eq 20 || fail "the brick does not know: $(told acme ops)"
for i in 1 2 3 4; do flood "$A" "$i"; done >errors
wait_until 20 is_told acme held_by_limit -gt 20 || fail "a flood is not held back"
work || fail "the other tenant's work fails"
is_told globex held_by_limit -eq 0 || fail "one tenant's limit holds the other back"
dumped=$("$STRATUS" dump "$SERVER")
grep -q 'acme: ops 20, bandwidth 0, weight 3, waiting .*, held by its limits [1-9]' <<<"$dumped" || fail "dump does not tell: $dumped"

# ---- lifted, and shares instead: one place, and both go on ----
tenant resize demo acme --ops none >/dev/null
wait_until 10 is_told acme ops -eq 0 || fail "the limit is not lifted"
"$STRATUS" volume set demo features/throttle at-once 1 --stratusd "$SERVER" >/dev/null
work || fail "the other tenant's work fails when there is one place"
end_flood
[ ! -s errors ] || fail "who is held back gets errors: $(sort errors | uniq -c)"

# ---- a limit of bytes; its time can be too long, never too short ----
tenant resize demo acme --bandwidth 1M >/dev/null
wait_until 10 is_told acme bandwidth -eq 1048576 || fail "the brick does not know: $(told acme bandwidth)"
begin=$(now_ms)
dd if=/dev/zero of="$A/data" bs=256k count=12 conv=fsync 2>/dev/null || fail "a write that is held back fails"
[ $(($(now_ms) - begin)) -ge 1900 ] || fail "3 MiB took $(($(now_ms) - begin)) ms at 1 MiB in a second"
dd if=/dev/zero of="$A/data" bs=1M count=64 conv=fsync 2>/dev/null &
DD=$!
note "$DD" dd
wait_until 10 is_told acme waiting -gt 0 || fail "64 MiB are not held back"
tenant resize demo acme --bandwidth none --weight none >/dev/null
wait_until 20 gone "$DD" || fail "who waited does not go on when the limit is lifted"
wait "$DD" || fail "a write that was held back fails"
unset "PIDS[$DD]"
[ "$(stat -c %s "$A/data")" = $((64 << 20)) ] || fail "not all was written"

# ---- words that make no sense ----
for wrong in "--ops many" "--bandwidth 1K" "--weight 1001"; do
	# shellcheck disable=SC2086
	! tenant resize demo acme $wrong 2>/dev/null || fail "$wrong is taken"
done

# ---- it stops though much waits, and what waits is not lost ----
tenant resize demo acme --ops 1 >/dev/null
wait_until 10 is_told acme ops -eq 1 || fail "the brick does not know: $(told acme ops)"
for i in {1..24}; do echo "$i" >"$A/late$i" & note $! echo; LATE[i]=$!; done
wait_until 10 is_told acme waiting -gt 0 || fail "nothing waits"
begin=$(now_ms)
kill "$SERVER"
wait_until 10 gone "$SERVER" || fail "the server does not stop while a tenant waits"
[ $(($(now_ms) - begin)) -lt 22000 ] || fail "the server waits for limits" # 24 files are 24 operations and more, one in a second
demo >/dev/null || fail "the server does not start again"
SERVER=$(demo status --json | json 'd["server-pid"]')
tenant resize demo acme --ops none >/dev/null
for i in {1..24}; do
	wait_until 30 gone "${LATE[i]}" || fail "a write that was held back does not end"
	wait "${LATE[i]}" || fail "a write that was held back when the server stopped fails"
	unset "PIDS[${LATE[i]}]"
	[ "$(cat "$A/late$i")" = "$i" ] || fail "a write that was held back when the server stopped is lost"
done
pass
