# SPDX-License-Identifier: Apache-2.0
# For lib.sh: a volume that is spread over SPREAD bricks, or over SPREAD sets of REPLICA (2, 3, or 3a with an arbiter), as `stratus volgen`
# makes it. Each server has one brick of each set, and is a process; so is what coordinates the sets.
#
# SCATTER=N: one directory in N is made elsewhere than its name. BEGAN_WITH=N: the others came later, and have no names yet. LEAVING=N: subvolume N is to leave the volume.
# MOVING=N: the last one has just come, and from N names of the root it is given its part while the test runs.
# SHUFFLING=N: while the test runs one subvolume after the other is emptied, and gets its part again, as `brick remove` and its --cancel do it: so names, directories with what is in
# them, and files move that are in use. There are N directories besides, so that there is something to move. (By hand: doc/check-long.md has what fails with it.)
#
# start_spread sets, beside what start_stack sets: $SETS, $MEMBERS; $SERVER_PID by server number, $COORDINATOR_PID. Brick N is $STACK/brickN.
declare -ga SERVER_PID=()
SETS=$SPREAD
MEMBERS=${REPLICA%a}
BRICKS=$((SETS * MEMBERS))

server_of() { if [ "$MEMBERS" = 1 ]; then echo "$1"; else echo $(($1 % MEMBERS)); fi; }
servers() { if [ "$MEMBERS" = 1 ]; then echo "$BRICKS"; else echo "$MEMBERS"; fi; }

# write_spread_spec ["NAME VALUE"|"TYPE:NAME VALUE"|+TYPE...]: options of protocol/client, and of other types (one each).
write_spread_spec() {
	local i option above= given= others=
	for option; do
		if [[ $option == */*:* ]]; then
			others=$others${others:+, }$(sed 's|^\([^:]*\):\([^ ]*\) \(.*\)|\1: {\2: \3}|' <<<"$option")
		elif [ "${option#+}" != "$option" ]; then
			above=$above${above:+, }${option#+}
		else
			given=$given${given:+, }${option%% *}:\ ${option#* }
		fi
	done
	[ -z "${SHUFFLING-}" ] || others=$others${others:+, }"cluster/dht: {sweep-interval: 50ms}, features/layout: {reopen-time: 1s}"
	[ -z "${SCATTER-}" ] || others=$others${others:+, }"cluster/dht: {scatter: $SCATTER}"
	{
		printf 'volume: v\nid: %s\n' "$VOLUME_ID"
		[ "$MEMBERS" = 1 ] || printf 'replica: %s\n' "$MEMBERS"
		[ -z "${BEGAN_WITH-}" ] || printf 'began-with: %s\n' "$BEGAN_WITH"
		[ -z "${LEAVING-}" ] || printf 'leaving: %s\n' "$LEAVING"
		[ "$REPLICA" = "$MEMBERS" ] || printf 'arbiter: true\n'
		printf 'servers:\n'
		for ((i = 0; i < $(servers); i++)); do printf '  s%s: {host: 127.0.0.1, port: %s}\n' "$i" "$(free_port)"; done
		printf 'bricks:\n'
		for ((i = 0; i < BRICKS; i++)); do
			printf '  - {server: s%s, directory: %s/brick%s, id: %s}\n' "$(server_of "$i")" "$STACK" "$i" "$(uuid)"
		done
		printf 'client-translators: [%s]\n' "$above"
		others=$others${given:+${others:+, }protocol/client: \{$given\}}
		[ -z "$others" ] || printf 'options: {%s}\n' "$others"
	} >"$STACK/spec.yaml"
}
start_server() { # NUMBER
	"$STRATUSD" --foreground "$STACK/server-s$1.vol" >>"$STACK/server$1.log" 2>&1 &
	SERVER_PID[$1]=$!
	note "${SERVER_PID[$1]}" "stratusd of server $1"
	wait_until 20 server_serves "$1" || fail "server $1 does not listen"
	! gone "${SERVER_PID[$1]}" || fail "server $1 has ended at its start"
}
server_serves() { gone "${SERVER_PID[$1]}" || grep -q "serving" <(tail -n 20 "$STACK/server$1.log"); }
kill_server() { # NUMBER
	kill_hard "${SERVER_PID[$1]}" "stratusd of server $1"
	: >"$STACK/server$1.log"
}
start_coordinators() {
	"$STRATUSD" --foreground "$STACK"/coordinator-*.vol >>"$STACK/coordinator.log" 2>&1 &
	COORDINATOR_PID=$!
	note "$COORDINATOR_PID" coordinator
}
# brick_is NUMBER STATE: out, back or in, by the coordinator of its set.
brick_is() {
	[ "$("$STRATUS" heal status --stratusd "$COORDINATOR_PID" --json |
		json "[s['members'][$(($1 % MEMBERS))]['state'] for s in d if (s['volume'].partition(':')[2] or '0') == '$(($1 / MEMBERS))']")" = "['$2']" ]
}
all_in() { local i; for ((i = 0; i < BRICKS; i++)); do brick_is "$i" in || return 1; done; }

start_spread() {
	local dir=$1 i
	shift
	STACK=$dir MNT=$dir/mnt CLIENT_VOL=$dir/client-v.vol VOLUME_ID=$(uuid)
	mkdir -p "$MNT"
	[ -z "${MOVING-}" ] || BEGAN_WITH=$((SETS - 1))
	write_spread_spec "$@"
	"$STRATUS" volgen "$STACK/spec.yaml" --out "$STACK" --state "$STACK" >/dev/null || fail "no volfiles"
	(umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$STACK/v.secret")
	for ((i = 0; i < BRICKS; i++)); do
		mkdir -p "$STACK/brick$i/.stratus"
		cp -p "$STACK/v.secret" "$STACK/brick$i/.stratus/secret"
	done
	for ((i = 0; i < $(servers); i++)); do start_server "$i"; done
	if [ "$MEMBERS" != 1 ]; then
		start_coordinators
		wait_until 30 all_in || fail "the sets do not come together"
	fi
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
	[ -z "${MOVING-}" ] || begin_moving
	[ -z "${SHUFFLING-}" ] || begin_shuffling
}
begin_moving() {
	python3 -c 'import sys
for i in range(int(sys.argv[2])): open(f"{sys.argv[1]}/moves{i}", "x").close()' "$MNT" "$MOVING" || fail "no names to move"
	"$STRATUS" ctl "$MNT" dht rebalance start || fail "the rebalance can't be begun"
}
# The mount gets a volume file that says so, as it would hear of a specification that does.
set_leaving() { # NUMBER|-1
	sed -i '/type cluster\/dht/,/end-volume/{/option leaving/d; s/^\( *\)type cluster\/dht.*/&\n\1option leaving '"$1"'/}' "$CLIENT_VOL"
	"$STRATUS" reload "$MNT" >/dev/null
}
has_moved() { # until all is where it is to be, or SECONDS are over; what cost nothing is gone on with next time
	local until=$((SECONDS + $1)) told
	"$STRATUS" ctl "$MNT" dht rebalance start || return 1
	while told=$("$STRATUS" ctl "$MNT" dht rebalance status) && ! grep -q '^state done' <<<"$told" && [ $SECONDS -lt "$until" ]; do sleep 0.2; done
	tr '\n' ' ' <<<"$told" && echo
}
shuffle() {
	local n=0 i
	for ((i = 0; i < SHUFFLING; i++)); do
		mkdir "$MNT/shuffled$i" && echo "$i" >"$MNT/shuffled$i/file" || return 1
	done
	until [ -e "$STACK/enough" ]; do
		set_leaving "$n" && has_moved 10 && set_leaving -1 && has_moved 10 || return 1
		n=$(((n + 1) % SETS))
	done
}
begin_shuffling() {
	shuffle >"$STACK/shuffle.log" 2>&1 &
	SHUFFLER=$!
	note "$SHUFFLER" shuffler
}
all_moved() { "$STRATUS" ctl "$MNT" dht rebalance status | grep -q '^state done'; }
end_shuffling() {
	local i
	: >"$STACK/enough"
	wait_until 60 gone "$SHUFFLER" || fail "who shuffles does not end: $(tail -n 3 "$STACK/shuffle.log")"
	unset "PIDS[$SHUFFLER]"
	wait "$SHUFFLER" || fail "who shuffles failed: $(tail -n 3 "$STACK/shuffle.log")"
	"$STRATUS" ctl "$MNT" dht rebalance start
	wait_until 120 all_moved || fail "it does not come to its end: $("$STRATUS" ctl "$MNT" dht rebalance status)"
	grep -qE '^state .* moved [1-9]' "$STACK/shuffle.log" || fail "nothing was moved meanwhile: $(cat "$STACK/shuffle.log")"
	say "shuffled $(grep -c '^state' "$STACK/shuffle.log") times, $(grep -c '^state done' "$STACK/shuffle.log") of them to the end; $(sed 's/.* moved \([0-9]*\) .* files \([0-9]*\) .*/\1 \2/' "$STACK/shuffle.log" | awk '{n += $1; f += $2} END {print n " names and " f " files moved"}')"
	for ((i = 0; i < SHUFFLING; i++)); do
		[ "$(cat "$MNT/shuffled$i/file")" = "$i" ] || fail "shuffled$i/file is not as it was"
	done
	# (What is left of a directory where it was is removed by that.)
	timeout 300 "$STRATUS" fsck --wait 1 --repair "$CLIENT_VOL" >"$STACK/fsck.log" 2>&1 || fail "fsck: $(cat "$STACK/fsck.log")"
	! grep ' at .*: ' "$STACK/fsck.log" | grep -v '^shard .*no layout of a directory names this part of it' || fail "fsck finds something: $(cat "$STACK/fsck.log")"
	"$STRATUS" fsck --wait 1 "$CLIENT_VOL" >"$STACK/fsck.log" 2>&1 || fail "fsck finds something after a repair: $(cat "$STACK/fsck.log")"
}
# Before the mount goes.
end_moving() {
	local told
	[ -z "${SHUFFLING-}" ] || end_shuffling
	[ -n "${MOVING-}" ] || return 0
	told=$("$STRATUS" ctl "$MNT" dht rebalance status)
	say "the rebalance, at the end: $(tr '\n' ' ' <<<"$told")"
	[ "$(sed -n 's/^moved //p' <<<"$told")" -gt 0 ] && ! grep -q '^problem' <<<"$told" || fail "nothing was moved meanwhile, or not all could be: $told"
}
stop_spread() {
	local i
	[ "$MEMBERS" = 1 ] || compare_sets
	[ "$MEMBERS" = 1 ] || stop_process "$COORDINATOR_PID" "the coordinator"
	for ((i = 0; i < $(servers); i++)); do stop_process "${SERVER_PID[i]}" "server $i"; done
}
# Nobody is mounted any more: the members come to rest, and then hold the same.
compare_sets() {
	local i
	wait_until 60 sets_rest || fail "the members do not come to rest: $("$STRATUS" heal status --stratusd "$COORDINATOR_PID")"
	for ((i = 0; i < BRICKS; i++)); do
		[ $((i % MEMBERS)) != 0 ] || continue
		python3 "$TOP/tests/mount/same.py" "$STACK/brick$((i / MEMBERS * MEMBERS))" "$STACK/brick$i" \
			$([ "$REPLICA" != "$MEMBERS" ] && [ $((i % MEMBERS)) = 2 ] && echo --no-data) >"$STACK/differences" ||
			fail "brick $i differs from the first of its set: $(head -n 5 "$STACK/differences")"
	done
	say "the bricks of each set are equal"
}
sets_rest() {
	local i
	all_in || return 1
	for ((i = 0; i < $(servers); i++)); do
		[ "$("$STRATUS" dump "${SERVER_PID[i]}" | grep -c -x '  unresolved: 0')" = "$SETS" ] || return 1
	done
}
