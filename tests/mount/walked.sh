#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names on the way to a file are believed, in whichever set its directories are, and wherever their names are: what is listed or looked at again costs a few messages in
# all, not some for each file. The mount that looks has made nothing itself, so it has no token but those that it tried for.
#
# Arguments: runs of SETSxREPLICA[:SCATTER] instead of all.
# alone: what the kernel believes runs out after 0.6 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack
need python3
FILES=200

messages() { facts "$LOOKER" | sed -n 's/.*: up, requests \([0-9]*\), .*/\1/p' | awk '{n += $1} END {print n + 0}'; }
# What it costs at last: the tokens come meanwhile, and a machine that is busy forgets in between what it believed.
costs_at_most() { # MESSAGES COMMAND...
	local most=$1 before
	shift
	before=$(messages)
	"$@" >/dev/null || return 1
	LEAST=$(($(messages) - before < LEAST ? $(messages) - before : LEAST))
	[ "$LEAST" -le "$most" ]
}
await() { # MESSAGES WHAT COMMAND...
	local most=$1 what=$2
	shift 2
	LEAST=1000000
	wait_until 60 costs_at_most "$most" "$@" || fail "$what takes $LEAST messages, not $most or less"
	say "$what: $LEAST messages"
}
look() { # DIRECTORY: one of its files, again and again
	python3 -c 'import os, sys
for i in range(100): os.stat(sys.argv[1] + "/below/deep/f0")' "$1"
}
walked() { # SETS REPLICA [SCATTER]
	local i other
	SPREAD=$1 REPLICA=$2 SCATTER=${3-}
	. "$TOP/tests/mount/$([ "$SPREAD" = 1 ] && echo replica || echo spread).sh"
	scratch
	start_stack "$SCRATCH"
	chmod 755 "$MNT"
	for i in {1..4}; do # so that each set has some
		mkdir -p "$MNT/d$i/below/deep"
		python3 -c 'import os, sys
for i in range(int(sys.argv[2])): open(f"{sys.argv[1]}/f{i}", "w").close()' "$MNT/d$i/below/deep" "$FILES"
	done
	[ -z "$SCATTER" ] || [ -n "$(find "$STACK"/brick*/.stratus.dht/away -name 'd.*')" ] || fail "no directory is away"
	stop_mount "$MNT" "$MOUNT_PID"
	LOOKER=$MNT
	start_mount "$MNT"
	MOUNT_PID=$LAST_PID
	for i in {1..4}; do
		await $((FILES / 4)) "ls -l of d$i" ls -ln "$MNT/d$i/below/deep"
		await 130 "100 looks at a file of d$i" look "$MNT/d$i"
	done

	# what is believed so is taken back
	start_mount "$SCRATCH/other"
	other=$LAST_PID
	for i in {1..4}; do
		look "$MNT/d$i"
		mv "$SCRATCH/other/d$i/below" "$SCRATCH/other/d$i/above"
		[ ! -e "$MNT/d$i/below/deep/f0" ] && [ -e "$MNT/d$i/above/deep/f0" ] || fail "the old name of d$i/below is believed"
		mv "$SCRATCH/other/d$i" "$SCRATCH/other/e$i"
		[ ! -e "$MNT/d$i/above/deep/f0" ] && [ -e "$MNT/e$i/above/deep/f0" ] || fail "the old name of d$i is believed"
		rm -r "$SCRATCH/other/e$i/above"
		[ ! -e "$MNT/e$i/above/deep/f0" ] && [ ! -e "$MNT/e$i/above" ] || fail "what is gone of e$i is believed"
		rmdir "$SCRATCH/other/e$i"
		[ ! -e "$MNT/e$i" ] || fail "e$i is gone, and believed"
	done
	stop_mount "$SCRATCH/other" "$other"
	stop_stack
	pass
}

LIMIT=300
case ${1-} in
in)
	walked "${@:2}"
	;;
esac
for shape in ${@:-1x3 2x3 2x3:1 4x1 4x1:1}; do
	run_one "$shape" "$0" in $(tr 'x:' '  ' <<<"$shape")
done
runs_end
