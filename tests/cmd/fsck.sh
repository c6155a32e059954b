#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus fsck` finds nothing while clients write, finds what was broken by hand on the bricks, changes nothing unless asked to, puts it right,
# and finds nothing then; what a client left that was killed it ends. Without one of the subvolumes it judges nothing.
#
# Arguments are stacks to run instead of all, as SPREAD:REPLICA.
# limit: 900 s
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/runs.sh"
need_root
need_stack
need python3
need setfattr

fsck() { # STATUS [OPTION...]: what it says is in $SCRATCH/out and err
	local want=$1 status=0
	shift
	timeout 300 "$STRATUS" fsck --wait 1 --log "$SCRATCH/fsck.log" "$@" "$CLIENT_VOL" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	[ "$status" = "$want" ] || fail "fsck $*: status $status instead of $want: $(cat "$SCRATCH/out" "$SCRATCH/err")"
}
clean() { fsck 0; grep -q ': nothing is wrong$' "$SCRATCH/out" && [ ! -s "$SCRATCH/err" ] || fail "not clean: $(cat "$SCRATCH/out" "$SCRATCH/err")"; }
found() { # KIND...: these, in this order
	local kinds
	kinds=$(sed -n 's/^\([a-z-]*\) .* at .*): .*/\1/p' "$SCRATCH/out" | tr '\n' ' ')
	[ "$kinds" = "$* " ] || fail "found $kinds instead of $*: $(cat "$SCRATCH/out")"
}
refused() { # PATTERN WORD...: one sentence, status 2
	local pattern=$1 status=0
	shift
	timeout 300 "$STRATUS" fsck "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
	[ "$status" = 2 ] && grep -q -- "$pattern" "$SCRATCH/err" && [ "$(wc -l <"$SCRATCH/err")" = 1 ] && [ ! -s "$SCRATCH/out" ] ||
		fail "'$pattern' is not the sentence of $* (status $status): $(cat "$SCRATCH/out" "$SCRATCH/err")"
}

located() { "$STRATUS" ctl "$MNT" dht locate "$1"; }
volumes() { sed -n '/type cluster\/dht/,/end-volume/s/^ *subvolumes //p' "$CLIENT_VOL"; }
name_at() { # NUMBER PREFIX
	local i=0 volume
	volume=$(volumes | tr -s ' ' '\n' | sed -n "$(($1 + 1))p")
	until [ "$(located "$2$i")" = "$volume" ]; do i=$((i + 1)); done
	echo "$2$i"
}
members_of() { local i; for ((i = $1 * MEMBERS; i < ($1 + 1) * MEMBERS; i++)); do echo "$STACK/brick$i"; done; } # of subvolume NUMBER
at_members() { # NUMBER COMMAND...: in each brick of it
	local brick number=$1
	shift
	for brick in $(members_of "$number"); do (cd "$brick" && "$@") || fail "in $brick: $*"; done
}
first_bricks() { local i; for ((i = 0; i < SETS; i++)); do echo "$STACK/brick$((i * MEMBERS))"; done; }
all_anchored() { python3 "$TOP/tests/mount/anchors.py" $(first_bricks) >"$SCRATCH/anchors"; }
anchored() { wait_until 20 all_anchored || fail "not all is in order: $(head -n 8 "$SCRATCH/anchors")"; }
on_disk() { (cd "$STACK" && find brick* -path '*/.stratus' -prune -o -printf '%p %i %n %s\n' | sort); }

down() { local i; for ((i = 0; i < $(servers); i++)); do kill_server "$i"; done; }
up() {
	local i
	for ((i = 0; i < $(servers); i++)); do start_server "$i"; done
	[ "$MEMBERS" = 1 ] || wait_until 60 all_in || fail "the sets do not come together again"
	wait_until 40 ls "$MNT" || fail "the mount does not come back"
}

names() { # in use all the time: names, and those elsewhere
	A=$(name_at 0 a) B=$(name_at 1 b) C=$(name_at 0 c) D=$(name_at 1 d) E=$(name_at 0 e) F=$(name_at 1 f) G=$(name_at 0 g) H=$(name_at 1 h)
	DIR=$(name_at 0 dir)
}
make_tree() {
	local i
	for i in 1 2 3; do mkdir -p "$MNT/tree$i/below"; done
	for i in 1 2 3 4 5 6 7 8 9; do echo "$i" >"$MNT/tree$((i % 3 + 1))/below/file$i"; done
	ln "$MNT/tree1/below/file3" "$MNT/tree2/other-name"
	mv "$MNT/tree2/below/file4" "$MNT/tree3/moved"
	mkdir "$MNT/$DIR"
	echo "$A" >"$MNT/$A"
	ln "$MNT/$A" "$MNT/$B"
	for i in "$C" "$E" "$G"; do echo "$i" >"$MNT/$i"; done
	mv "$MNT/$C" "$MNT/$D"
	mv "$MNT/$E" "$MNT/$F"
	ln "$MNT/$G" "$MNT/$H"
}
tree_is_whole() {
	[ "$(cat "$MNT"/tree?/below/file? "$MNT/tree3/moved" | sort | tr -d '\n')" = 123456789 ] || fail "files of the tree"
	[ "$MNT/tree1/below/file3" -ef "$MNT/tree2/other-name" ] && [ "$(stat -c %h "$MNT/tree2/other-name")" = 2 ] || fail "a file with two names"
}

live() {
	python3 - "$MNT" >"$SCRATCH/writer.log" 2>&1 <<-'END' &
	import errno, os, random, sys
	top, i = sys.argv[1] + "/live", 0
	def work(i):
	    a, b, d, e = (f"{top}{random.randrange(40)}" for _ in range(4))
	    open(a, "w").write("x" * (i % 5))
	    os.link(a, f"{top}-link{i}")
	    os.rename(a, b)
	    os.makedirs(f"{top}-dir{i % 7}/{i % 3}", exist_ok=True)
	    os.rename(f"{top}-link{i}", f"{top}-dir{i % 7}/{i % 3}/{i % 11}")
	    os.rename(f"{top}-dir{i % 7}/{i % 3}/{i % 11}", d)
	    os.unlink(d)
	    if i % 5 == 0: # over two subvolumes, if that can be done
	        os.rename(f"{top}-dir{i % 7}/{i % 3}", f"{top}-dir{(i + 1) % 7}/moved{i % 2}")
	while not os.path.exists(sys.argv[1] + "/live-end"):
	    try:
	        work(i)
	    except OSError as e:
	        if e.errno not in (errno.ENOENT, errno.EXDEV, errno.ENOTEMPTY):
	            raise
	    i += 1
	print(i)
	END
	WRITER=$!
	note "$WRITER" "what writes"
	wait_until 20 test -e "$MNT/live-dir6" || fail "nothing is written: $(cat "$SCRATCH/writer.log")"
}
live_end() {
	: >"$MNT/live-end"
	wait_until 60 gone "$WRITER" || fail "the writer does not end"
	wait "$WRITER" || fail "the writer: $(cat "$SCRATCH/writer.log")"
	unset "PIDS[$WRITER]"
	say "a writer did $(cat "$SCRATCH/writer.log") rounds meanwhile"
	rm -rf "$MNT"/live*
}
while_written() {
	local i
	live
	for i in 1 2 3; do clean; done
	fsck 0 --repair
	! grep -q ' at ' "$SCRATCH/out" || fail "something is put right that was right: $(cat "$SCRATCH/out")"
	live_end
	clean
}

# ---- broken by hand ----

leads_to() { # POINTER: the gfid of its object
	python3 -c 'import os,sys,uuid; print(uuid.UUID(bytes=os.getxattr(sys.argv[1], "trusted.dht.pointer", follow_symlinks=False)[5:21]))' "$1"
}
mark_it() { setfattr -hn trusted.dht.m.0123456789abcdef -v "0x01$(printf '11%.0s' {1..16})0000000100000000" "$DIR"; }
break_it() {
	local gone first
	first=$STACK/brick$MEMBERS # of subvolume 1
	STRAY=$(name_at 1 stray)
	LOST=$(leads_to "$first/$D")
	gone=$(leads_to "$first/$F")
	down
	at_members 1 rm "$B" # its anchor stays; the file has another name
	at_members 1 rm "$D" # the only name of a file
	at_members 0 find .stratus.dht/away -name "a.*.$gone" -delete
	at_members 1 setfattr -hn trusted.dht.pointer -v 0x01 "$H"
	at_members 0 mark_it
	at_members 0 mv "$G" "$STRAY"
	up
}
by_hand() {
	local before text
	break_it
	before=$(on_disk)
	fsck 1
	found mark-without-intent senseless-xattr pointer-to-nothing away-without-pointer away-without-pointer stray
	grep -q ': 6 found; --repair puts right what can be$' "$SCRATCH/out" || fail "the end: $(cat "$SCRATCH/out")"
	[ "$before" = "$(on_disk)" ] || fail "something was changed: $(diff <(echo "$before") <(on_disk))"
	fsck 1 --json
	[ "$(json 'd["checked"], d["distributed"], len(d["findings"]), any("done" in f for f in d["findings"])' <"$SCRATCH/out")" = "True True 6 False" ] ||
		fail "the JSON: $(cat "$SCRATCH/out")"
	rm "$SCRATCH/fsck.log"
	fsck 0 --repair --json
	[ "$(json 'len(d["findings"]), all(f["done"] for f in d["findings"])' <"$SCRATCH/out")" = "6 True" ] || fail "not put right: $(cat "$SCRATCH/out")"
	[ "$(grep -c ' fsck: /' "$SCRATCH/fsck.log")" = 6 ] || fail "the log: $(cat "$SCRATCH/fsck.log")"
	clean
	[ "$(cat "$MNT/$A")" = "$A" ] && [ "$(stat -c %h "$MNT/$A")" = 1 ] && [ ! -e "$MNT/$B" ] || fail "a file with one name more than it seemed"
	[ "$(cat "$MNT/lost+found/$LOST")" = "$C" ] || fail "what had no name is not in lost+found: $(ls "$MNT/lost+found")"
	[ ! -e "$MNT/$F" ] || fail "what led to nothing is there"
	text=$(cat "$MNT/lost+found/$F".*) && grep -q "^/$F at .* was a pointer" <<<"$text" || fail "there is no text of it: $text"
	[ "$(cat "$MNT/$H")" = "$G" ] && [ "$MNT/$H" -ef "$(ls -d "$MNT/$STRAY".fsck-*)" ] || fail "a stray: $(ls "$MNT")"
	touch "$MNT/$DIR/again" && mv "$MNT/$DIR/again" "$MNT/$H" || fail "names in the directory that was marked"
}

# ---- clients that die, subvolumes that are away ----

# 16 files, each renamed all the time by one process, between names at all subvolumes; until the mount dies.
all_rename() { [ "$(ls "$SCRATCH" | grep -c '^renames\.')" = 16 ]; }
burst() { # MOUNT
	python3 - "$1" "$SCRATCH" >"$SCRATCH/burst.log" 2>&1 <<-'END' || fail "the renames ended otherwise than with their mount: $(cat "$SCRATCH/burst.log")"
	import errno, os, random, sys
	top = sys.argv[1]
	for w in range(16):
	    if not any(os.path.exists(f"{top}/burst{w}-{k}") for k in range(6)):
	        open(f"{top}/burst{w}-0", "w").write(f"{w}")
	for w in range(16):
	    if os.fork():
	        continue
	    told = False
	    at = next(k for k in range(6) if os.path.exists(f"{top}/burst{w}-{k}"))
	    try:
	        while True:
	            to = (at + random.randrange(1, 6)) % 6
	            os.rename(f"{top}/burst{w}-{at}", f"{top}/burst{w}-{to}")
	            at = to
	            if not told:
	                open(f"{sys.argv[2]}/renames.{w}", "w").close()
	                told = True
	    except OSError as e:
	        if e.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO):
	            print(w, e, flush=True)
	            os._exit(1)
	    os._exit(0)
	sys.exit(any([os.waitpid(-1, 0)[1] for w in range(16)]))
	END
}
burst_is_whole() {
	python3 - "$MNT" <<-'END' || fail "the renamed files are not whole (see above)"
	import os, sys
	names = [n for n in os.listdir(sys.argv[1]) if n.startswith("burst")]
	said = sorted((n, open(f"{sys.argv[1]}/{n}").read(), os.stat(f"{sys.argv[1]}/{n}").st_nlink) for n in names)
	assert len(said) == 16 and all(n.startswith(f"burst{text}-") and links == 1 for n, text, links in said), said
	END
}
killed() {
	local i other status found=0 kills=3
	[ "$MEMBERS" = 1 ] || kills=1 # a set waits for the session of one who was killed
	for ((i = 0; i < kills; i++)); do
		start_mount "$SCRATCH/other"
		other=$LAST_PID
		rm -f "$SCRATCH"/renames.*
		(poll 100 all_rename || :; sleep 1; kill -9 "$other") &
		burst "$SCRATCH/other"
		wait_until 30 gone "$other" || fail "the mount outlives its kill"
		status=0
		wait "$other" 2>/dev/null || status=$?
		[ "$status" = 137 ] || fail "the mount ended with $status, not by the kill"
		unset "PIDS[$other]"
		umount -l "$SCRATCH/other"
		fsck 0 --repair
		found=$((found + $(grep -c '; repaired: ' "$SCRATCH/out" || true)))
		clean
		anchored
		burst_is_whole
	done
	[ "$found" -gt 0 ] || [ "$kills" = 1 ] || fail "a mount that was killed left nothing"
	say "clients that were killed left $found things"
}
without_one() {
	kill_server 1
	fsck 2
	grep -q "connection1.* can't connect to the brick" "$SCRATCH/err" && [ "$(wc -l <"$SCRATCH/err")" = 1 ] && [ ! -s "$SCRATCH/out" ] ||
		fail "a subvolume is down: $(cat "$SCRATCH/out" "$SCRATCH/err")"
	fsck 2 --repair --json
	[ "$(json 'd["checked"], d["findings"], "connection1" in d["problem"]' <"$SCRATCH/out")" = "False [] True" ] || fail "the JSON: $(cat "$SCRATCH/out")"
	start_server 1
	clean
}

words() {
	local status
	refused "No such file\|there is no\|can't" "$SCRATCH/nothing.vol"
	refused "volfile of a server" "$STACK/server-s0.vol"
	refused "no server\|write HOST" "a b:/v"
	refused "no answer" 127.0.0.1:1:/v
	status=0
	"$STRATUS" fsck --wait 0 "$CLIENT_VOL" 2>"$SCRATCH/err" || status=$?
	[ "$status" = 2 ] && grep -q "seconds, 1 to 3600, and not '0'" "$SCRATCH/err" || fail "no time: $(cat "$SCRATCH/err")"
	cp "$CLIENT_VOL" "$SCRATCH/client.vol"
	chmod 644 "$SCRATCH/client.vol"
	chmod 755 "$SCRATCH"
	! setpriv --reuid 1234 --regid 1234 --clear-groups "$STRATUS" fsck "$SCRATCH/client.vol" >"$SCRATCH/out" 2>"$SCRATCH/err" &&
		grep -q 'run it as root$' "$SCRATCH/err" || fail "a user may ask: $(cat "$SCRATCH/err")"
	write_client_volfile "$SCRATCH/single.vol" 1 "$(uuid)" "$(uuid)"
	[ "$("$STRATUS" fsck "$SCRATCH/single.vol")" = "$SCRATCH/single.vol has one subvolume: nothing is distributed, and there is nothing to check" ] ||
		fail "a volume of one brick"
	[ "$("$STRATUS" fsck --json "$SCRATCH/single.vol" | json 'd["distributed"], d["findings"]')" = "False []" ] || fail "the JSON of a volume of one brick"
}

on_stack() { # SPREAD REPLICA
	SPREAD=$1 REPLICA=$2
	. "$TOP/tests/mount/spread.sh"
	scratch
	say "seed $SEED"
	start_spread "$SCRATCH" "max-wait 4s" "cluster/dht:sweep-interval 24h"
	clean
	names
	make_tree
	clean
	grep -q '^[0-9]* directories, [0-9]* files in place, [4-9] pointers: ' "$SCRATCH/out" || fail "counted: $(cat "$SCRATCH/out")"
	words
	[ "$MEMBERS" != 1 ] || without_one
	while_written
	killed
	by_hand
	tree_is_whole
	anchored
	stop_stack
	pass
}

case ${1-} in
on) on_stack "$2" "$3" ;;
esac
LIMIT=600
[ $# -gt 0 ] || set -- 4:1 2:3
for stack; do
	IFS=: read -r spread replica <<<"$stack"
	run_one "$spread x $replica" "$0" on "$spread" "$replica"
done
runs_end
