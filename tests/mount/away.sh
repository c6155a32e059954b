#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files that are elsewhere than their names: a full subvolume is done without, links lead anywhere, and clients and bricks that die half way
# leave nothing behind.
#
# Arguments are parts to run instead of all: room, storm, storm-client, storm-brick, storm-sets, storm-grow.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
. "$(dirname "$0")/storms.sh"
need_root
need_stack
need mkfs.ext4
need python3
SECONDS_EACH=$([ "$LONG" = 1 ] && echo 120 || echo 8)

name_at() { # SUBVOLUME PREFIX: a name of the root that is there
	local i=0
	until [ "$(located "$2$i")" = "$1" ]; do i=$((i + 1)); done
	echo "$2$i"
}

# ---- a brick without room ----

goes_elsewhere() {
	: >"$dir/probe"
	[ -n "$(ls "$STACK"/brick[123]/.stratus.dht/away/?? 2>/dev/null | grep '^a[.]')" ]
	local status=$?
	rm "$dir/probe"
	return $status
}
room() {
	local dir i told
	scratch
	truncate -s 64M "$SCRATCH/disk"
	mkfs.ext4 -q -m 0 "$SCRATCH/disk"
	mkdir "$SCRATCH/brick0"
	mount -o loop "$SCRATCH/disk" "$SCRATCH/brick0"
	rmdir "$SCRATCH/brick0/lost+found"
	stack 4 1 "cluster/dht:min-free 15"
	dir=$MNT/$(name_at client0 d)
	mkdir "$dir" "$dir/below"
	chmod 777 "$dir" "$dir/below"
	head -c 48M /dev/zero >"$dir/filler" || fail "there is no room for what fills the brick" # of 54.7; it keeps 8.2
	wait_until 10 goes_elsewhere || fail "the brick is full, and files are made there"
	for ((i = 0; i < 40; i++)); do head -c 4M /dev/zero | tr '\0' x >"$dir/below/f$i" || fail "no room for f$i, and three bricks have much"; done
	[ "$(find "$dir" -type f -size 4M | wc -l)" = 40 ] || fail "not all files are whole"
	[ "$(cat "$dir"/below/* | tr -d x | wc -c)" = 0 ] || fail "files have other data"
	[ "$(ls "$dir/below" | wc -l)" = 40 ] && [ "$(find "$dir/below" -links 1 -type f | wc -l)" = 40 ] || fail "the list"
	anchored
	[ "$(sed -n 's/ pointers//p' "$SCRATCH/anchors")" -ge 40 ] || fail "$(cat "$SCRATCH/anchors"), and there was no room for any file"
	[ "$(df --output=pcent "$SCRATCH/brick0" | tail -n 1 | tr -dc 0-9)" -lt 100 ] || fail "the brick is quite full"
	# no room at all: a file that grows has taken it
	! cat /dev/zero >>"$dir/filler" 2>/dev/null || fail "the brick takes all that is written"
	for ((i = 0; i < 20; i++)); do echo "$i" >"$dir/late$i" || fail "late$i can't be made: the brick is full"; done
	ln "$dir/late1" "$dir/late-link" && mv "$dir/late2" "$dir/late-moved" || fail "names on a full brick"
	[ "$(cat "$dir/late7")" = 7 ] && [ "$(cat "$dir/late-link")" = 1 ] || fail "a file of a full brick"
	truncate -s 48M "$dir/filler"
	told=$("$STRATUS" locate --json "$dir/below/f3" | json "d[0]['subvolumes'][0]['bricks'][0]['directory'] + d[0]['subvolumes'][0]['bricks'][0]['paths'][0]")
	cmp "$told" "$dir/below/f3" || fail "locate tells $told"
	case $told in "$SCRATCH"/brick[123]/*) ;; *) fail "locate tells $told" ;; esac
	"$STRATUS" locate "$dir/below/f3" | grep -q 'its name is elsewhere' || fail "locate does not tell why"
	# a user's, in a directory that gives its group, and in one that is sticky
	chown 0:4321 "$dir"
	chmod 3777 "$dir"
	setpriv --reuid 1001 --regid 1001 --clear-groups bash -c "echo own >$dir/mine && chmod 600 $dir/mine" || fail "a user can't make a file there"
	[ "$(stat -c '%u %g %a' "$dir/mine")" = "1001 4321 600" ] || fail "made as $(stat -c '%u %g %a' "$dir/mine")"
	! setpriv --reuid 1002 --regid 1002 --clear-groups bash -c "rm -f $dir/mine || cat $dir/mine" 2>/dev/null || fail "another user reads or removes it"
	setpriv --reuid 1001 --regid 1001 --clear-groups mv "$dir/mine" "$dir/still-mine" || fail "its owner can't rename it"
	[ "$(cat "$dir/still-mine")" = own ] || fail "it says something else"
	setpriv --reuid 1001 --regid 1001 --clear-groups rm -f "$dir/still-mine" || fail "its owner can't remove it"
	! setpriv --reuid 1002 --regid 1002 --clear-groups bash -c "chmod 755 $dir; : >$dir/../no" 2>/dev/null || fail "a user makes names where he may not"
	setfacl -d -m u:1003:rw "$dir" # such a directory makes its files itself
	echo text >"$dir/with-acl" || fail "no file in a directory with a default ACL"
	getfacl -cnp "$dir/with-acl" | grep -q '^user:1003:rw' || fail "the ACL is not handed on"
	setfacl -k "$dir"
	# an old copy is written over, and a database of its own works
	python3 - "$dir" <<-'END' || fail "sqlite in a directory of a full brick"
	import sqlite3, sys
	db = sqlite3.connect(f"{sys.argv[1]}/db")
	db.execute("create table t (a)")
	for i in range(200):
	    db.execute("insert into t values (?)", (i,))
	    db.commit()
	assert db.execute("select count(*) from t").fetchone()[0] == 200
	END
	rm -rf "$dir"
	[ -z "$(ls -A "$MNT")" ] || fail "the root is not empty: $(ls -A "$MNT")"
	anchored
	[ "$(sed -n 's/ pointers//p' "$SCRATCH/anchors")" = 0 ] || fail "$(cat "$SCRATCH/anchors") after all was removed"
	[ "$(du -sm "$SCRATCH"/brick[123] | awk '{n += $1} END {print n}')" -lt 8 ] || fail "the room is not given back"
	stop_stack
	pass
}

# ---- storms ----

part_storm() {
	scratch
	stack 4 1
	storm_begins
	storm_ends
	calm
	stop_stack
	pass
}

part_storm_client() {
	local other killer status i
	scratch
	stack 4 1
	for ((i = 0; i < 3; i++)); do
		start_mount "$SCRATCH/other$i"
		other=$LAST_PID
		(sleep $((SECONDS_EACH / 2)); kill -9 "$other") &
		killer=$!
		storm "$MNT" "$SCRATCH/other$i" --dies || fail "SEED=$SEED: $(cat "$SCRATCH/storm.log")"
		wait "$killer" || fail "the mount had ended before it was killed"
		status=0
		wait "$other" 2>/dev/null || status=$?
		[ "$status" = 137 ] || fail "the mount ended with $status, not by the kill"
		unset "PIDS[$other]"
		umount -l "$SCRATCH/other$i"
		calm
		SEED=$((SEED + 1))
	done
	stop_stack
	pass
}

# Each brick in turn, while requests wait for it.
part_storm_brick() {
	local i
	scratch
	stack 4 1
	storm_begins
	for ((i = 0; i < 8; i++)); do
		sleep $((SECONDS_EACH / 8))
		kill_server $((i % 4))
		start_server $((i % 4))
	done
	storm_ends
	calm
	stop_stack
	pass
}

part_storm_sets() {
	scratch
	stack 2 3
	storm_begins
	sleep $((SECONDS_EACH / 4))
	kill_server 1
	sleep $((SECONDS_EACH / 2))
	start_server 1
	storm_ends
	comes_back "server 1"
	calm
	stop_stack # compares the members
	pass
}

# A subvolume gets its part of the names meanwhile, by one who is killed over it, again and again. (tests/fault/grow.sh kills servers, too.)
part_storm_grow() {
	local i
	scratch
	growing_stack 3 2
	storm_begins --top
	sleep $((SECONDS_EACH / 4))
	for ((i = 0; i < 4; i++)); do
		[ "$i" = 0 ] || kill_mover
		start_mover
		sleep "0.$((RANDOM % 6))"
	done
	storm_ends
	has_grown
	stop_stack
	pass
}

part() { run_one "$1" "$0" "in-$1"; }
LIMIT=$((SECONDS_EACH * 4 + 240))
case ${1-} in
in-room) room ;;
in-storm) part_storm ;;
in-storm-client) part_storm_client ;;
in-storm-brick) part_storm_brick ;;
in-storm-sets) part_storm_sets ;;
in-storm-grow) part_storm_grow ;;
esac
for part in "${@:-room}"; do part "$part"; done
[ $# -gt 0 ] || for part in storm storm-client storm-brick storm-sets storm-grow; do part "$part"; done
runs_end
