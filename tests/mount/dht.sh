#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume that is spread over several bricks, or sets of them, behaves as one file system; a
# brick that is away takes what it has with it and nothing else; sets go on without a member and heal it.
#
# Arguments are parts to run instead of all (names, across, layout, listing, counts, away, switch, sets, layout-sets, listing-sets, believed, believed-bricks), or TEST:SPREAD:REPLICA for
# another test of this directory with such a stack. With LONG=1 these run in full, and those marked - too.
# limit: 1800 s, 14400 s with LONG=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
need_root
need_stack

# ---- four bricks ----

located() { "$STRATUS" ctl "$MNT" dht locate "$1"; }
name_at() { # SUBVOLUME PREFIX: a name of the root that is there
	local i=0
	until [ "$(located "$2$i")" = "$1" ]; do i=$((i + 1)); done
	echo "$2$i"
}
part_names() {
	local i a b
	mkdir "$MNT/empty"
	rmdir "$MNT/empty"
	for ((i = 0; i < 40; i++)); do mkdir "$MNT/d$i"; echo "$i" >"$MNT/d$i/file"; echo "$i" >"$MNT/f$i"; done
	[ "$(ls "$MNT" | wc -l)" = 80 ] || fail "not all are listed: $(ls "$MNT" | wc -l)"
	for ((i = 0; i < 4; i++)); do
		[ "$(ls "$STACK/brick$i" | wc -l)" -ge 10 ] || fail "brick $i has hardly anything: $(ls "$STACK/brick$i")"
	done
	[ "$(cat "$STACK"/brick?/f7)" = 7 ] && [ "$(cat "$STACK"/brick?/d9/file)" = 9 ] || fail "not at one brick"
	[ "$(stat -c %h "$MNT")" = 42 ] || fail "the root has $(stat -c %h "$MNT") links"
	a=$(name_at client0 a) b=$(name_at client1 b)
	echo data >"$MNT/$a"
	mkdir "$MNT/$(name_at client0 dir)"
	ln "$MNT/$a" "$MNT/$b" || fail "a link from one brick to another"
	[ "$MNT/$a" -ef "$MNT/$b" ] && [ "$(stat -c %h "$MNT/$b")" = 2 ] || fail "the link is another file"
	rm "$MNT/$b"
	mv "$MNT/$a" "$MNT/$b" || fail "mv from one brick to another"
	[ "$(cat "$MNT/$b")" = data ] && [ ! -e "$MNT/$a" ] || fail "mv"
	mkdir "$MNT/$(name_at client0 whole)"
	mv "$MNT/$(name_at client0 whole)" "$MNT/$(name_at client1 else)" || fail "mv of a directory from one brick to another"
	[ -d "$MNT/$(name_at client1 else)" ] && [ ! -e "$MNT/$(name_at client0 whole)" ] || fail "mv of a directory"
	# the kernel copies what a brick can't: copy_file_range between two of them
	python3 - "$MNT/$b" "$MNT/$a" <<-'END' || fail "copy_file_range over two bricks"
	import os, sys
	source, to = open(sys.argv[1], "rb"), open(sys.argv[2], "wb")
	assert os.copy_file_range(source.fileno(), to.fileno(), 100) == 5
	END
	[ "$(cat "$MNT/$a")" = data ] || fail "copy_file_range has copied $(cat "$MNT/$a")"
	# what is written first under another name is where it will be
	for i in 1 2 3 4 5 6 7 8; do
		echo "$i" >"$MNT/r$i.tmp"
		mkdir "$MNT/.t$i.AbCd12"
		python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$MNT/r$i.tmp" "$MNT/r$i" || fail "rename of r$i.tmp"
		python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$MNT/.t$i.AbCd12" "$MNT/t$i" || fail "rename of .t$i.AbCd12"
	done
	# what the root has, all have
	chmod 1750 "$MNT"
	chown 12:34 "$MNT"
	setfacl -m u:1234:rwx "$MNT"
	for ((i = 0; i < 4; i++)); do
		[ "$(stat -c '%a %u %g' "$STACK/brick$i")" = "1770 12 34" ] || fail "brick $i has $(stat -c '%a %u %g' "$STACK/brick$i")"
		getfacl -cnp "$STACK/brick$i" 2>/dev/null | grep -qx 'user:1234:rwx' || fail "brick $i does not have the root's ACL"
	done
	setfacl -b "$MNT"
	chmod 770 "$MNT"
	chown 0:5555 "$MNT"
	python3 - "$MNT" <<-'END' || fail "a supplementary group that may use the root does not help"
	import os, sys
	os.setgroups([7000, 5555])
	os.setgid(1002)
	os.setuid(1001)
	assert "d1" in os.listdir(sys.argv[1])
	for i in range(8):
	    os.mkdir(f"{sys.argv[1]}/by-group{i}")
	END
	chmod 755 "$MNT"
	chown 0:0 "$MNT"
	# what the bricks' own file systems have there is not of the volume
	for ((i = 0; i < 4; i++)); do mkdir "$STACK/brick$i/lost+found"; done
	[ "$(ls "$MNT" | grep -c lost)" = 1 ] || fail "lost+found is listed $(ls "$MNT" | grep -c lost) times"
	rmdir "$STACK"/brick?/lost+found
	[ "$(stat -f -c %b "$MNT")" -gt $(($(stat -f -c %b "$STACK") * 3)) ] || fail "the space is not that of all bricks"
	rm -rf "${MNT:?}"/* "$MNT"/.t*
	[ "$(stat -c %h "$MNT")" = 2 ] && [ -z "$(ls -A "$MNT")" ] || fail "the root is not empty again: $(ls -A "$MNT")"
}

# rename(2) from one brick to another: as anywhere, whatever the kinds of what is moved and replaced are.
part_across() {
	local i top=$MNT
	for ((i = 0; i < 4; i++)); do mkdir "$top/$(name_at client$i in)"; done
	python3 "$TOP/tests/mount/across.py" "$top" "$top/$(name_at client0 in)" "$top/$(name_at client1 in)" "$top/$(name_at client2 in)" ||
		fail "rename across"
	say "$("$STRATUS" dump "$MNT" 2>/dev/null | grep 'renamed over' || :)"
	rm -rf "${MNT:?}"/*
	for ((i = 0; i < 4; i++)); do
		[ -z "$(find "$STACK/brick$i/.stratus.dht" -mindepth 3 2>/dev/null)" ] || fail "brick $i: something is left: $(find "$STACK/brick$i/.stratus.dht" -mindepth 3)"
		! getfattr -d -m 'trusted.dht' -R "$STACK/brick$i" 2>/dev/null | grep -q 'dht.m' || fail "brick $i: a mark is left"
	done
}

# A mount whose volume file has two bricks exchanged makes nothing, finds nothing, and says why.
part_layout() {
	local there new wrong i volumes made= log=$STACK/mount-swapped.log
	read -r -a volumes <<<"$(sed -n '/type cluster\/dht/,/end-volume/s/^ *subvolumes //p' "$CLIENT_VOL")"
	there=$(name_at "${volumes[0]}" there) new=$(name_at "${volumes[1]}" new)
	for ((i = 0; i < MEMBERS; i++)); do made="${made}brick$i/$there "; done
	mkdir "$MNT/$there"
	sed '/type cluster\/dht/,/end-volume/s/\(subvolumes *\)\([^ ]*\) \([^ ]*\)/\1\3 \2/' "$CLIENT_VOL" >"$SCRATCH/swapped.vol"
	! cmp -s "$CLIENT_VOL" "$SCRATCH/swapped.vol" || fail "the subvolumes are not exchanged"
	start_mount "$SCRATCH/swapped" "$SCRATCH/swapped.vol"
	wrong=$LAST_PID
	python3 - "$SCRATCH/swapped" "$there" "$new" <<-'END' || fail "a mount with bricks exchanged does something"
	import errno, os, sys
	top, there, new = sys.argv[1:]
	os.chdir(top)
	def refused(deed, *args):
	    try:
	        deed(*args)
	    except OSError as e:
	        assert e.errno == errno.EIO, (deed, e)
	    else:
	        raise AssertionError((deed, args))
	for i in range(20):
	    refused(os.stat, there)
	    refused(os.mkdir, there)
	    refused(os.mkdir, new)
	    refused(os.open, new, os.O_CREAT | os.O_RDWR)
	    refused(os.rename, there, new)
	    refused(os.listdir, ".")
	END
	[ "$(cd "$STACK" && ls -d brick?/* | tr '\n' ' ')" = "$made" ] || fail "something else was made: $(ls -d "$STACK"/brick?/*)"
	[ "$(grep -c 'names of the root, or of a wide directory, are refused by a brick' "$log")" = 1 ] || fail "the log says why $(grep -c refused "$log") times"
	stop_mount "$SCRATCH/swapped" "$wrong"
	rmdir "$MNT/$there"
	! getfattr -d -m - "$MNT" 2>/dev/null | grep -q 'trusted.dht' || fail "the root shows xattrs of bricks"
	! setfattr -n trusted.dht.x -v 1 "$MNT" 2>"$SCRATCH/err" && grep -q 'not supported' "$SCRATCH/err" || fail "trusted.dht.x can be set: $(cat "$SCRATCH/err")"
}

part_listing() {
	python3 "$TOP/tests/mount/listed.py" "$MNT" $([ "$LONG" = 1 ] && echo 20000 || echo 1000) "$SEED" || fail "seekdir in the root"
	mkdir "$MNT/below"
	python3 "$TOP/tests/mount/listed.py" "$MNT/below" 300 "$SEED" || fail "seekdir below"
	rmdir "$MNT/below"
}

# What is kept of a listing ends at any time; places stay.
part_listing-of-sets() {
	local me=$BASHPID dropper
	while kill -0 "$me" 2>/dev/null; do
		echo 1 >/proc/sys/vm/drop_caches
		sleep 0.05
	done &
	dropper=$!
	part_listing
	kill "$dropper"
}

part_away() {
	local here there i
	here=$(name_at client0 x) there=$(name_at client2 y)
	for ((i = 0; i < 100; i++)); do echo "$i" >"$MNT/f$i"; done
	echo here >"$MNT/$here"
	echo there >"$MNT/$there"
	kill_server 2
	[ "$(timeout 300 cat "$MNT/$here")" = here ] || fail "what is at another brick is gone, too"
	timeout 300 stat "$MNT" >/dev/null || fail "the root is gone"
	timeout 300 stat -f "$MNT" >/dev/null || fail "statfs fails"
	! timeout 30 cat "$MNT/$there" 2>"$SCRATCH/err" || fail "what is at a dead brick is read"
	! timeout 30 ls "$MNT" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail "a shorter list: $(wc -l <"$SCRATCH/out") names"
	start_server 2
	timeout 300 cat "$MNT/$there" >/dev/null || fail "the brick is back, but what it has is not"
	[ "$(ls "$MNT" | wc -l)" = 102 ] || fail "not all are listed"
	rm "$MNT"/*
}

# A mount is told of another graph: what was open goes on, and a listing of the root too.
part_switch() {
	local i
	mkdir "$MNT/dir"
	for ((i = 0; i < 300; i++)); do : >"$MNT/n$i"; done
	cp "$CLIENT_VOL" "$SCRATCH/old.vol"
	MNT=$MNT python3 - "$STRATUS" "$CLIENT_VOL" <<-'END' || fail "something open did not survive a graph switch"
	import fcntl, os, re, subprocess, sys
	top = os.environ["MNT"]
	stratus, volfile = sys.argv[1:]
	files = [open(f"{top}/n{i}", "w+") for i in range(20)]
	for f in files:
	    f.write("before ")
	    f.flush()
	    fcntl.lockf(f, fcntl.LOCK_EX)
	inside = os.open(f"{top}/dir", os.O_RDONLY)
	os.chdir(f"{top}/dir")
	listing = os.scandir(top)
	seen = [next(listing).name for _ in range(10)]
	text = open(volfile).read()
	text = re.sub(r"\nvolume mount\n(.*)subvolumes dht", r"\nvolume trace\n    type debug/io-stats\n    subvolumes dht\nend-volume\n\nvolume mount\n\1subvolumes trace", text, flags=re.S)
	open(volfile, "w").write(text)
	subprocess.run([stratus, "reload", top], check=True)
	for f in files:
	    f.write("after")
	    f.flush()
	    assert os.fstat(f.fileno()).st_size == 12
	open("made", "w").close()
	assert os.listdir(inside) == ["made"]
	seen += [e.name for e in listing]
	assert sorted(seen) == sorted(os.listdir(top)) and len(seen) == 301, len(seen)
	for i in range(20):
	    assert open(f"{top}/n{i}").read() == "before after"
	END
	"$STRATUS" graph "$CLIENT_VOL" | grep -q io-stats || fail "the volfile was not changed"
	"$STRATUS" dump "$MNT" >"$SCRATCH/dump"
	grep -q trace "$SCRATCH/dump" || fail "the mount has the old graph: $(head -c 1500 "$SCRATCH/dump")"
	cp "$SCRATCH/old.vol" "$CLIENT_VOL"
	"$STRATUS" reload "$MNT"
	rm -r "$MNT"/*
}

# Messages for each operation, in a directory and in the root: as few as to one brick (tests/bench/counts.sh), and to all for the root itself.
part_counts() {
	mkdir "$MNT/dir"
	: >"$MNT/dir/f"
	: >"$MNT/f"
	python3 - "$STRATUS" "$MNT" <<-'END' || fail "more messages than there should be"
	import os, re, subprocess, sys
	stratus, top = sys.argv[1:]
	TIMES = 100
	def sent():
	    said = subprocess.run([stratus, "dump", top], check=True, capture_output=True, text=True).stdout
	    return sum(int(n) for n in re.findall(r"requests (\d+)", said))
	def create(path):
	    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
	fewest = {}
	def measure():
	    bad = 0
	    for place in ("/dir", ""):
	        for what, deed, most in (("stat", lambda i: os.stat(f"{top}{place}/f"), 1), ("create", lambda i: create(f"{top}{place}/c{i}"), 3),
	                                 ("mkdir", lambda i: os.mkdir(f"{top}{place}/d{i}"), 2), ("unlink", lambda i: os.unlink(f"{top}{place}/c{i}"), 2),
	                                 ("rmdir", lambda i: os.rmdir(f"{top}{place}/d{i}"), 2), ("stat of it", lambda i: os.stat(f"{top}{place}"), 1 if place else 4)):
	            before = sent()
	            for i in range(TIMES):
	                deed(i)
	            each = min((sent() - before) / TIMES, fewest.get((place, what), 1e9))
	            fewest[(place, what)] = each
	            if place:
	                most += 1  # the directory is looked up
	            print(f"{what} in the {'directory' if place else 'root'}: {each:.2f} messages, at most {most}")
	            bad += each > most + 0.2
	    return bad
	# On a machine that stands still now and then what may be believed ends in between, and is asked for once more.
	sys.exit(all(measure() for again in range(5)))
	END
	rm -r "$MNT"/*
}

on_stack() { # SPREAD REPLICA PART...
	local part
	SPREAD=$1 REPLICA=$2
	shift 2
	. "$TOP/tests/mount/spread.sh"
	scratch
	start_stack "$SCRATCH" "max-wait 2s"
	for part; do
		"part_$part"
		say "$part: fine"
	done
	stop_stack
	pass
}

# ---- two sets of three ----

# Writes all the time, in the root and below, until it is told to stop; each file is read back at the end.
write_on() { # MARK
	local i=0
	while [ ! -e "$SCRATCH/stop" ]; do
		i=$((i + 1))
		mkdir "$MNT/$1-d$i"
		echo "$i" >"$MNT/$1-d$i/file"
		echo "$i" >"$MNT/$1-$i.tmp"
		mv "$MNT/$1-$i.tmp" "$MNT/$1-$i"
		[ $((i % 3)) != 0 ] || rm -r "$MNT/$1-d$i"
		echo "$i" >"$SCRATCH/$1.count"
	done
}
count_is_above() { [ "$(cat "$SCRATCH/w.count" 2>/dev/null || echo 0)" -gt "$1" ]; }

two_sets() {
	local writer count i
	SPREAD=2 REPLICA=3
	. "$TOP/tests/mount/spread.sh"
	scratch
	start_stack "$SCRATCH"
	mkdir "$MNT/before"
	echo one >"$MNT/before/file"
	write_on w >"$SCRATCH/writer.log" 2>&1 &
	writer=$!
	note "$writer" writer
	wait_until 60 count_is_above 5 || fail "nothing is written: $(cat "$SCRATCH/writer.log")"
	kill_server 1 # it has a brick of each set
	wait_until 60 brick_is 1 out && wait_until 30 brick_is 4 out || fail "the bricks are not left out"
	count=$(cat "$SCRATCH/w.count")
	wait_until 60 count_is_above $((count + 10)) || fail "nothing is written with one server dead: $(cat "$SCRATCH/writer.log")"
	start_server 1
	wait_until 120 all_in || fail "the bricks do not come back: $("$STRATUS" heal status --stratusd "$COORDINATOR_PID")"
	count=$(cat "$SCRATCH/w.count")
	wait_until 60 count_is_above $((count + 5)) || fail "nothing is written afterwards: $(cat "$SCRATCH/writer.log")"
	touch "$SCRATCH/stop"
	wait_until 30 gone "$writer" || fail "the writer hangs"
	unset "PIDS[$writer]"
	wait "$writer" || fail "the writer failed: $(tail -n 3 "$SCRATCH/writer.log")"
	[ ! -s "$SCRATCH/writer.log" ] || fail "the writer saw errors: $(head -n 5 "$SCRATCH/writer.log")"
	count=$(cat "$SCRATCH/w.count")
	for ((i = 1; i <= count; i++)); do
		[ "$(cat "$MNT/w-$i")" = "$i" ] || fail "w-$i is lost"
		[ $((i % 3)) = 0 ] || [ "$(cat "$MNT/w-d$i/file")" = "$i" ] || fail "w-d$i/file is lost"
	done
	[ "$(ls "$MNT" | wc -l)" = $((1 + count + count - count / 3)) ] || fail "the list has $(ls "$MNT" | wc -l) names after $count rounds"
	for i in 0 3; do ls "$STACK/brick$i" | grep -q '^w-' || fail "set $((i / 3)) has nothing"; done
	stop_stack
	pass
}

# What is believed of the root and below it, while another client changes it.
believed() { # SPREAD REPLICA
	local other
	SPREAD=$1 REPLICA=$2
	. "$TOP/tests/mount/spread.sh"
	scratch
	start_stack "$SCRATCH"
	start_mount "$SCRATCH/other"
	other=$LAST_PID
	mkdir "$SCRATCH/model"
	chmod 755 "$MNT" "$SCRATCH/model"
	ACROSS=1 python3 "$TOP/tests/mount/believed.py" "$MNT" "$SCRATCH/other" "$SCRATCH/model" $([ "$LONG" = 1 ] && echo 5000 || echo 250) "$SEED" ||
		fail "one mount believes what is no longer so (SEED=$SEED)"
	[ "$REPLICA" != 1 ] || [ "$(facts "$MNT" | sed -n 's/^ *recalls: //p' | sort -n | tail -1)" -gt 0 ] || fail "nothing was recalled"
	stop_mount "$SCRATCH/other" "$other"
	stop_stack
	pass
}

# ---- other tests ----

RUNS="
  basics      4  1
  basics      2  3
- basics      2  2
  two-mounts  4  1  MOUNTS_ROUNDS=25
- large-directory 4 1
  programs    4  1  git sqlite rsync
- programs    2  3
  fsx         4  1  FSX_OPS=2000
  pjdfstest   4  1  rename link unlink rmdir open chmod
- pjdfstest   4  1  SCATTER=2
  pjdfstest   2  3  rename link rmdir
  pjdfstest   4  1  MOVING=2000 rename unlink
  fsx         2  3  MOVING=1000 FSX_OPS=1000
- fsx         4  1  MOVING=2000
- programs    4  1  MOVING=2000
  programs    2  3  MOVING=500 git
- programs    2  2  SCATTER=3
"
LIMIT=$([ "$LONG" = 1 ] && echo 3600 || echo 600)
part() { run_one "$1" "$0" "in-$1"; }
other() { # TEST SPREAD REPLICA [NAME=VALUE|ARGUMENT...]
	local test=$1 spread=$2 replica=$3
	shift 3
	sample "$@"
	run_one "$test on $spread x $replica" env SPREAD="$spread" REPLICA="$replica" SEED="$SEED" "${VARIABLES[@]}" \
		"$TOP/tests/mount/$test.sh" "${ARGUMENTS[@]}"
}

case ${1-} in
in-names | in-across | in-layout | in-listing | in-away | in-switch | in-counts) on_stack 4 1 "${1#in-}" ;;
in-layout-sets) on_stack 2 3 layout ;;
in-listing-sets) on_stack 2 3 listing-of-sets ;;
in-sets) two_sets ;;
in-believed) believed 2 3 ;;
in-believed-bricks) believed 4 1 ;;
in-*) fail "there is no part ${1#in-}" ;;
esac
if [ $# -gt 0 ]; then
	for run; do
		IFS=: read -r test spread replica <<<"$run"
		if [ -n "$spread" ]; then other "$test" "$spread" "${replica:-1}"; else part "$test"; fi
	done
else
	for part in names across layout listing counts away switch sets layout-sets listing-sets believed believed-bricks; do part "$part"; done
	each_run other
fi
runs_end
