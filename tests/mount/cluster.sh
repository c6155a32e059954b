# SPDX-License-Identifier: Apache-2.0
# For scripts that have read lib.sh, and stand in $SCRATCH: three servers, alpha, beta and gamma, with a store that they share and TLS on every connection.
# Their certificates are in the directories alpha, beta and gamma; PID, HTTP and PEER tell of each.
declare -A PID HTTP PEER

start_server() { # NAME [OPTIONS]
	local name=$1
	shift
	"$STRATUSD" --foreground --state "$SCRATCH/state-$name" --name "$name" --listen 127.0.0.1:"${HTTP[$name]}" \
		--cluster 127.0.0.1:"${PEER[$name]}" --tls-dir "$SCRATCH/$name" "$@" >>"$name.log" 2>&1 &
	PID[$name]=$!
	note $! "stratusd $name"
	wait_until 30 "$STRATUS" status --stratusd "${PID[$name]}" || fail "$name does not answer"
}
on() { # NAME WORDS...
	local name=$1
	shift
	timeout 100 "$STRATUS" "$@" --stratusd "${PID[$name]}"
}
# lead WORDS...: at the server that leads. One that got no processor for a while leads no more, so whoever refuses for that is asked only once in turn; nothing is done then.
lead() {
	local name status end=$(( $(now_ms) + 1000 * PATIENCE ))
	while :; do
		for name in alpha beta gamma; do
			[ -n "${PID[$name]-}" ] && ! gone "${PID[$name]}" || continue
			status=0
			on "$name" "$@" 2>"$SCRATCH/lead.err" || status=$?
			grep -q 'another server leads the cluster, or none can' "$SCRATCH/lead.err" || { cat "$SCRATCH/lead.err" >&2; return "$status"; }
		done
		[ "$(now_ms)" -lt "$end" ] || { cat "$SCRATCH/lead.err" >&2; return 1; }
		sleep 0.1
	done
}
leads() { [ "$(on "$1" status --json | json '[s["leads"] for s in d["servers"] if s["name"] == d["self"]["name"]]')" = "[True]" ]; }
start_three() {
	local name
	for name in alpha beta gamma; do HTTP[$name]=$(free_port) PEER[$name]=$(free_port); done
	start_server alpha
	if grep -q 'without libraft' alpha.log; then skip "built without libraft"; fi
	wait_until 10 leads alpha || fail "a server alone does not lead"
	for name in beta gamma; do
		start_server $name --join
		lead server add $name 127.0.0.1:"${PEER[$name]}" >/dev/null
	done
}
