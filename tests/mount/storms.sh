# SPDX-License-Identifier: Apache-2.0
# Sourced, after lib.sh: storms of operations from several mounts on a spread volume, and what must be so after them. SECONDS_EACH: how long one lasts; SEED.

located() { "$STRATUS" ctl "$MNT" dht locate "$1"; }
first_bricks() { local i; for ((i = 0; i < SETS; i++)); do echo "$STACK/brick$((i * MEMBERS))"; done; }
all_anchored() { python3 "$TOP/tests/mount/anchors.py" $(first_bricks) >"$SCRATCH/anchors"; }
anchored() { wait_until 60 all_anchored || fail "not all is ended (SEED=$SEED): $(head -n 8 "$SCRATCH/anchors")"; }
storm() { # MOUNT... [--dies]
	python3 "$TOP/tests/mount/storm.py" "$@" --seed "$SEED" --seconds "$SECONDS_EACH" >"$SCRATCH/storm.log" 2>&1
}
storm_begins() { # [--dies|--top...]: on $MNT and another mount, in the background
	start_mount "$SCRATCH/other"
	OTHER=$LAST_PID
	storm "$MNT" "$SCRATCH/other" "$@" &
	WRITER=$!
}
storm_ends() {
	wait "$WRITER" || fail "SEED=$SEED: $(cat "$SCRATCH/storm.log")"
	stop_mount "$SCRATCH/other" "$OTHER"
}
comes_back() { # what was down is in its replica set again
	[ "$MEMBERS" = 1 ] || wait_until 120 all_in || fail "SEED=$SEED: $1 does not come back: $("$STRATUS" heal status --stratusd "$COORDINATOR_PID")"
}
checked() { # what was found comes first, in one line, and then what the bricks have of it: often only a part of what is printed is kept
	local found="$SCRATCH/found"
	python3 "$TOP/tests/mount/storm.py" "$MNT" --seed "$SEED" --seconds 0 >"$found" 2>&1 || {
		python3 "$TOP/tests/mount/objects.py" "$STACK"/brick* <"$found" >"$SCRATCH/objects" 2>&1 || true
		fail "after the storm (SEED=$SEED): $(paste -sd '|' "$found" | cut -c 1-1000)"$'\n'"$(head -n 20 "$SCRATCH/objects" | cut -c 1-400)"
	}
	cat "$found"
}
stack() { # SPREAD REPLICA [OPTION...]
	SPREAD=$1 REPLICA=$2
	shift 2
	. "$TOP/tests/mount/spread.sh"
	say "seed $SEED"
	start_stack "$SCRATCH" "${@:-cluster/dht:sweep-interval 50ms}"
}

# Of what the other mount removes while it is used, perhaps once in a storm: the kernel looks again then.
few_stale() { [ "$(facts "$MNT" | sed -n 's/^  answered ESTALE: //p')" -lt 20 ]; }
calm() { # after it
	anchored
	checked
	few_stale || fail "ESTALE is not the kernel's alone (SEED=$SEED): $(facts "$MNT" | grep ESTALE)"
	say "$(head -n 1 "$SCRATCH/anchors"); $(tail -n 1 "$SCRATCH/storm.log")"
}

whole() { # nothing is to be put right
	local found
	found=$("$STRATUS" fsck "$CLIENT_VOL" 2>&1) || fail "SEED=$SEED: fsck finds something: $found"
	say "$found"
}

# ---- a volume that grows meanwhile ----

# Who was killed in a change of a set is given up soon.
mortal_stack() { # SPREAD REPLICA
	local -a options=("cluster/dht:sweep-interval 50ms" "features/layout:reopen-time 1s")
	[ "$2" = 1 ] || options+=("protocol/server:session-timeout 3s" "features/replica:token-timeout 2s")
	stack "$@" "${options[@]}"
}
growing_stack() { BEGAN_WITH=$(($1 - 1)) mortal_stack "$@"; } # the last subvolume has no names yet
start_mover() {
	MOVERS=$((${MOVERS:-0} + 1))
	start_mount "$SCRATCH/mover$MOVERS"
	MOVER_PID=$LAST_PID
	timeout 300 "$STRATUS" ctl "$SCRATCH/mover$MOVERS" dht rebalance start || fail "SEED=$SEED: the rebalance can't be begun"
}
kill_mover() {
	kill_hard "$MOVER_PID" "the mover's mount"
	umount -l "$SCRATCH/mover$MOVERS"
}
rebalance_says() { "$STRATUS" ctl "$SCRATCH/mover$MOVERS" dht rebalance status; }
rebalanced() { rebalance_says | grep -q 'state done'; }
located_last() { sed -n '/type cluster\/dht/,/end-volume/s/^ *subvolumes .* //p' "$CLIENT_VOL"; }
of_entry() { # NAME of the root: what all bricks have of it
	local i bricks=()
	for ((i = 0; i < BRICKS; i++)); do bricks+=("$STACK/brick$i"); done
	python3 "$TOP/tests/mount/entry.py" "$MEMBERS" "$1" "${bricks[@]}"
}
# all_belong BRICK SUBVOLUME: by the newest layout each name in the brick's root is that subvolume's. What is not is told with all that the bricks have of it.
all_belong() {
	local path name said
	[ -n "$(ls "$1")" ] || fail "SEED=$SEED: the new brick has no names"
	for path in "$1"/*; do
		name=$(basename "$path")
		said=$(located "$name" 2>&1) || fail "SEED=$SEED: where $path belongs is not told: $said"$'\n'"$(of_entry "$name")"
		[ "$said" = "$2" ] || fail "SEED=$SEED: $path does not belong there, but to $said"$'\n'"$(of_entry "$name")"
	done
	grep -q ': file .*gfid\|: directory .*gfid' <<<"$(of_entry "$name")" || fail "what there is of a name is not told: $(of_entry "$name")"
}
has_grown() { # the storm is over: all has come to its end, and what is at the new subvolume belongs there
	wait_until 60 rebalanced || fail "SEED=$SEED: the rebalance does not end: $(rebalance_says)"
	say "$(rebalance_says | tr '\n' ' ')"
	stop_mount "$SCRATCH/mover$MOVERS" "$MOVER_PID"
	calm
	all_belong "$(first_bricks | tail -n 1)" "$(located_last)"
	whole
}

# ---- a volume that shrinks meanwhile ----

leaving_stack() { # SPREAD REPLICA: one is to leave, and has its part of the names at first
	LEAVING=$((RANDOM % $1))
	mortal_stack "$@"
	say "subvolume $LEAVING of $1 leaves"
}
# What nobody uses meanwhile, and what must be there afterwards.
keepsakes() { # make|check MOUNT
	python3 - "$@" <<-'END' || fail "SEED=$SEED: what was kept is not as it was on $2: see above"
	import os, stat, sys
	what, top = sys.argv[1:]
	for i in range(12):
	    d = f"{top}/kept{i}"
	    if what == "make":
	        os.makedirs(f"{d}/below")
	        os.mkfifo(f"{top}/keptfifo{i}", 0o640)
	    for n, path in enumerate([f"{top}/keptfile{i}", f"{d}/file", f"{d}/below/file"]):
	        link, again = f"{path}-link", [f"{path}-again", f"{top}/kept-{n}-{i}"]
	        if what == "make":
	            open(path, "w").write(f"kept {i}")
	            os.symlink(f"to {i}", link)
	            for name in again:
	                os.link(path, name)
	            continue
	        for name in [path, *again]:
	            assert open(name).read() == f"kept {i}" and os.stat(name).st_nlink == 3 and os.path.samefile(name, path), (name, os.stat(name))
	        assert os.readlink(link) == f"to {i}" and os.lstat(link).st_nlink == 1, link
	    if what == "check":
	        assert sorted(os.listdir(d)) == ["below", "file", "file-again", "file-link"], os.listdir(d)
	        assert sorted(os.listdir(f"{d}/below")) == ["file", "file-again", "file-link"], os.listdir(f"{d}/below")
	        assert stat.S_IMODE(os.stat(f"{top}/keptfifo{i}").st_mode) == 0o640 and stat.S_ISFIFO(os.stat(f"{top}/keptfifo{i}").st_mode)
	assert what == "make" or sum(n.startswith("kept") for n in os.listdir(top)) == 96, sorted(os.listdir(top))
	END
}
leaving_bricks() { local i; for ((i = LEAVING * MEMBERS; i < LEAVING * MEMBERS + MEMBERS; i++)); do echo "$STACK/brick$i"; done; }
stuck_there() { # its directories, where else they are, and what they say
	local d
	find $(leaving_bricks) -path '*/away/*' -name 'd.*' | while read -r d; do
		find "$STACK"/brick* -name "$(basename "$d")" -exec getfattr -d -m trusted.dht -e hex --absolute-names {} + -exec ls -A {} +
		find "$STACK"/brick*/.stratus.dht/work ! -type d
	done
}
left_there() { find $(leaving_bricks) ! -type d ! -path '*/.stratus/*'; }
mount_without() { # it, as a client that comes when it is out
	local gone=$(leaving_bricks | paste -sd '|') spec=$STACK/without/spec.yaml
	mkdir -p "$STACK/without"
	if [ "$LEAVING" = $((SETS - 1)) ]; then
		grep -vE "directory: ($gone)," "$STACK/spec.yaml"
	else
		sed -E "s#^  - .*directory: ($gone),.*#  - gone: true#; s/^id: .*/&\nbegan-with: $((SETS - 1 - LEAVING))\nbegan-at: $((LEAVING + 1))/" "$STACK/spec.yaml"
	fi | sed -E "/^leaving/d$([ "$MEMBERS" != 1 ] || echo "; /^  s$LEAVING:/d")" >"$spec"
	"$STRATUS" volgen "$spec" --out "$STACK/without" --state "$STACK" >/dev/null || fail "no volume file without it"
	start_mount "$SCRATCH/without" "$STACK/without/client-v.vol"
	WITHOUT_PID=$LAST_PID
}
has_shrunk() { # the storm is over: all has gone from it, and nothing is lost
	wait_until 90 rebalanced || fail "SEED=$SEED: it does not get empty: $(rebalance_says; stuck_there)"
	say "$(rebalance_says | tr '\n' ' ')"
	stop_mount "$SCRATCH/mover$MOVERS" "$MOVER_PID"
	[ -z "$(left_there)" ] || fail "SEED=$SEED: something was left behind: $(left_there)"
	whole
	mount_without
	keepsakes check "$MNT"
	keepsakes check "$SCRATCH/without"
	rm -r "$SCRATCH"/without/kept* || fail "SEED=$SEED: what was moved can't be removed"
	checked
	stop_mount "$SCRATCH/without" "$WITHOUT_PID"
	say "$(tail -n 1 "$SCRATCH/storm.log")"
}

# ---- what happens; in sets one server at a time, so that a quorum lives ----

pause() { sleep "$((RANDOM % 2)).$((RANDOM % 10))"; }
mover_dies() {
	kill_mover
	pause
	start_mover
}
server_dies() {
	local number=$((RANDOM % $(servers)))
	say "server $number is killed"
	kill_server "$number"
	pause
	start_server "$number"
	comes_back "server $number"
}
server_stands_still() {
	local number=$((RANDOM % $(servers)))
	say "server $number stands still"
	kill -STOP "${SERVER_PID[number]}"
	pause
	kill -CONT "${SERVER_PID[number]}"
	comes_back "server $number"
}
troubled() { # until the storm is over
	local what=(mover_dies server_dies server_stands_still)
	until gone "$WRITER"; do
		pause
		"${what[RANDOM % 3]}"
	done
}

# ---- seeded runs of the calling script ----

seeded_runs() { # 3 (20 with LONG=1), of 4 bricks and of 3 sets of 3 in turn; ONE_SEED: that one; RUNS: so many from there on
	local seed shape first=${ONE_SEED:-1} runs=${RUNS:-$([ -n "$ONE_SEED" ] && echo 1 || { [ "$LONG" = 1 ] && echo 20 || echo 3; })}
	LIMIT=$((SECONDS_EACH * 4 + 300))
	for ((seed = first; seed < first + runs; seed++)); do
		shape=$([ $((seed % 2)) = 1 ] && echo 3 3 || echo 4 1)
		SEED=$seed run_one "seed $seed, ${shape/ / x }" "$0" in $shape
	done
	runs_end
}
