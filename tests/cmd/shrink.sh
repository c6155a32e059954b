#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume gives up a subvolume, the first, one in the middle or the last, while it is mounted: all files are there all the time, by all their names, on the mount that stays,
# on one that stood still meanwhile and on a new one, what is open stays open, also if the server is killed in the middle of it; and the bricks are taken out only when nothing is
# left there. The others keep their numbers; what is added then takes the number that is free, and gets its part of the names.
#
# Arguments are volumes to begin with instead of all, as BRICKS:REPLICA:NUMBER of who leaves.
# limit: 1300 s
. "$(dirname "$0")/moving.sh"

fill() { # MOUNT FROM TO: files, links to them, and directories with directories, files, links and fifos
	python3 - "$@" <<-'END'
	import os, sys
	top, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	for i in range(first, last):
	    open(f"{top}/file{i}", "w").write(f"this is {i}")
	    os.symlink(f"file{i}", f"{top}/link{i}")
	    if i % 4 == 0:
	        os.makedirs(f"{top}/dir{i}/below")
	        os.chmod(f"{top}/dir{i}", 0o750)
	        os.setxattr(f"{top}/dir{i}", "user.number", str(i).encode())
	        os.symlink(f"../../file{i}", f"{top}/dir{i}/below/link")
	        os.mkfifo(f"{top}/dir{i}/below/fifo", 0o640)
	        for k in range(3):
	            open(f"{top}/dir{i}/below/file{k}", "w").write(f"this is {i}")
	        os.link(f"{top}/file{i}", f"{top}/name{i}")
	        os.link(f"{top}/file{i}", f"{top}/dir{i}/below/name")
	        os.link(f"{top}/dir{i}/below/file0", f"{top}/dir{i}/name")
	END
}
is_whole() { # MOUNT COUNT
	local said
	said=$(python3 - "$@" 2>&1 <<-'END'
	import os, sys, time
	top, count = sys.argv[1], int(sys.argv[2])
	def counted(name, names): # one more while a name is led to where the file went, or until that is ended for who was killed
	    end = time.monotonic() + 60
	    while (links := os.stat(name).st_nlink) == names + 1 and time.monotonic() < end:
	        time.sleep(0.05)
	    return links == names
	want = sorted([f"{what}{i}" for what in ("file", "link") for i in range(count)] + [f"dir{i}" for i in range(0, count, 4)])
	have = sorted(n for n in os.listdir(top) if n.startswith(("file", "link", "dir")))
	assert have == want, (sorted(set(want) ^ set(have)), len(have), len(want))
	for i in range(count):
	    with open(f"{top}/link{i}") as f:
	        assert f.read() == f"this is {i}", i
	    if i % 4 == 0:
	        d = f"{top}/dir{i}"
	        assert os.stat(d).st_mode & 0o7777 == 0o750, d
	        assert os.getxattr(d, "user.number") == str(i).encode(), d
	        assert sorted(os.listdir(d)) == ["below", "name"], (d, os.listdir(d))
	        assert sorted(os.listdir(f"{d}/below")) == ["fifo", "file0", "file1", "file2", "link", "name"], (d, os.listdir(f"{d}/below"))
	        for names in [f"{top}/file{i}", f"{top}/name{i}", f"{d}/below/name"], [f"{d}/below/file0", f"{d}/name"]:
	            for name in names:
	                assert os.path.samefile(names[0], name) and counted(name, len(names)), (name, os.stat(name))
	                with open(name) as f:
	                    assert f.read() == f"this is {i}", name
	        assert os.readlink(f"{d}/below/link") == f"../../file{i}", d
	        assert os.stat(f"{d}/below/fifo").st_mode == 0o10640, d
	        for k in range(3):
	            with open(f"{d}/below/file{k}") as f:
	                assert f.read() == f"this is {i}", (d, k)
	END
	) || fail "not all is there on $1: $said"
}
keeps_open() { # files that are open write and read on, and say at last that they have
	python3 - "$SCRATCH/stays" "$SCRATCH/close" "$SCRATCH/closed" <<-'END' >"$SCRATCH/open.log" 2>&1 &
	import os, sys, time
	top, close, closed = sys.argv[1:]
	files = [open(f"{top}/open{i}", "w+b", buffering=0) for i in range(8)]
	n = 0
	while not os.path.exists(close):
	    for f in files:
	        f.write(b"%08d" % n)
	        assert os.pread(f.fileno(), 8, 8 * n) == b"%08d" % n
	    n += 1
	    time.sleep(0.05)
	for i, f in enumerate(files):
	    f.close()
	    assert open(f"{top}/open{i}", "rb").read() == b"".join(b"%08d" % k for k in range(n)), i
	open(closed, "w").close()
	END
	OPEN=$!
	note "$OPEN" "who has files open"
	wait_until 10 test -e "$SCRATCH/stays/open7"
}
kept_open() {
	: >"$SCRATCH/close"
	wait_until 60 gone "$OPEN" || fail "who has files open does not end"
	unset "PIDS[$OPEN]"
	[ -e "$SCRATCH/closed" ] || fail "an open file did not stay open: $(cat "$SCRATCH/open.log")"
	rm "$SCRATCH/close" "$SCRATCH/closed" "$SCRATCH"/stays/open*
}
left_there() { # BRICK: files and names on it, but for what bricks keep for themselves, and directories that are empty
	find "$SCRATCH/b$1" -mindepth 1 ! -type d ! -path "$SCRATCH/b$1/.stratus/*" | wc -l
}

refusals() { # FIRST: the brick with which begins what leaves
	local last=$((BEGAN * REPLICATED - REPLICATED)) says=$(($1 / REPLICATED))
	[ "$1" != "$last" ] || says=true # as older servers read it
	[ "$BEGAN" = 2 ] || refused "at a time, and these are of 2" brick remove v $(bricks 0 $((2 * REPLICATED)))
	[ "$REPLICATED" = 1 ] || refused "brick0 to brick$((REPLICATED - 1)) of volume v are one" brick remove v brick0
	refused "has no other bricks" brick remove v $(bricks 0 $((BEGAN * REPLICATED)))
	refused "has no brick" brick remove v brick77
	refused "nothing to cancel" brick remove --cancel v
	"$STRATUS" brick remove --dry-run v $(bricks "$1" "$REPLICATED") >"$SCRATCH/out" || fail "dry-run: $(cat "$SCRATCH/out")"
	grep -q "+leaving: $says" "$SCRATCH/out" && grep -q 'nothing was changed' "$SCRATCH/out" || fail "dry-run: $(cat "$SCRATCH/out")"
	! "$STRATUS" volume info v | grep leaving || fail "a dry run changes something"
}
taken_back() { # FIRST COUNT
	"$STRATUS" brick remove v $(bricks "$1" "$REPLICATED") >"$SCRATCH/out" || fail "brick remove: $(cat "$SCRATCH/out")"
	grep -q 'stratus rebalance status v' "$SCRATCH/out" || fail "the next step is not told: $(cat "$SCRATCH/out")"
	wait_until 60 says 'is being emptied' "$STRATUS" rebalance status v || fail "status: $("$STRATUS" rebalance status v)"
	refused "are leaving it" brick add v $(bricks 90 "$REPLICATED")
	refused "are leaving it" brick remove v $(bricks $((($1 + REPLICATED) % (BEGAN * REPLICATED))) "$REPLICATED")
	"$STRATUS" brick remove --cancel v >"$SCRATCH/out" || fail "it can't be taken back: $(cat "$SCRATCH/out")"
	timeout 300 "$STRATUS" rebalance start --wait v >"$SCRATCH/out" || fail "it does not get its names again: $(cat "$SCRATCH/out"; "$STRATUS" rebalance status v)"
	[ "$(subvolumes)" = "$BEGAN" ] || fail "it went, though it was to stay"
	is_whole "$SCRATCH/stays" "$2"
}
# All but what is open has gone: what was moved and is open still, or would be moved again. That holds it up, unless the client opened it at its
# new place when the server came back.
only_open() {
	[ "$(told 'd.get("stays-open", 0) + d.get("skipped-recent", 0) > 0 and not d["stays-directories"] + d["stays-names"] and d["stays-files"] <= d.get("skipped-recent", 0)')" = True ]
}
only_open_or_out() { only_open || is_out; }
is_out() { [ "$(subvolumes)" = $((BEGAN - 1)) ] && [ "$(told 'd["state"]')" = "done" ]; }
goes() { # FIRST
	local moved
	"$STRATUS" brick remove v $(bricks "$1" "$REPLICATED") >"$SCRATCH/out" || fail "brick remove: $(cat "$SCRATCH/out")"
	moves() { moved=$(told 'd.get("moved", 0)') && [ "$moved" -gt 0 ]; }
	wait_until 60 moves || fail "nothing is moved: $("$STRATUS" rebalance status v)"
	say "killed when $(told 'd["state"], d.get("step"), d.get("moved"), d.get("files")')"
	kill_keeper
	start_keeper
	say "goes on: $("$STRATUS" rebalance status v)"
	wait_until 100 only_open_or_out || fail "more than what is open holds it up: $("$STRATUS" rebalance status v)"
	kept_open
	wait_until 200 is_out || fail "it does not leave: $("$STRATUS" rebalance status v; "$STRATUS" rebalance status v --json)"
	# The store says first that all is done, and then that the volume has no such bricks.
	wait_until 60 is_gone "$1" || fail "it is there still: $("$STRATUS" volume info v)"
}
is_gone() { # FIRST
	! "$STRATUS" volume info v >"$SCRATCH/info" || ! grep -qE "leaving|/b$1\"" "$SCRATCH/info"
}
places() { # those of bricks that have left, and the names of those that are there
	echo "$("$STRATUS" volume info v | grep -c 'gone: true') $("$STRATUS" status --json | json '" ".join(b["name"] for b in d["volumes"][0]["bricks"])')"
}
keep_numbers() { # FIRST
	local i want=0 last=$((BEGAN * REPLICATED - REPLICATED))
	[ "$1" = "$last" ] || want=$REPLICATED
	for ((i = 0; i < BEGAN * REPLICATED; i++)); do [ $((i / REPLICATED)) = $(($1 / REPLICATED)) ] || want="$want brick$i"; done
	[ "$(places)" = "$want" ] || fail "not the same bricks are left: $(places), not $want"
}
comes_again() { # FIRST COUNT: others take its number, of which the first go again at once, for they get no names
	"$STRATUS" brick add v $(bricks 80 "$REPLICATED") >"$SCRATCH/out" || fail "brick add: $(cat "$SCRATCH/out")"
	"$STRATUS" brick remove v $(bricks 80 "$REPLICATED") >"$SCRATCH/out" || fail "what has no names can't be taken back: $(cat "$SCRATCH/out")"
	keep_numbers "$1"
	"$STRATUS" brick add v $(bricks 70 "$REPLICATED") >"$SCRATCH/out" || fail "brick add: $(cat "$SCRATCH/out")"
	wait_until 30 all_in || fail "the new set is not whole: $("$STRATUS" status)"
	[ "$("$STRATUS" status --json | json 'd["volumes"][0]["bricks"]['"$1"']["directory"]')" = "$SCRATCH/b70" ] || fail "it has another number: $("$STRATUS" status)"
	refused "are still to move to what was added last" brick remove v $(bricks $((($1 + REPLICATED) % (BEGAN * REPLICATED))) "$REPLICATED")
	timeout 300 "$STRATUS" rebalance start --wait v >"$SCRATCH/out" || fail "it gets no names: $(cat "$SCRATCH/out"; "$STRATUS" rebalance status v)"
	is_whole "$SCRATCH/stays" "$2"
	is_whole "$SCRATCH/fresh" "$2"
	[ "$(find "$SCRATCH/b70" -mindepth 1 -maxdepth 1 ! -name '.stratus*' | wc -l)" -gt 0 ] || fail "it has no names"
}

wakes() { kill -CONT "$SLEEPER" 2>/dev/null || true; } # else nobody can unmount it
on_volume() { # BRICKS REPLICA NUMBER
	local count=80 first=$(($3 * $2)) i
	begin_volume "$1" "$2"
	# else what is left of moved files waits half a minute for clients that come back, each time the server is killed
	"$STRATUS" volume set v features/layout reopen-time 2s >/dev/null
	"$STRATUS" volume set v cluster/dht sweep-interval 1s >/dev/null
	mount_at stays
	mount_at sleeps
	fill "$SCRATCH/stays" 0 $count
	is_whole "$SCRATCH/sleeps" $count
	refusals "$first"
	keeps_whole $count
	keeps_open
	taken_back "$first" $count
	kept_open # what was moved while it was open is not moved again until it is closed, and would hold up more than itself
	keeps_open
	SLEEPER=$(cat "$SCRATCH/sleeps.pid")
	AT_EXIT=wakes
	kill -STOP "$SLEEPER"
	goes "$first"
	kept_whole
	is_whole "$SCRATCH/stays" $count
	wakes
	is_whole "$SCRATCH/sleeps" $count
	keep_numbers "$first"
	for ((i = first; i < first + $2; i++)); do
		[ "$(left_there $i)" = 0 ] || fail "something was left behind: $(find "$SCRATCH/b$i" ! -type d ! -path "*/.stratus/*")"
	done
	mount_at fresh
	is_whole "$SCRATCH/fresh" $count
	fill "$SCRATCH/fresh" $count $((count + 20))
	is_whole "$SCRATCH/stays" $((count + 20))
	comes_again "$first" $((count + 20))
	rm -r "$SCRATCH"/fresh/dir*
	[ "$(ls "$SCRATCH/stays" | grep -c ^dir)" = 0 ] || fail "what was moved can't be removed"
	fsck_is_clean
	pass
}

case ${1-} in
on) on_volume "$2" "$3" "$4" ;;
esac
LIMIT=600
# With sets it takes minutes on few CPUs, for those who read all files all the time keep what was moved from being moved again.
[ $# != 0 ] || if [ "$LONG" = 1 ]; then set -- 2:1:1 3:1:1 2:1:0 6:2:1; else set -- 2:1:0 3:1:1; fi
for volume; do
	IFS=: read -r bricks replica number <<<"$volume"
	run_one "$bricks bricks, replica $replica, number $number leaves" "$0" on "$bricks" "$replica" "$number"
done
runs_end
