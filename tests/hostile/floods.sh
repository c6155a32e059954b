#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tenant that takes all locks, files, answers and attributes it can get, and keeps them, and those who never end a handshake or a record, get a
# bounded part (doc/security.md names the bounds), and the other tenant works on.
# limit: 900 s, 3600 s with LONG=1
# alone: the victim needs its share of the machine
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/stage.sh"
need_root
need_stack
need python3 setfattr

DESCRIPTORS=4096
limited() { ulimit -n $DESCRIPTORS && exec "$SERVER" "$@"; } # in the background, so in a shell of its own that becomes the server
SERVER=$STRATUSD STRATUSD=limited
stage
[ "$LONG" = 1 ] && { HALF_OPEN=10000 HALF_OPEN_KIB=300000 SESSIONS=64 UNREAD=16 UNREAD_KIB=200000 SLOW=500; } || { HALF_OPEN=1000 HALF_OPEN_KIB=100000 SESSIONS=18 UNREAD=16 UNREAD_KIB=200000 SLOW=100; }

flood() { # KIB NAME COMMAND...: the server may grow by so much
	local most=$1 name=$2 before after pid
	shift 2
	before=$(rss_kib "$BRICK_PID")
	victims_time >/dev/null
	(ulimit -n 20000 && exec python3 "$@") >flood.out 2>&1 &
	pid=$!
	note "$pid" "the flood"
	wait_until 120 came_or_gone "$pid" || fail "$name: the flood does not come"
	gone "$pid" && fail "$name: $(tail -n 5 flood.out)"
	victim_works "$name ($(grep there flood.out))"
	after=$(rss_kib "$BRICK_PID")
	say "$name: from $before to $after KiB"
	[ $((after - before)) -lt $((most + ${RSS_SLACK_KIB:-0})) ] || fail "$name: the server has grown from $before to $after KiB"
	gone "$pid" && fail "$name: $(tail -n 5 flood.out)"
	echo new >"$V/after-$name" && [ "$(cat "$V/after-$name")" = new ] || fail "$name: the victim can't make a file"
	rm "$V/after-$name"
	kill "$pid"
	wait "$pid" 2>/dev/null || true
	unset "PIDS[$pid]"
	wait_until 90 nothing_held || fail "$name: what it had stays: $("$STRATUS" dump "$BRICK_PID" | grep 'share:.*acme')"
}
came_or_gone() { grep -q there flood.out || gone "$1"; }
nothing_held() { ! "$STRATUS" dump "$BRICK_PID" | grep 'share:.*tenant/acme' | grep -qv 'running 0, waiting 0, bytes 0, files 0, replying 0, queued 0'; }
by() { flood "$1" "$2" "$HOSTILE/floods.py" "$PORT" "$SCRATCH" "${@:2}"; }

say "in peace: $(sleep 1; victims_time)"
flood $HALF_OPEN_KIB half-open "$HOSTILE/half-open.py" "$PORT" $HALF_OPEN
by 100000 waiting $SESSIONS 4096
by 50000 held 70000 65536
by 50000 files 2000 $((DESCRIPTORS / 4))
by $UNREAD_KIB unread $UNREAD $UNREAD
by $((SLOW * 1600)) slow $SLOW $SLOW
by 60000 said 20000 20000
by 50000 attributes 20 100000000
curtain
pass
