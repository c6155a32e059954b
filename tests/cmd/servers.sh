#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several stratusd share a store: one leads; when it is killed another one does; each serves its own bricks; mounts go on.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
declare -A PID HTTP PEER
MNT=$SCRATCH/mnt
mkdir "$MNT"
MOUNTS+=("$MNT")
start_server() { # NAME [OPTIONS]
	local name=$1
	shift
	"$STRATUSD" --foreground --state "$SCRATCH/$name" --name "$name" --listen 127.0.0.1:"${HTTP[$name]}" \
		--cluster 127.0.0.1:"${PEER[$name]}" "$@" >>"$name.log" 2>&1 &
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
leads() { # NAME: it does, as it says itself
	[ "$(on "$1" status --json | json '[s["leads"] for s in d["servers"] if s["name"] == d["self"]["name"]]')" = "[True]" ]
}
version() { on "$1" volume info photos --json | json 'd["version"]'; }
has_version() { [ "$(version "$1")" = "$2" ]; }
serves() { # NAME BRICK
	[ "$(on "$1" status --json | json 'd["volumes"][0]["bricks"]['"$2"']["state"]')" = serving ]
}
for name in alpha beta gamma; do HTTP[$name]=$(free_port) PEER[$name]=$(free_port); done

start_server alpha
if grep -q 'without libraft' alpha.log; then skip "built without libraft"; fi
wait_until 10 leads alpha || fail "a server alone does not lead"
start_server beta --join
start_server gamma --join
refused "another server leads" beta volume create photos 127.0.0.1:"$SCRATCH/b"
refused "IPv4" alpha server add beta localhost:1
on alpha server add beta 127.0.0.1:"${PEER[beta]}" >/dev/null
refused "member already" alpha server add beta 127.0.0.1:"${PEER[beta]}"
on alpha server add gamma 127.0.0.1:"${PEER[gamma]}" >/dev/null
up() { [ "$(on "$1" status --json | json 'sorted((s["name"], s["state"], s["votes"]) for s in d["servers"])')" = \
	"[('alpha', 'up', True), ('beta', 'up', True), ('gamma', 'up', True)]" ]; }
wait_until 10 up alpha || fail "not three members: $(on alpha status)"

lists() { on beta server list >out && grep -q '^alpha .* leads$' out && grep -q '^gamma .*127.0.0.1:' out; } # alpha and gamma are a majority: beta may hear of gamma later
wait_until 10 lists || fail "server list: $(cat out)"
[ "$(on alpha server list --json | json 'sorted(s["name"] for s in d)')" = "['alpha', 'beta', 'gamma']" ] || fail "server list --json: $(on alpha server list --json)"
tells_who_knows() { on beta status | grep -q '^server gamma: not heard from here (alpha leads, and knows)'; }
wait_until 10 tells_who_knows || fail "who does not lead says: $(on beta status)"

# ---- a volume with a brick on each: each serves its own ----
cat >photos.yaml <<END
volume: photos
id: $(uuid)
servers:
  alpha: {host: 127.0.0.1}
  beta: {host: 127.0.0.1}
  gamma: {host: 127.0.0.1, port: $(free_port)}
bricks:
  - {server: alpha, directory: $SCRATCH/b0, id: $(uuid), port: $(free_port)}
  - {server: beta, directory: $SCRATCH/b1, id: $(uuid), port: $(free_port)}
  - {server: gamma, directory: $SCRATCH/b2, id: $(uuid)}
END
refused "is not of this cluster" alpha apply <(sed 's/gamma/delta/' photos.yaml)
# One that has no brick any more may have left: nothing is asked of it.
on alpha apply --dry-run <(sed 's/^servers:/&\n  delta: {host: 127.0.0.1}/' photos.yaml) >/dev/null || fail "a server without bricks must be a member"
on alpha apply photos.yaml >/dev/null
wait_until 10 serves alpha 0 || fail "alpha does not serve its brick"
wait_until 10 serves beta 1 || fail "beta does not serve its brick"
wait_until 10 serves gamma 2 || fail "gamma does not serve its brick"
refused "has the brick" alpha server remove gamma
refused "leads the cluster" alpha server remove alpha
"$STRATUS" mount --log mnt.log --pid-file mnt.pid 127.0.0.1:"${HTTP[alpha]}",127.0.0.1:"${HTTP[beta]}":/photos "$MNT"
note "$(cat mnt.pid)" mount
number=0
until [ "$("$STRATUS" ctl "$MNT" dht locate "file$number")" = client1 ]; do number=$((number + 1)); done
FILE=file$number
echo hello >"$MNT/$FILE"
[ "$(cat "b1/$FILE")" = hello ] || fail "not on beta's brick"

# ---- a replica set over all servers: its coordinator goes with the lead ----
cat >set.yaml <<END
volume: set
id: $(uuid)
replica: 3
servers:
  alpha: {host: 127.0.0.1}
  beta: {host: 127.0.0.1}
  gamma: {host: 127.0.0.1}
bricks:
  - {server: alpha, directory: $SCRATCH/r0, id: $(uuid), port: $(free_port)}
  - {server: beta, directory: $SCRATCH/r1, id: $(uuid), port: $(free_port)}
  - {server: gamma, directory: $SCRATCH/r2, id: $(uuid), port: $(free_port)}
END
on alpha apply set.yaml >/dev/null
SET=$SCRATCH/mset
mkdir "$SET"
MOUNTS+=("$SET")
in_view() { # NAME STATES: what the coordinator there says
	[ "$(on "$1" status --json | json '[[m["state"] for m in v["set"]["members"]] for v in d["volumes"] if v["name"] == "set"]')" = "[$2]" ]
}
wait_until 20 in_view alpha "['in', 'in', 'in']" || fail "the set is not whole: $(on alpha status)"
on alpha heal status set | grep -q 'brick2 .* in, ' || fail "heal status: $(on alpha heal status)"
refused "runs on the server that leads" beta heal status
refused "runs on the server that leads" beta scrub set check
"$STRATUS" mount --log mset.log --pid-file mset.pid \
	127.0.0.1:"${HTTP[alpha]}",127.0.0.1:"${HTTP[beta]}",127.0.0.1:"${HTTP[gamma]}":/set "$SET"
note "$(cat mset.pid)" "mount of the set"
echo one >"$SET/file"

checked() { # NAME: by `status --check` this server knows of nothing wrong (the disk of the machine may be full); else that is in the file checked
	on "$1" status --check --full 100 >checked
}
wait_until 20 checked alpha && wait_until 20 checked beta || fail "something is wrong: $(cat checked)"

# ---- the leader is killed ----
kill -9 "${PID[alpha]}"
wait "${PID[alpha]}" 2>/dev/null || true
unset "PIDS[${PID[alpha]}]"
one_leads() { leads beta || leads gamma; }
wait_until 20 one_leads || fail "nobody leads after alpha was killed"
leads beta && leader=beta || leader=gamma
tells() { ! checked "$leader" && grep -q "^server alpha at .*: it is down" checked && grep -qE "^volume [a-z]*: brick0 alpha:.* does not answer" checked; }
wait_until 60 tells || fail "status --check does not tell of alpha: $(cat checked)"
[ "$(cat "$MNT/$FILE")" = hello ] || fail "a brick on another server went away"
timeout 300 sh -c "echo two >>'$SET/file'" || fail "no change of the set is possible after the leader was killed"
[ "$(timeout 300 cat "$SET/file" | tr '\n' ' ')" = "one two " ] || fail "the set has lost something"
on "$leader" volume set photos protocol/client max-wait 61s >/dev/null
follows() { grep -q "$1" < <("$STRATUS" dump "$MNT"); }
wait_until 40 follows 'max-wait: 61000ms' || fail "the mount does not follow the other servers"

# ---- it comes back, is healed, and catches up; then the others go: nothing is committed without a majority ----
start_server alpha
wait_until 20 has_version alpha 2 || fail "alpha does not catch up: $(on alpha status)"
wait_until 10 serves alpha 0 || fail "alpha does not serve its brick again"
wait_until 60 in_view "$leader" "['in', 'in', 'in']" || fail "the set is not whole again: $(on "$leader" status)"
cmp r0/file r1/file && cmp r0/file r2/file || fail "the replicas differ"
umount "$SET"

# ---- who is told to end leaves the set before that, and one who leads has the view made without its own brick, and hands over ----
whole() { leads "$1" && in_view "$1" "['in', 'in', 'in']"; }
[ "$leader" = alpha ] && other=beta || other=alpha
for name in "$other" "$leader"; do
	wait_until 90 whole "$leader" || fail "the set is not whole: $(on "$leader" status)"
	left='it is going to end\|no answer' # a busy machine may lose its lease before that
	views=$(grep -c "$left" "$leader.log" || true)
	stop_process "${PID[$name]}" "$name"
	[ "$(grep -c "$left" "$leader.log")" -gt "$views" ] || fail "$name has ended, and no view was made without it before: $(tail -n 20 "$leader.log")"
	[ "$name" = "$leader" ] || start_server "$name"
done
next_leads() { [ "$leader" != alpha ] && leads alpha || { [ "$leader" != beta ] && leads beta; } || { [ "$leader" != gamma ] && leads gamma; }; }
wait_until 20 next_leads || fail "nobody leads after $leader has handed over"
old=$leader
for name in alpha beta gamma; do [ "$name" = "$old" ] || ! leads $name || leader=$name; done
start_server "$old"
wait_until 90 whole "$leader" || fail "the set is not whole: $(on "$leader" status)"

# ---- a brick goes to another server: the command returns when that serves it ----
on "$leader" brick replace set brick1 alpha:"$SCRATCH/r9" >out 2>err || fail "replaced, but: $(cat out err)"
[ "$(on "$leader" status --json | json '[v["set"]["members"][1]["answers"] for v in d["volumes"] if v["name"] == "set"]')" = "[True]" ] || fail "not in service yet: $(on "$leader" status)"
wait_until 60 in_view "$leader" "['in', 'in', 'in']" || fail "the new brick is not healed: $(on "$leader" status)"

# ---- a log that its disk has damaged: refused; the server leaves the store, keeps its brick, and is added again ----
[ "$leader" = beta ] && broken=gamma other=1 || broken=beta other=2
kill -9 "${PID[$broken]}"
wait "${PID[$broken]}" 2>/dev/null || true
unset "PIDS[${PID[$broken]}]"
segment=$broken/raft/open-1 # it has run since it joined
python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(40); b = f.read(1); f.seek(40); f.write(bytes([b[0] ^ 4]))' "$segment"
! timeout 30 "$STRATUSD" --foreground --state "$SCRATCH/$broken" --name "$broken" --listen 127.0.0.1:"${HTTP[$broken]}" \
	--cluster 127.0.0.1:"${PEER[$broken]}" 2>err || fail "a damaged log was taken"
grep -q "$(basename "$segment") is damaged at byte .*server remove --keep-bricks $broken" err || fail "the damage is not told: $(cat err)"
refused "has the brick .*--keep-bricks" "$leader" server remove "$broken"
on "$leader" server remove --keep-bricks "$broken" >/dev/null
rm -r "${broken:?}/raft"
start_server "$broken" --join
on "$leader" server add "$broken" 127.0.0.1:"${PEER[$broken]}" >/dev/null || fail "it is not taken in again: $(on "$leader" status)"
wait_until 60 serves "$broken" $((3 - other)) || fail "it does not serve its brick again: $(on "$broken" status)"
for name in beta gamma; do stop_process "${PID[$name]}" "$name"; done
status=0
on alpha volume set photos protocol/client max-wait 62s >out 2>err || status=$?
[ "$status" = 1 ] || fail "one of three has committed: $(cat out)"
[ "$(version alpha)" = 2 ] || fail "what was not committed is shown"
start_server beta
start_server gamma
anyone_leads() { leads alpha || leads beta || leads gamma; }
wait_until 20 anyone_leads || fail "nobody leads after two have come back"
for name in alpha beta gamma; do ! leads $name || leader=$name; done
try() { on "$leader" volume set photos protocol/client max-wait 63s >/dev/null; }
wait_until 20 try || fail "nothing can be committed"
wait_until 40 follows 'max-wait: 63000ms' || fail "the mount does not follow after all were away"

umount "$MNT"
for name in alpha beta gamma; do stop_process "${PID[$name]}" "$name"; done
! timeout 30 "$STRATUSD" --foreground --state "$SCRATCH/alpha" --name omega --listen 127.0.0.1:"${HTTP[alpha]}" 2>err || fail "another name was taken"
grep -q -- '--cluster\|--name alpha' err || fail "the cause is not told: $(cat err)"
! timeout 30 "$STRATUSD" --foreground --state "$SCRATCH/alpha" --name alpha --listen 127.0.0.1:"${HTTP[alpha]}" 2>err || fail "a shared store was opened alone"
grep -q -- '--cluster' err || fail "the cause is not told: $(cat err)"
pass
