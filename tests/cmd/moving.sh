# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of a volume v that gets or loses a subvolume while it is mounted: REPLICATED members each, BEGAN of them. is_whole MOUNT COUNT is the test's own.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
. "$(dirname "$0")/../mount/runs.sh"
need_root
need_stack
need python3

mount_at() { # NAME
	mkdir -p "$SCRATCH/$1"
	MOUNTS+=("$SCRATCH/$1")
	"$STRATUS" mount --log "$SCRATCH/$1.log" --pid-file "$SCRATCH/$1.pid" 127.0.0.1:"$HTTP":/v "$SCRATCH/$1"
	note "$(cat "$SCRATCH/$1.pid")" "mount $1"
}
told() { "$STRATUS" rebalance status v --json | json "$1"; }
subvolumes() { told 'd["subvolumes"]'; }
bricks() { # FIRST COUNT [SERVER]: as the verbs take them
	local i
	for ((i = $1; i < $1 + $2; i++)); do echo "${3:-alpha}:$SCRATCH/b$i"; done
}
all_in() { # of a volume with replicas: each member of each set
	[ "$REPLICATED" = 1 ] || [ "$("$STRATUS" status --json | json 'all(m["state"] == "in" for v in d["volumes"] for s in v.get("sets", [v.get("set")]) for m in s["members"])')" = True ]
}
keeps_whole() { # COUNT: in the background, until the file $SCRATCH/enough is there
	(
		until [ -e "$SCRATCH/enough" ]; do is_whole "$SCRATCH/stays" "$1"; done
	) >"$SCRATCH/looks.log" 2>&1 &
	LOOKS=$!
	note "$LOOKS" "who looks"
}
kept_whole() {
	: >"$SCRATCH/enough"
	wait_until 200 gone "$LOOKS" || fail "who looks does not end: $(cat "$SCRATCH/looks.log")" # he may wait a minute for a link that is one too many (is_whole)
	wait "$LOOKS" || fail "something was not there for a while: $(cat "$SCRATCH/looks.log")"
	unset "PIDS[$LOOKS]"
	rm "$SCRATCH/enough"
}
# What was killed in the middle of a name may have left records, which mounts come upon in minutes; nothing else.
fsck_is_clean() {
	timeout 300 "$STRATUS" fsck --wait 1 --repair 127.0.0.1:"$HTTP":/v >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "fsck: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	! grep ' at .*: ' "$SCRATCH/out" | grep -v '^unended ' || fail "fsck finds what no kill leaves: $(cat "$SCRATCH/out")"
	timeout 300 "$STRATUS" fsck --wait 1 127.0.0.1:"$HTTP":/v >"$SCRATCH/out" 2>"$SCRATCH/err" && grep -q 'nothing is wrong' "$SCRATCH/out" ||
		fail "fsck: $(cat "$SCRATCH/out" "$SCRATCH/err")"
}
begin_volume() { # BRICKS REPLICA
	REPLICATED=$2 BEGAN=$(($1 / $2))
	scratch
	cd "$SCRATCH"
	HTTP=$(free_port)
	start_keeper
	if [ "$2" = 1 ]; then
		"$STRATUS" volume create v --start $(bricks 0 "$1" 127.0.0.1) >/dev/null
	else
		"$STRATUS" volume create v --start --replica "$2" $(bricks 0 "$1" 127.0.0.1) >/dev/null
	fi
	wait_until 30 all_in || fail "the sets are not whole: $("$STRATUS" status)"
}
