# SPDX-License-Identifier: Apache-2.0
# For lib.sh: the one stratusd of a test that keeps a cluster store, in $SCRATCH, on port $HTTP; and commands that it is to refuse.

start_keeper() {
	"$STRATUSD" --foreground --state "$SCRATCH/state" --name alpha --listen 127.0.0.1:"$HTTP" >>"$SCRATCH/stratusd.log" 2>&1 &
	KEEPER=$!
	note "$KEEPER" stratusd
	wait_until 20 "$STRATUS" status || fail "stratusd does not answer"
}
kill_keeper() { kill_hard "$KEEPER" stratusd; }
refused() { # PATTERN COMMAND...
	local pattern=$1 status=0
	shift
	timeout 300 "$STRATUS" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for $*: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	grep -q -- "$pattern" "$SCRATCH/err" || fail "'$pattern' is not in: $(cat "$SCRATCH/err")"
}
