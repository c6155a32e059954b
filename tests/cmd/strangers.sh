#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who is no member of the cluster does not become one by mistake: a server with the wrong --state begins another cluster, and takes nothing from the one in which its name votes; one that does not answer, or was
# not started with --join, is not added, nor half. One that waits to be added says so. Who is silent for a moment only is not told to be down.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need curl
scratch
cd "$SCRATCH"
declare -A PID HTTP PEER
for name in alpha beta gamma delta; do HTTP[$name]=$(free_port) PEER[$name]=127.0.0.1:$(free_port); done
start_server() { # NAME STATE [OPTIONS]
	local name=$1 state=$2
	shift 2
	"$STRATUSD" --foreground --state "$SCRATCH/$state" --name "$name" --listen 127.0.0.1:"${HTTP[$name]}" --cluster "${PEER[$name]}" "$@" >>"$state.log" 2>&1 &
	PID[$name]=$!
	note $! "stratusd $name"
	wait_until 20 "$STRATUS" status --stratusd "${PID[$name]}" || fail "$name does not answer"
}
on() { # NAME WORDS...: a command, asked of that server
	local name=$1
	shift
	timeout 300 "$STRATUS" "$@" --stratusd "${PID[$name]}"
}
refused() { # PATTERN NAME WORDS...
	local pattern=$1 status=0
	shift
	on "$@" >out 2>err || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for $*: $(cat out err)"
	grep -q -- "$pattern" err || fail "'$pattern' is not in: $(cat err)"
}
states() { on "$1" status --json | json 'sorted((s["name"], s["state"], s["votes"]) for s in d["servers"])'; }
all="[('alpha', 'up', True), ('beta', 'up', True), ('gamma', 'up', True)]"
all_up() { [ "$(states "$1")" = "$all" ]; }
one_leads() { for leader in alpha beta gamma; do ! leads $leader || return 0; done; return 1; } # on a busy machine not always the same one
are_up() { one_leads && all_up "$leader"; }
not_added() { # PATTERN ADDRESS: of delta
	local status
	for ((tries = 0; tries < 5; tries++)); do
		wait_until 60 one_leads || fail "nobody leads"
		status=0
		on "$leader" server add delta "$2" >out 2>err || status=$?
		grep -q 'another server leads' err || break
	done
	[ "$status" = 1 ] && grep -q -- "$1" err || fail "status $status, and '$1' is not in: $(cat out err)"
	wait_until 30 are_up || fail "half a member: $(on "$leader" status)"
}
leads() { [ "$(on "$1" status --json | json '[s["leads"] for s in d["servers"] if s["name"] == d["self"]["name"]]')" = "[True]" ]; }

start_server alpha alpha
if grep -q 'without libraft' alpha.log; then skip "built without libraft"; fi
wait_until 10 leads alpha || fail "a server alone does not lead"

# ---- one that is to be added: it waits; until it answers nothing is changed ----
refused "nothing answers at ${PEER[beta]}: start stratusd there" alpha server add beta "${PEER[beta]}"
[ "$(states alpha)" = "[('alpha', 'up', True)]" ] || fail "a member that does not answer: $(on alpha status)"
start_server beta beta --join
on beta status >out
grep -q "^server beta waits to be taken in: .stratus server add beta ${PEER[beta]}." out && ! grep -q 'no volumes' out || fail "who waits says: $(cat out)"
status=0
on beta status --check >out || status=$?
[ "$status" = 3 ] && grep -q '^server beta waits to be taken in' out && [ "$(wc -l <out)" = 1 ] || fail "status --check of who waits: $status, $(cat out)"
start_server gamma gamma --join
on alpha server add beta "${PEER[beta]}" >/dev/null
on alpha server add gamma "${PEER[gamma]}" >/dev/null
wait_until 10 all_up alpha || fail "not three members: $(on alpha status)"

# ---- one that has begun a cluster of its own, and an address where something else listens ----
start_server delta delta
not_added "delta has not taken what the cluster has: .* it was not added" "${PEER[delta]}"
grep -q "takes this one, delta, for a member of its cluster" delta.log || fail "the other one's log does not tell: $(cat delta.log)"
leads delta || fail "the other cluster does not go on"
not_added "delta has not taken what the cluster has: .* it was not added" 127.0.0.1:"${HTTP[beta]}"
stop_process "${PID[delta]}" delta

# ---- who is silent for 2 s is not down, who is for longer is ----
# By HTTP: `stratus` looks at all processes, and waits for one that is stopped.
down() { [ "$(curl -s -m 60 "http://127.0.0.1:${HTTP[$leader]}/v1/status" | json '[s["state"] for s in d["servers"] if s["name"] == "'"$silent"'"]')" = "['down']" ]; }
for ((tries = 0; ; tries++)); do
	[ "$tries" -lt 20 ] || fail "this machine is too slow to stop a process for 2 s"
	wait_until 60 are_up || fail "not whole: $(on alpha status)"
	[ "$leader" = gamma ] && silent=beta || silent=gamma
	seen=0
	begin=$(now_ms)
	kill -STOP "${PID[$silent]}"
	sleep 1.6
	! down || seen=1
	kill -CONT "${PID[$silent]}"
	[ $(($(now_ms) - begin)) -ge 2800 ] || break
	sleep 2
done
[ "$seen" = 0 ] || fail "who was silent for 2 s was told to be down"
kill -STOP "${PID[$silent]}"
wait_until 20 down || fail "who is silent is not told to be down"
kill -CONT "${PID[$silent]}"
wait_until 60 are_up || fail "who answers again is told to be down"

# ---- the wrong --state: of who leads, and of who does not ----
for round in 1 2; do
	wait_until 60 one_leads || fail "nobody leads"
	[ $round = 1 ] && victim=$leader || { [ "$leader" = gamma ] && victim=beta || victim=gamma; }
	on "$leader" volume create v$round 127.0.0.1:"$SCRATCH/v$round" >/dev/null || fail "nothing can be committed"
	stop_process "${PID[$victim]}" "$victim"
	start_server "$victim" wrong$round
	for name in alpha beta gamma; do [ $name = "$victim" ] || other=$name; done
	other_leads() { for leader in alpha beta gamma; do [ $leader = "$victim" ] || ! leads $leader || return 0; done; return 1; }
	wait_until 60 other_leads || fail "nobody leads: $(on "$other" status)"
	wait_until 20 grep -q "takes this one, $victim, for a member of its cluster" wrong$round.log || fail "it does not tell of strangers: $(cat wrong$round.log)"
	is_down() { other_leads && [[ $(states "$leader") == *"('$victim', 'down', True)"* ]]; }
	wait_until 20 is_down || fail "the stranger counts as the member: $(on "$leader" status)"
	[ "$(on "$victim" volume info --json)" = "[]" ] || fail "the stranger has taken what is not its own"
	is_told() { on "$1" status >out && grep -q "$2" out && { on "$1" status --check >out || true; } && grep -q "$2" out; }
	wait_until 20 is_told "$victim" "takes this one, $victim, for a member of its cluster, but this one is of another cluster" || fail "the stranger's status does not tell: $(cat out)"
	leader_is_told() { other_leads && is_told "$leader" "the server at ${PEER[$victim]} takes nothing from this one, $leader, for it is of another cluster"; }
	wait_until 20 leader_is_told || fail "the status of the one that leads does not tell of the stranger: $(cat out)"
	go_on() { other_leads && on "$leader" volume create w$round 127.0.0.1:"$SCRATCH/w$round" >/dev/null; }
	wait_until 60 go_on || fail "the others do not go on"
	sleep 3
	[ "$(on "$victim" volume info --json)" = "[]" ] && leads "$victim" || fail "the stranger has taken what is not its own: $(on "$victim" status)"
	stop_process "${PID[$victim]}" "the stranger"
	start_server "$victim" "$victim"
	wait_until 60 are_up || fail "not whole again: $(on "$leader" status)"
done

# ---- a voter whose --state is lost, with --join: what it voted and acknowledged is forgotten ----
wait_until 60 one_leads || fail "nobody leads"
[ "$leader" = gamma ] && victim=beta || victim=gamma
stop_process "${PID[$victim]}" "$victim"
rm -r "${victim:?}"
start_server "$victim" "$victim" --join
wait_until 60 is_told "$victim" "takes this one, $victim, for a member that votes, but there is no log in $SCRATCH/$victim" || fail "it is not told that it has lost its log: $(cat out)"
leader_is_told() { one_leads && is_told "$leader" "the server at ${PEER[$victim]} is a member that votes, but has no log any more"; }
wait_until 60 leader_is_told || fail "the one that leads does not tell: $(cat out)"
[ "$(on "$victim" volume info --json)" = "[]" ] || fail "who lost its log was taken for the member"
leads_says() { # WORDS...: asked of the one that leads
	for ((tries = 0; tries < 5; tries++)); do
		wait_until 60 one_leads || fail "nobody leads"
		! on "$leader" "$@" >out 2>err || return 0
		grep -q 'another server leads' err || break
	done
	return 1
}
leads_says server remove --keep-bricks "$victim" || fail "it can't be removed: $(cat err)"
leads_says server add "$victim" "${PEER[$victim]}" || fail "it can't be added again: $(cat err)"
wait_until 60 are_up || fail "not whole again: $(on "$leader" status)"
has_all() { [ "$(on "$victim" volume info --json)" != "[]" ]; }
wait_until 20 has_all || fail "it has nothing"
[ "$(cat alpha/raft/cluster)" = "$(cat "$victim"/raft/cluster)" ] || fail "not one cluster"
for name in alpha beta gamma; do stop_process "${PID[$name]}" "$name"; done
pass
