#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume gets another subvolume while it is mounted, and names of its root move there: all files are there all the time, on the mount that
# stays and on a new one, also if the server is killed in the middle of it.
#
# Arguments are volumes to begin with instead of all, as BRICKS:REPLICA.
# limit: 900 s
. "$(dirname "$0")/moving.sh"

state() { "$STRATUS" rebalance status v --json | json 'd["state"]'; }
is_state() { [ "$(state)" = "$1" ]; }

# ---- what is in the root, and what must be there all the time ----

fill() { # MOUNT FROM TO: files and directories with files
	python3 - "$@" <<-'END'
	import os, sys
	top, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	for i in range(first, last):
	    if i % 4:
	        open(f"{top}/file{i}", "w").write(f"this is {i}")
	    else:
	        os.makedirs(f"{top}/dir{i}/below")
	        open(f"{top}/dir{i}/below/file", "w").write(f"this is {i}")
	END
}
is_whole() { # MOUNT COUNT
	python3 - "$@" <<-'END' || fail "not all is there on $1"
	import os, sys
	top, count = sys.argv[1], int(sys.argv[2])
	want = sorted(f"file{i}" if i % 4 else f"dir{i}" for i in range(count))
	have = sorted(n for n in os.listdir(top) if n.startswith(("file", "dir")))
	assert have == want, (sorted(set(want) ^ set(have)), len(have), len(want))
	for i in range(count):
	    path = f"{top}/file{i}" if i % 4 else f"{top}/dir{i}/below/file"
	    with open(path) as f:
	        text = f.read()
	    assert text == f"this is {i}", (path, text)
	END
}
# What stands there under names of the root: each is in place, or a pointer.
names_on() { find "$SCRATCH/b$1" -mindepth 1 -maxdepth 1 ! -name '.stratus*' | wc -l; }
files_on() { find "$SCRATCH/b$1" -mindepth 1 -maxdepth 1 -type f -size +0 | wc -l; } # a pointer is empty

# ---- the parts ----

nothing_to_do() {
	local left=idle says='no bricks were added'
	[ "$BEGAN" = 1 ] || { left=done says=' 0 have moved, and 0 files'; }
	timeout 300 "$STRATUS" rebalance start v --wait >"$SCRATCH/out" || fail "a start where nothing is to be done fails"
	grep -q "$says" "$SCRATCH/out" && is_state "$left" || fail "nothing is to be done: $(cat "$SCRATCH/out")"
	"$STRATUS" rebalance stop v >"$SCRATCH/out" && is_state "$left" || fail "a stop of nothing: $(cat "$SCRATCH/out")"
	refused "there is no volume 'w'" rebalance start w
	local status=0
	"$STRATUS" rebalance stop v --wait 2>"$SCRATCH/err" || status=$?
	[ "$status" = 2 ] && grep -q 'wait goes with start' "$SCRATCH/err" || fail "stop --wait: $(cat "$SCRATCH/err")"
}
takes_back() { # what was added last, if it has no names
	local there
	mkdir -p "$SCRATCH/b60"
	: >"$SCRATCH/b60/something"
	refused "is not empty" brick add v $(bricks 60 "$REPLICATED")
	[ "$(subvolumes)" = "$BEGAN" ] || fail "a brick that is not empty was taken in"
	rm "$SCRATCH/b60/something"
	"$STRATUS" brick add v $(bricks 60 "$REPLICATED") >/dev/null || fail "brick add"
	wait_until 30 all_in || fail "the new set is not whole: $("$STRATUS" status)"
	wait_until 30 grep -q "switched to version" "$SCRATCH/stays.log" || fail "the mount does not follow"
	there=$(grep -c "switched to version" "$SCRATCH/stays.log")
	refused "are one: name all of them\|has no other bricks" brick remove v brick0 $(bricks 60 "$REPLICATED")
	refused "are still to move to what was added last" brick remove v $(bricks 0 "$REPLICATED") # what has none would be left alone
	"$STRATUS" brick remove v $(bricks 60 "$REPLICATED") >/dev/null || fail "what has no names can't be taken back"
	[ "$(subvolumes)" = "$BEGAN" ] || fail "it is there still"
	wait_until 30 eval '[ "$(grep -c "switched to version" "$SCRATCH/stays.log")" -gt '"$there"' ]' || fail "the mount does not go back"
	: >"$SCRATCH/stays.log"
}
grow() { # FIRST: adds a subvolume of bricks FIRST...
	"$STRATUS" brick add v $(bricks "$1" "$REPLICATED") >"$SCRATCH/out" || fail "brick add: $(cat "$SCRATCH/out")"
	grep -q 'stratus rebalance start v' "$SCRATCH/out" || fail "the next step is not told: $(cat "$SCRATCH/out")"
	wait_until 30 all_in || fail "the new set is not whole: $("$STRATUS" status)"
	wait_until 30 grep -q "switched to version" "$SCRATCH/stays.log" || fail "the mount does not follow"
	[ "$(names_on "$1")" = 0 ] || fail "there are names on the new brick before any was moved"
	wait_until 60 says 'do not have their part of the names yet' "$STRATUS" status || fail "status: $("$STRATUS" status)"
	wait_until 60 says "spread over $BEGAN of $((BEGAN + 1)) subvolumes" "$STRATUS" rebalance status v || fail "status: $("$STRATUS" rebalance status v)"
}
stays() { # it can't go while names move there; when they have, it would be emptied first
	"$STRATUS" brick remove --dry-run v $(bricks "$1" "$REPLICATED") >"$SCRATCH/out" 2>"$SCRATCH/err" || grep -q "are still to move to what was added last" "$SCRATCH/err" ||
		fail "not refused as it should be: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	[ -s "$SCRATCH/err" ] || grep -q '+leaving: true' "$SCRATCH/out" || fail "what has names would go at once: $(cat "$SCRATCH/out")"
}
pauses() { # COUNT: it stays as it is, also if who moves is killed, until it is started or stopped
	"$STRATUS" rebalance pause v >"$SCRATCH/out" || fail "it does not pause"
	is_state "done" && return # it was sooner
	is_state paused && grep -q 'paused after .*rebalance start v. goes on' "$SCRATCH/out" || fail "it is $(state) after a pause: $(cat "$SCRATCH/out")"
	"$STRATUS" rebalance pause v >/dev/null || fail "a second pause does harm"
	refused "are still to move" brick add v $(bricks 90 "$REPLICATED")
	kill_keeper
	start_keeper
	is_state paused || fail "it is $(state) after a kill, and was paused"
	is_whole "$SCRATCH/stays" "$1"
	is_state paused || fail "it goes on by itself: $(state)"
}
# As if somebody had been killed while he wrote it, or its brick had been down: names wait for that, whether anybody moves some or not.
has_layout() { getfattr --absolute-names -n trusted.dht.layout "$1" >/dev/null 2>&1; }
is_written_to_all() { # FIRST COUNT: what the new subvolume lacks of a layout
	local i
	has_layout "$SCRATCH/b$1" || return 0 # none was begun
	kill_keeper
	for ((i = $1; i < $1 + REPLICATED; i++)); do setfattr -x trusted.dht.layout "$SCRATCH/b$i" || fail "brick $i had no layout"; done
	start_keeper
	for ((i = $1; i < $1 + REPLICATED; i++)); do wait_until 60 has_layout "$SCRATCH/b$i" || fail "names of brick $i wait as long as nobody moves any"; done
	is_whole "$SCRATCH/stays" "$2"
	is_state stopped || is_state "done" || fail "it is $(state) after a kill, and was stopped"
	say "a layout that the new subvolume lacked was written, though nobody moves names"
}
stop_and_go() { # FIRST COUNT
	local begin
	"$STRATUS" rebalance start v >/dev/null || fail "it does not start"
	"$STRATUS" rebalance start v >/dev/null || fail "a second start does harm"
	refused "are still to move" brick add v $(bricks 90 "$REPLICATED")
	pauses "$2"
	"$STRATUS" rebalance stop v >"$SCRATCH/out" || fail "it does not stop"
	is_state stopped || is_state done || fail "it is $(state) after it was stopped"
	is_whole "$SCRATCH/stays" "$2"
	is_state "done" || is_written_to_all "$1" "$2"
	"$STRATUS" rebalance start v >/dev/null || fail "it does not go on after it was stopped"
	begin=$(now_ms)
	stop_process "$KEEPER" stratusd # in the middle, or at the beginning, of it: it waits for nobody
	[ $(($(now_ms) - begin)) -lt 30000 ] || fail "stratusd ends $(($(now_ms) - begin)) ms after it was told to"
	start_keeper
}
killed_in_the_middle() { # COUNT
	local moved
	"$STRATUS" rebalance start v >/dev/null || fail "it does not go on"
	moves() { moved=$(told 'd.get("moved", 0)') && [ "$moved" -gt 0 ]; }
	wait_until 60 moves || fail "nothing is moved: $("$STRATUS" rebalance status v)"
	say "killed when $(told 'd["state"], d.get("step"), d.get("moved"), d.get("left")')"
	kill_keeper
	start_keeper
	is_state running || is_state done || fail "it does not go on after a kill: $("$STRATUS" rebalance status v)"
	timeout 300 "$STRATUS" rebalance start v --wait >"$SCRATCH/out" || fail "it does not end: $(cat "$SCRATCH/out"; "$STRATUS" rebalance status v)"
	! "$STRATUS" status | grep 'their part of the names' || fail "status, when all is done"
	is_state "done" && grep -q "all $((BEGAN + 1)) subvolumes have their part" "$SCRATCH/out" || fail "the end: $(cat "$SCRATCH/out")"
}
all_moved() { # FIRST COUNT: the new brick, names in all
	local share=$2
	wait_until 60 is_whole "$SCRATCH/stays" "$2" || fail "the mount that stayed"
	share=$(names_on "$1")
	say "$share of $2 names are on the new subvolume"
	# (What the status tells of files is since the last kill, before which all may have moved.)
	[ "$(files_on "$1")" -gt 0 ] && [ "$(told 'd["files"] >= 0 and d["bytes"] >= 0 and not d.get("failed")')" = True ] ||
		fail "no file has come along: $("$STRATUS" rebalance status v --json)"
	[ $((share * (BEGAN + 1) * 2)) -gt "$2" ] && [ $((share * (BEGAN + 1) * 2)) -lt $(($2 * 3)) ] || fail "not one in $((BEGAN + 1)) of the names"
	mount_at fresh
	is_whole "$SCRATCH/fresh" "$2"
	fill "$SCRATCH/fresh" "$2" $(($2 + 40))
	is_whole "$SCRATCH/stays" $(($2 + 40))
	[ "$(names_on "$1")" -gt "$share" ] || fail "no new name is on the new subvolume"
	fsck_is_clean
}
coordinated() { # all sets, and each by its number, also the first of a volume that began with it
	local i
	"$STRATUS" heal status >"$SCRATCH/out" || fail "heal status: $(cat "$SCRATCH/out")"
	[ "$(grep -c '^volume v' "$SCRATCH/out")" = $((BEGAN + 1)) ] || fail "not all sets are told: $(cat "$SCRATCH/out")"
	for ((i = 0; i <= BEGAN; i++)); do
		"$STRATUS" scrub "v:$i" status >"$SCRATCH/out" 2>&1 || fail "set $i has no name: $(cat "$SCRATCH/out")"
	done
}
remembered() {
	timeout 300 "$STRATUS" rebalance start v --wait >"$SCRATCH/out" && grep -q 'have their part' "$SCRATCH/out" || fail "once more: $(cat "$SCRATCH/out")"
	kill_keeper
	start_keeper
	is_state "done" || fail "what it did is forgotten: $(state)"
	[ "$("$STRATUS" volume info v | sed -n 's/^began-with: //p')" = "$BEGAN" ] || fail "with how many it began: $("$STRATUS" volume info v)"
}

on_volume() { # BRICKS REPLICA
	local count=200
	begin_volume "$1" "$2"
	mount_at stays
	fill "$SCRATCH/stays" 0 $count
	nothing_to_do
	takes_back
	grow "$1"
	is_whole "$SCRATCH/stays" $count
	keeps_whole $count
	stop_and_go "$1" $count
	stays "$1"
	killed_in_the_middle $count
	kept_whole
	all_moved "$1" $count
	remembered
	[ "$2" = 1 ] || coordinated
	pass
}

# ---- several servers: the one that leads has no brick, and is killed in the middle ----

start_one() { # NAME [OPTION]
	local name=$1
	shift
	"$STRATUSD" --foreground --state "$SCRATCH/$name" --name "$name" --listen 127.0.0.1:"$(free_port)" --cluster 127.0.0.1:"${PEER[$name]}" "$@" \
		>>"$SCRATCH/$name.log" 2>&1 &
	PID[$name]=$!
	note $! "stratusd $name"
	wait_until 20 "$STRATUS" status --stratusd "${PID[$name]}" || fail "$name does not answer"
}
on_server() { # NAME WORDS...
	local name=$1
	shift
	timeout 300 "$STRATUS" "$@" --stratusd "${PID[$name]}"
}
leads() { [ "$(on_server "$1" status --json | json '[s["leads"] for s in d["servers"] if s["name"] == d["self"]["name"]]')" = "[True]" ]; }
one_leads() { leads beta || leads gamma; }
serves_all() { # COUNT: beta and gamma together
	[ "$(for name in beta gamma; do on_server $name status --json | json '" ".join(b["state"] for b in d["volumes"][0]["bricks"])'; done | grep -o serving | wc -l)" = "$1" ]
}
has_moved() { [ "$(on_server alpha rebalance status v --json | json 'd.get("moved", 0) > 0')" = True ]; }
led_by_others() {
	local name
	declare -gA PID PEER
	scratch
	cd "$SCRATCH"
	for name in alpha beta gamma; do PEER[$name]=$(free_port); done
	start_one alpha
	if grep -q 'without libraft' alpha.log; then skip "built without libraft"; fi
	wait_until 10 leads alpha || fail "a server alone does not lead"
	for name in beta gamma; do
		start_one "$name" --join
		on_server alpha server add "$name" 127.0.0.1:"${PEER[$name]}" >/dev/null
	done
	cat >v.yaml <<-END
	volume: v
	id: $(uuid)
	servers: {beta: {host: 127.0.0.1}, gamma: {host: 127.0.0.1}}
	bricks:
	  - {server: beta, directory: $SCRATCH/b0, id: $(uuid), port: $(free_port)}
	  - {server: gamma, directory: $SCRATCH/b1, id: $(uuid), port: $(free_port)}
	END
	on_server alpha apply v.yaml >/dev/null
	wait_until 20 serves_all 2 || fail "not all is served: $(on_server beta status)"
	HTTP=$(on_server beta status --json | json 'd["self"]["listen"].split(":")[1]')
	mount_at stays
	fill "$SCRATCH/stays" 0 300
	on_server alpha volume info v | sed '1d; /^began-with/d' | sed "\$a\  - {server: beta, directory: $SCRATCH/b2, id: $(uuid), port: $(free_port)}" >v.yaml
	on_server alpha apply v.yaml >out || fail "a specification with one brick more: $(cat out)"
	wait_until 20 serves_all 3 || fail "the third brick is not served: $(on_server beta status)"
	on_server alpha rebalance start v >/dev/null
	wait_until 20 has_moved || fail "nothing is moved: $(on_server alpha rebalance status v)"
	on_server beta rebalance status v >out
	grep -q 'the server that leads\|have their part' out || fail "one that does not lead says: $(cat out)"
	kill_hard "${PID[alpha]}" "stratusd of alpha"
	wait_until 20 one_leads || fail "nobody leads"
	timeout 300 "$STRATUS" rebalance start --wait v --stratusd "${PID[$(leads beta && echo beta || echo gamma)]}" >out || fail "the next leader does not end it: $(cat out)"
	grep -q 'all 3 subvolumes have their part' out || fail "the end: $(cat out)"
	is_whole "$SCRATCH/stays" 300
	[ "$(names_on 2)" -gt 50 ] || fail "only $(names_on 2) of 300 names are on the new subvolume"
	fsck_is_clean
	pass
}

case ${1-} in
on) on_volume "$2" "$3" ;;
led-by-others) led_by_others ;;
esac
LIMIT=200
if [ $# = 0 ]; then
	set -- 1:1 2:2 4:2
	run_one "the next leader goes on" "$0" led-by-others
fi
for volume; do
	IFS=: read -r bricks replica <<<"$volume"
	run_one "$bricks bricks, replica $replica" "$0" on "$bricks" "$replica"
done
runs_end
