# SPDX-License-Identifier: Apache-2.0
# For lib.sh: a replica set of bricks with a server process each, and a coordinator.
#
# start_replicas sets, beside what start_stack sets, $MEMBERS, and by member number MEMBER_BRICK, MEMBER_PORT, MEMBER_PID, MEMBER_ID,
# MEMBER_VOL; $COORDINATOR_PID. $MEMBER_HOSTS (an array) puts the servers at other addresses than 127.0.0.1, $IN_NS (an array) are
# words to start them with (ip netns exec NAME).
declare -a MEMBER_BRICK=() MEMBER_PORT=() MEMBER_PID=() MEMBER_ID=() MEMBER_VOL=()
declare -a MEMBER_HOSTS=${MEMBER_HOSTS:-()} IN_NS=${IN_NS:-()}
MEMBERS=${REPLICA%a}
AFR_OPTIONS=${AFR_OPTIONS:-}
COORDINATOR_OPTIONS=${COORDINATOR_OPTIONS:-"option sync-interval 1s"}
BRICK_TOP=${BRICK_TOP:-} # a translator (KIND/NAME) between features/access and storage, such as debug/error-gen
MEMBER_OPTIONS=${MEMBER_OPTIONS:-} # of features/replica
SERVER_OPTIONS=${SERVER_OPTIONS:-} # of protocol/server
CLIENT_MAX_WAIT=${CLIENT_MAX_WAIT:-5s}

member_host() { echo "${MEMBER_HOSTS[$1]:-127.0.0.1}"; }

# write_member_volfile NUMBER
write_member_volfile() {
	local i=$1 below=locks
	{
		printf 'volume posix\n    type storage/posix\n    option directory %s\n    option volume-id %s\n' "${MEMBER_BRICK[i]}" "$VOLUME_ID"
		printf '    option brick-id %s\nend-volume\n\n' "${MEMBER_ID[i]}"
		if [ -n "$BRICK_TOP" ]; then
			printf 'volume extra\n    type %s\n    subvolumes posix\nend-volume\n\n' "$BRICK_TOP"
			below=extra
		else
			below=posix
		fi
		printf 'volume locks\n    type features/locks\n    option state-dir %s/locks%s\n    subvolumes %s\nend-volume\n\n' "$STACK" "$i" "$below"
		printf 'volume access\n    type features/access\n    subvolumes locks\nend-volume\n\n'
		printf 'volume member\n    type features/replica\n    option member %s\n    option state-dir %s/.stratus/replica\n' "$i" "${MEMBER_BRICK[i]}"
		[ -z "$MEMBER_OPTIONS" ] || printf '    %s\n' "$MEMBER_OPTIONS"
		printf '    option secret-file %s/secret\n    subvolumes access\nend-volume\n\n' "$STACK"
		printf 'volume server\n    type protocol/server\n    option listen %s:%s\n' "$(member_host "$i")" "${MEMBER_PORT[i]}"
		[ -z "$SERVER_OPTIONS" ] || printf '    %s\n' "$SERVER_OPTIONS"
		printf '    subvolumes member\nend-volume\n'
	} >"${MEMBER_VOL[i]}"
	mkdir -p "$STACK/locks$i"
}
print_members() { # "NAME VALUE" options of protocol/client...
	local i option
	for ((i = 0; i < MEMBERS; i++)); do
		printf 'volume client%s\n    type protocol/client\n    option remote-host %s\n    option remote-port %s\n' "$i" "$(member_host "$i")" "${MEMBER_PORT[i]}"
		printf '    option remote-subvolume member\n    option volume-id %s\n    option brick-id %s\n' "$VOLUME_ID" "${MEMBER_ID[i]}"
		printf '    option max-wait %s\n    option wait-for-brick on\n' "$CLIENT_MAX_WAIT"
		for option; do
			[ "${option#+}" != "$option" ] || printf '    option %s\n' "$option"
		done
		printf 'end-volume\n\n'
	done
}
member_list() { local i; for ((i = 0; i < MEMBERS; i++)); do printf ' client%s' "$i"; done; }
arbiter_option() { [ "$REPLICA" = "$MEMBERS" ] || printf '    option arbiter on\n'; }

# write_replica_client FILE [as write_client_volfile]
write_replica_client() {
	local file=$1 option below=replicate number=0
	shift
	{
		print_members "$@"
		printf 'volume replicate\n    type cluster/afr\n'
		arbiter_option
		[ -z "$AFR_OPTIONS" ] || printf '    %s\n' "$AFR_OPTIONS"
		printf '    subvolumes%s\nend-volume\n\n' "$(member_list)"
		for option; do
			[ "${option#+}" != "$option" ] || continue
			number=$((number + 1))
			printf 'volume extra%s\n    type %s\n    subvolumes %s\nend-volume\n\n' "$number" "${option#+}" "$below"
			below=extra$number
		done
		printf 'volume fuse\n    type mount/fuse\n    subvolumes %s\nend-volume\n' "$below"
	} >"$file.new"
	mv "$file.new" "$file"
}
write_coordinator_volfile() {
	{
		print_members
		printf 'volume coordinator\n    type cluster/coordinator\n    option state-file %s/view\n    option secret-file %s/secret\n' "$STACK" "$STACK"
		arbiter_option
		[ -z "$COORDINATOR_OPTIONS" ] || printf '    %s\n' "$COORDINATOR_OPTIONS"
		printf '    subvolumes%s\nend-volume\n' "$(member_list)"
	} >"$STACK/coordinator.vol"
}

start_member() {
	local i=$1
	mkdir -p "${MEMBER_BRICK[i]}/.stratus"
	${IN_NS[i]:-} "$STRATUSD" --foreground "${MEMBER_VOL[i]}" >>"$STACK/member$i.log" 2>&1 &
	MEMBER_PID[i]=$!
	note "${MEMBER_PID[i]}" "stratusd of member $i"
	wait_until 20 member_listens "$i" || fail "the server of member $i does not listen"
	! gone "${MEMBER_PID[i]}" || fail "the server of member $i has ended at its start"
}
member_listens() { gone "${MEMBER_PID[$1]}" || grep -q "serving" <(tail -n 20 "$STACK/member$1.log"); }
kill_member() {
	kill_hard "${MEMBER_PID[$1]}" "stratusd of member $1"
	: >"$STACK/member$1.log"
}
start_coordinator() {
	${COORDINATOR_NS:-} "$STRATUSD" --foreground "$STACK/coordinator.vol" >>"$STACK/coordinator.log" 2>&1 &
	COORDINATOR_PID=$!
	note "$COORDINATOR_PID" coordinator
}
# member_is NUMBER STATE: out, back or in, by the coordinator.
member_is() { grep -q "^  member $1: $2, " < <("$STRATUS" dump "$COORDINATOR_PID" 2>/dev/null); }
all_in() { local i; for ((i = 0; i < MEMBERS; i++)); do member_is "$i" in || return 1; done; }

start_replicas() {
	local dir=$1 i
	shift
	MNT=$dir/mnt CLIENT_VOL=$dir/client.vol STACK=$dir VOLUME_ID=$(uuid)
	mkdir -p "$MNT"
	head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$dir/secret"
	for ((i = 0; i < MEMBERS; i++)); do
		MEMBER_BRICK[i]=$dir/brick$i
		[ "$i" != 0 ] || MEMBER_BRICK[i]=$dir/brick
		MEMBER_PORT[i]=$(free_port) MEMBER_ID[i]=$(uuid) MEMBER_VOL[i]=$dir/member$i.vol
	done
	BRICK=$dir/brick PORT=${MEMBER_PORT[0]} BRICK_ID=${MEMBER_ID[0]} SERVER_VOL=${MEMBER_VOL[0]}
	for ((i = 0; i < MEMBERS; i++)); do
		write_member_volfile "$i"
		start_member "$i"
	done
	BRICK_PID=${MEMBER_PID[0]}
	write_coordinator_volfile
	start_coordinator
	write_replica_client "$CLIENT_VOL" "$@"
	wait_until 30 all_in || fail "the members do not come together"
	if [ "$ONE_DOWN" = 1 ]; then
		kill_member 1
		wait_until 30 member_is 1 out || fail "a member that was killed is not left out"
	fi
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
}
stop_replicas() {
	local i
	compare_replicas
	stop_process "$COORDINATOR_PID" "the coordinator"
	for ((i = 0; i < MEMBERS; i++)); do
		gone "${MEMBER_PID[i]}" || stop_process "${MEMBER_PID[i]}" "the server of member $i"
	done
}
# Nobody is mounted any more: the members that run come to rest, and then hold the same. A test that has left one dead is not judged.
compare_replicas() {
	local i
	for ((i = 0; i < MEMBERS; i++)); do
		[ "$ONE_DOWN" = 1 ] && [ "$i" = 1 ] && continue
		! gone "${MEMBER_PID[i]}" || { say "member $i is not running: the bricks are not compared"; return 0; }
	done
	wait_until 60 replicas_rest || fail "the members do not come to rest: $("$STRATUS" dump "$COORDINATOR_PID")"
	replicas_equal >"$STACK/differences" || fail "the bricks differ: $(head -n 5 "$STACK/differences")"
	say "the bricks are equal"
}
# All are in, and no change is left that is not known to be everywhere, by the members themselves.
replicas_rest() {
	local i
	for ((i = 0; i < MEMBERS; i++)); do
		[ "$ONE_DOWN" = 1 ] && [ "$i" = 1 ] && continue
		member_is "$i" in && grep -q -x '  unresolved: 0' < <("$STRATUS" dump "${MEMBER_PID[i]}") || return 1
	done
}
# The bricks hold the same, as python sees them from outside; the arbiter is compared without data.
replicas_equal() {
	local i
	for ((i = 1; i < MEMBERS; i++)); do
		[ "$ONE_DOWN" = 1 ] && [ "$i" = 1 ] && continue
		python3 "$TOP/tests/mount/same.py" "${MEMBER_BRICK[0]}" "${MEMBER_BRICK[i]}" \
			$([ "$REPLICA" != "$MEMBERS" ] && [ "$i" = 2 ] && echo --no-data) || return 1
	done
}
