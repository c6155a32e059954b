#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus locate` tells the truth: each object is on each brick that is told, at the path that is told, and on no other; also while a brick is
# down. Who asks for what can't be located is told why.
#
# Arguments are stacks to run instead of all, as SPREAD:REPLICA.
# limit: 900 s
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
need_root
need_stack
need python3

refused() { # PATTERN PATH...: nothing but one sentence, with the pattern
	local pattern=$1 status=0
	shift
	timeout 300 "$STRATUS" locate "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	[ "$status" = 1 ] || fail "status $status instead of 1 for $*: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	grep -q -- "$pattern" "$SCRATCH/err" && [ "$(wc -l <"$SCRATCH/err")" = 1 ] && [ ! -s "$SCRATCH/out" ] ||
		fail "'$pattern' is not the sentence of $*: $(cat "$SCRATCH/out" "$SCRATCH/err")"
}

# Compares the answers of all that is on the mount with what is on the bricks. DOWN: numbers of bricks that can't be asked.
check_all() { # DOWN...
	python3 - "$STRATUS" "$MNT" "$STACK" "$BRICKS" "$MEMBERS" "$REPLICA" "$@" <<-'END' || fail "not what is on the bricks"
	import json, os, subprocess, sys
	stratus, top, stack, count, members, replica = sys.argv[1:7]
	count, members, down = int(count), int(members), set(map(int, sys.argv[7:]))
	sets = count // members
	brick = [f"{stack}/brick{i}" for i in range(count)]

	def holders(path):  # by the bricks themselves; what is down is what it was
	    return {i for i in range(count) if os.path.lexists(brick[i] + path)}

	def one(path):
	    done = subprocess.run([stratus, "locate", "--json", top + path], capture_output=True, timeout=60)
	    assert done.returncode == 0 and not done.stderr, done
	    told, = json.loads(done.stdout)
	    assert told["path"] == top + path and told["why"] and "problem" not in told, told
	    return told

	def names_of(path, at):
	    inode = os.lstat(brick[at] + path).st_ino
	    return {"/" + os.path.relpath(os.path.join(d, n), brick[at]) for d, ds, fs in os.walk(brick[at]) if not d.startswith(brick[at] + "/.stratus")
	            for n in ds + fs if os.lstat(os.path.join(d, n)).st_ino == inode} if path else {"/"}

	def check(path):
	    told = one(path)
	    at = set()
	    for s in told["subvolumes"]:
	        assert s["of"] == sets and len(s["bricks"]) == members, told
	        for m, b in enumerate(s["bricks"]):
	            number = int(b["brick"].removeprefix("brick"))
	            assert number == s["subvolume"] * members + m and b["host"] == "127.0.0.1" and b["port"], told
	            assert b["answers"] == b["has_it"] == (number not in down), (down, told)
	            at.add(number)
	            assert b.get("arbiter", False) == (replica == "3a" and m == 2), told
	            if members > 1:
	                assert b["member"] == m and b["state"] in (("in",) if number not in down else ("in", "out")), told
	            if number in down:
	                assert "paths" not in b, told
	                continue
	            assert os.path.samefile(b["directory"], brick[number]), told
	            assert sorted(b["paths"]) == sorted(names_of(path, number)), (b["paths"], names_of(path, number))
	    assert at == holders(path), (path, at, holders(path))
	    if sets == 1:
	        assert "single subvolume" in told["why"], told
	    elif not path:
	        assert len(told["subvolumes"]) == sets and "all subvolumes" in told["why"], told
	    else:
	        s, = told["subvolumes"]
	        assert path.split("/")[1] in [n["name"] for n in s["by_hash"]], told
	        assert all(n["subvolume"] == s["subvolume"] and len(n["hash"]) == 16 for n in s["by_hash"]), told
	        assert s["weights"] == [1] * sets and ("below the top-level directory" in told["why"]) == ("/" in path[1:]), told
	    return told["gfid"]

	gfids, looked = {}, [""]
	for d, ds, fs in os.walk(top):
	    looked += [os.path.join(d, n)[len(top):] for n in ds + fs]
	for path in looked:
	    if not holders(path) <= down:
	        gfids.setdefault(check(path), set()).add(os.lstat(top + path).st_ino)
	assert len(looked) > 10 and all(len(inodes) == 1 for inodes in gfids.values()), gfids
	print(f"{len(looked)} paths on {count} bricks")
	END
}

make_tree() {
	local i
	mkdir -p "$MNT/photos/2024" "$MNT/a b"
	for ((i = 0; i < 20; i++)); do echo "$i" >"$MNT/f$i"; done
	for i in -Kj_WT -n --json --jsno --; do echo "$i" >"$MNT/$i"; done
	echo x >"$MNT/photos/2024/$(printf 'long%.0s' {1..50})"
	echo x >"$MNT/photos/2024/new
line %41 'quoted' \"twice\""
	echo x >"$MNT/a b/c d"
	ln -s nowhere "$MNT/a b/symlink"
	ln -s f1 "$MNT/link to f1"
	echo x >"$MNT/photos/one"
	ln "$MNT/photos/one" "$MNT/photos/2024/two"
}

# In words; a symbolic link is told of itself.
check_words() {
	local out
	out=$("$STRATUS" locate "$MNT/photos/2024" "$MNT/a b/symlink" "$MNT/photos/2024/new"*)
	grep -qx "$MNT/photos/2024" <<<"$out" && grep -q '^ *brick[0-9]* at 127.0.0.1:[0-9]*' <<<"$out" || fail "not told in words: $out"
	grep -qx ' */a b/symlink' <<<"$out" || fail "the link itself is not told: $out"
	# shellcheck disable=SC2016
	grep -qF "\$'/photos/2024/new\\012line %41 \\'quoted\\' \"twice\"'" <<<"$out" || fail "a name with a newline: $out"
	! getfattr -d -m - -h "$MNT/photos" 2>&1 | grep -q location || fail "the attribute is listed"
	! setfattr -n system.stratus.location -v x "$MNT/photos" 2>/dev/null || fail "it can be set"
	(cd "$MNT/photos" && "$STRATUS" locate one . | grep -qx '      /photos/2024/two') || fail "relative paths"
}

# Without rights beyond those to get there: no directories of servers, and no names that may be elsewhere.
check_user() {
	local out
	as_user() { setpriv --reuid 1234 --regid 1234 --clear-groups "$@"; }
	out=$(as_user "$STRATUS" locate "$MNT/photos" "$MNT/a b/symlink") || fail "a user may not ask"
	grep -qx ' */a b/symlink' <<<"$out" && ! grep -q directory\ / <<<"$out" || fail "a user is told: $out"
	out=$(as_user "$STRATUS" locate --json "$MNT/photos/one") || fail "a user may not ask of a file with two names"
	[ "$(json 'd[0]["names"], any("paths" in b for s in d[0]["subvolumes"] for b in s["bricks"])' <<<"$out")" = "2 False" ] ||
		fail "a user is told of other names: $out"
	chmod 700 "$MNT/photos"
	! out=$(as_user "$STRATUS" locate "$MNT/photos/2024" 2>&1) && grep -q "may not look at" <<<"$out" || fail "a user gets below: $out"
	chmod 755 "$MNT/photos"
}

# The subvolume of a name by its hash, whatever it begins with: those of encrypted names begin with anything.
check_owners() {
	local name bricks at subvolumes
	[ "$SETS" != 1 ] || return 0
	read -ra subvolumes <<<"$(sed -n '/type cluster\/dht/,/end-volume/s/^ *subvolumes //p' "$CLIENT_VOL")"
	for name in -Kj_WT -n --json --jsno -- f1; do
		bricks=("$STACK"/brick*/"$name")
		[ "${#bricks[@]}" = "$MEMBERS" ] || fail "$name is on ${bricks[*]}"
		at=$(basename "$(dirname "${bricks[0]}")")
		at=${subvolumes[${at#brick} / MEMBERS]}
		[ "$("$STRATUS" ctl -- "$MNT" dht locate "$name")" = "$at" ] || fail "$name is at $at, and ctl -- tells another subvolume"
		[ "$name" = -- ] || [ "$("$STRATUS" ctl "$MNT" dht locate "$name")" = "$at" ] || fail "$name is at $at, and ctl tells another subvolume"
	done
}

check_refused() {
	refused "there is no .*/nothing" "$MNT/nothing"
	refused "there is no .*/nothing" "$MNT/f1/nothing"
	refused "not on a mount of StratusFS" "$STACK"
	refused "not on a mount of StratusFS" /proc/self/status
	mkdir -p "$STACK/local"
	ln -sfn "$MNT/f1" "$STACK/local/to-f1"
	refused "not on a mount of StratusFS" "$STACK/local/to-f1"
	[ "$("$STRATUS" locate --json "$MNT/f1" "$MNT/nothing" 2>/dev/null | json '["problem" in one for one in d]')" = "[False, True]" ] ||
		fail "of two paths one is missing: $("$STRATUS" locate --json "$MNT/f1" "$MNT/nothing" 2>&1)"
	[ "$("$STRATUS" locate --json "$MNT/nothing" "$MNT/f1" 2>/dev/null | json 'd[1]["path"]')" = "$MNT/f1" ] || fail "a failure ends it"
}

below_a_dead_brick() { # NUMBER
	local i lost=
	for ((i = 0; i < 20; i++)); do [ ! -e "$STACK/brick$1/f$i" ] || lost=f$i; done
	refused "can't reach .*/$lost: brick$1 at 127.0.0.1:[0-9]* does not answer" "$MNT/$lost"
}

on_stack() { # SPREAD REPLICA
	local dead=1 down
	SPREAD=$1 REPLICA=$2
	. "$TOP/tests/mount/spread.sh"
	scratch
	start_spread "$SCRATCH" "max-wait 2s"
	make_tree
	check_all
	check_words
	check_owners
	check_user
	check_refused
	[ "$BRICKS" != 1 ] || dead=0
	kill_server "$dead"
	down=$(seq "$dead" "$(servers)" $((BRICKS - 1)))
	if [ "$MEMBERS" = 1 ]; then
		below_a_dead_brick "$dead"
	else
		# shellcheck disable=SC2086
		check_all $down
	fi
	start_server "$dead"
	[ "$MEMBERS" = 1 ] || wait_until 60 all_in || fail "the bricks do not come back"
	check_back() { ! "$STRATUS" locate "$MNT" | grep 'does not answer'; }
	wait_until 20 check_back || fail "a brick that is back is not told: $("$STRATUS" locate "$MNT")"
	check_all
	kill -9 "$MOUNT_PID"
	wait_until 10 gone "$MOUNT_PID" || fail "the mount outlives its kill"
	wait "$MOUNT_PID" 2>/dev/null && fail "the mount had ended before it was killed"
	unset "PIDS[$MOUNT_PID]"
	refused "the process of its mount has ended" "$MNT/f1"
	umount "$MNT"
	pass
}

case ${1-} in
on) on_stack "$2" "$3" ;;
esac
LIMIT=200
[ $# -gt 0 ] || set -- 4:1 2:3 2:3a 1:1
for stack; do
	IFS=: read -r spread replica <<<"$stack"
	run_one "$spread x $replica" "$0" on "$spread" "$replica"
done
runs_end
