#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A replica set of three through single faults: each case says which property it proves. CASES="1 4" does only these;
# REPLICA=3a is for case 14. No case goes by how fast the machine is: what is looked at lasts until it has been looked at, and what a
# busy machine may do by itself (a member that answers too late leaves the view) is tried again.
# calm: leases of a second and less, and a limit for each operation
# limit: 900 s
REPLICA=${REPLICA:-3}
COORDINATOR_OPTIONS=$'option lease 1500ms\n    option heartbeat 100ms\n    option sync-interval 1s\n    option cold-wait 5s'
AFR_OPTIONS=$'option member-timeout 1500ms\n    option max-wait 8s'
MEMBER_OPTIONS="option token-timeout 2s" SERVER_OPTIONS="option session-timeout 3s"
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER=$SCRATCH/other OTHER_PID=$LAST_PID
AGAIN=
FILES=$([ "$LONG" = 1 ] && echo 20000 || echo 2000)

# The set is whole again and the bricks hold the same. What a dead mount left half done takes until its session has ended.
healed() {
	wait_until 200 all_quiet_in || fail "case $1: not healed: $("$STRATUS" dump "$COORDINATOR_PID" | grep '^  member')"
	wait_until 15 replicas_equal || fail "case $1: the bricks differ: $(replicas_equal | head -n 5)"
	[ -n "$AGAIN" ] || say "case $1 passed"
}
all_quiet_in() { [ "$("$STRATUS" dump "$COORDINATOR_PID" | grep -c '^  member .: in, answers.*pending 0$')" = "$MEMBERS" ]; }
coordinator_says() { # one that has much to do may not answer in time
	local tries said=
	for ((tries = 0; tries < 20; tries++)); do
		! said=$(grep -m 1 "^  $1: " < <("$STRATUS" dump "$COORDINATOR_PID" 2>/dev/null)) || break
	done
	echo "$said"
}
# The coordinator knows that a member has gone: what it says of it from now on is of the next one.
missed() { grep -qE "^  member $1: (out|[a-z]+, does not answer)" < <("$STRATUS" dump "$COORDINATOR_PID"); }
epoch_now() { coordinator_says epoch | awk '{ print $2 }'; }
# A member that was started anew looks as before until the coordinator hears of it: there is a new view for it.
came_back() { [ "$(epoch_now)" -gt "$1" ] && all_quiet_in; }
# again WHY: the case is begun once more, with another $NAME. A view may have been made because a member or its disk was slow. That happens once;
# a mistake does it each time.
again() { AGAIN=$*; }
# The coordinator has decided once more, and more than once, since it was $1.
generation_now() { coordinator_says generation | awk '{ print $2 }'; }
generations_passed() { [ "$(generation_now)" -gt $(($1 + $2)) ]; }
decided_again() {
	local generation
	generation=$(generation_now)
	wait_until 60 generations_passed "$generation" 1 || fail "case $1: generations do not pass"
}
# in_background NAME COMMAND...: its status goes to $SCRATCH/NAME.status.
in_background() {
	local name=$1
	shift
	rm -f "$SCRATCH/$name.status"
	(
		status=0
		"$@" >"$SCRATCH/$name.out" 2>&1 &
		trap 'kill $! 2>/dev/null' TERM # it does not outlive a case that fails
		wait $! || status=$?
		echo "$status" >"$SCRATCH/$name.status"
	) &
	note $! "$name"
}
ended_well() { # NAME SECONDS
	wait_until "$2" test -s "$SCRATCH/$1.status" || fail "$1 goes on after $2 s"
	[ "$(cat "$SCRATCH/$1.status")" = 0 ] || fail "$1 failed: $(head -n 3 "$SCRATCH/$1.out")"
}
make_tree() { # DIR FILES
	python3 - "$1" "$2" <<-'PY'
	import os, sys
	top, count = sys.argv[1], int(sys.argv[2])
	for i in range(count):
	    os.makedirs(f"{top}/{i % 20}", exist_ok=True)
	    with open(f"{top}/{i % 20}/{i}", "wb") as f:
	        f.write(b"%d," % i * (i % 700))
	PY
}

births() { (cd "$1" && find "${@:2}" -print0 | sort -z | xargs -0 stat -c '%n %w'); } # DIR NAME...
# A member that dies in the middle of a copy is no error to the copy, and gets all of it when it is back. Whoever is asked tells the same times of birth.
case_1() {
	make_tree "$SCRATCH/tree" "$FILES"
	mkdir "$MNT/copy"
	in_background copy timeout 300 bash -euc 'cd "$1"
		for dir in *; do
			cp -a "$dir" "$2/"
			: >"$3/copied-$dir"
			[ "$dir" != 7 ] || until [ -e "$3/killed" ]; do sleep 0.05; done # it can not be over before
		done' copy "$SCRATCH/tree" "$MNT/copy" "$SCRATCH"
	wait_until 60 test -e "$SCRATCH/copied-4" || fail "case 1: the copy does not begin: $(head -n 3 "$SCRATCH/copy.out")" # goes on with 5
	births "$OTHER/copy" 0 1 >"$SCRATCH/births-before"
	kill_member 1
	: >"$SCRATCH/killed"
	ended_well copy 300
	births "$OTHER/copy" 0 1 | cmp -s - "$SCRATCH/births-before" || fail "case 1: births are others when a member is down"
	births "$MNT/copy" . >"$SCRATCH/births-down"
	diff -r "$SCRATCH/tree" "$OTHER/copy" >/dev/null || fail "case 1: the copy is not whole while a member is down"
	start_member 1
	healed 1
	diff -r "$SCRATCH/tree" "$OTHER/copy" >/dev/null || fail "case 1: the copy is not whole after the healing"
	births "$OTHER/copy" . | cmp -s - "$SCRATCH/births-down" || fail "case 1: births are others after the healing"
	births "$MNT/copy" 0 1 | cmp -s - "$SCRATCH/births-before" || fail "case 1: births are not what they were before a member was down"
}

# Without a quorum writes fail with EROFS or EIO after max-wait and nothing hangs; it all goes on when the members are back.
case_2() {
	echo before >"$MNT/two"
	kill_member 0
	kill_member 2
	timeout 300 python3 - "$MNT/two" "$OTHER/two" <<-'PY' || fail "case 2: with two members down"
	import errno, os, sys, time
	def timed(limit, fn):
	    begin = time.monotonic()
	    try:
	        result = fn()
	    except OSError as e:
	        result = e.errno
	    assert time.monotonic() - begin < limit, f"took {time.monotonic() - begin:.1f} s"
	    return result
	got = fd = timed(40, lambda: os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)) # each call waits at most max-wait, and it may be several
	if fd not in (errno.EROFS, errno.EIO):
	    got = timed(40, lambda: os.write(fd, b"more"))
	    timed(40, lambda: os.close(fd))
	assert got in (errno.EROFS, errno.EIO), f"a write without a quorum gave {got}"
	got = timed(40, lambda: open(sys.argv[2], "rb").read())
	assert got in (b"before\n", errno.EIO, errno.EROFS), f"a read without a quorum gave {got}"
	PY
	start_member 0
	start_member 2
	wait_until 30 sh -c "echo after >'$MNT/two-after'" || fail "case 2: no writes when the members are back"
	[[ $(head -n 1 "$OTHER/two") == before ]] || fail "case 2: what was there before is lost: $(cat "$OTHER/two")"
	healed 2
}

# All servers and the coordinator die at once: what was fsynced is there, and the bricks become equal.
case_3() {
	mkdir "$MNT/three"
	python3 - "$MNT/three" "$SCRATCH/three.list" >"$SCRATCH/three.out" 2>&1 <<-'PY' &
	import os, sys
	top, listing, i = sys.argv[1], open(sys.argv[2], "w", buffering=1), 0
	while True:
	    i += 1
	    fd = os.open(f"{top}/{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
	    os.write(fd, b"%d\n" % i * 1000)
	    os.fsync(fd)
	    os.close(fd)
	    listing.write(f"{i}\n")
	PY
	local writer=$! i
	note "$writer" writer
	wait_until 20 sh -c "[ \$(wc -l <'$SCRATCH/three.list') -gt 50 ]" || fail "case 3: no files are written: $(cat "$SCRATCH/three.out")"
	kill -9 "${MEMBER_PID[@]}" "$COORDINATOR_PID"
	for i in 0 1 2; do kill_member "$i" 2>/dev/null || true; done
	wait "$COORDINATOR_PID" 2>/dev/null || true
	unset "PIDS[$COORDINATOR_PID]"
	! gone "$writer" || fail "case 3: the writer has ended by itself: $(tail -n 1 "$SCRATCH/three.out")"
	kill -9 "$writer"
	wait "$writer" 2>/dev/null || true
	for i in 0 1 2; do start_member "$i"; done
	start_coordinator
	wait_until 60 all_in || fail "case 3: the members do not come together again"
	while read -r i; do
		[ "$(timeout 60 wc -l <"$OTHER/three/$i")" = 1000 ] || fail "case 3: file $i was fsynced and is not whole"
	done <"$SCRATCH/three.list"
	healed 3
}

# A replaced, empty disk gets everything, and the mounts go on as they are.
case_4() {
	make_tree "$MNT/$NAME" 500
	local before=$MOUNT_PID
	kill_member 2
	rm -rf "${MEMBER_BRICK[2]}"
	mkdir "${MEMBER_BRICK[2]}"
	start_member 2
	make_tree "$MNT/$NAME-more" 100
	healed 4
	! gone "$before" || fail "case 4: the mount has ended"
	local views
	views=$(coordinator_says epoch)
	echo new >"$MNT/$NAME-root" # by the root's new handle
	decided_again 4
	[ "$views" = "$(coordinator_says epoch)" ] || { again "there was a new view: $(coordinator_says why)"; return; }
	make_tree "$OTHER/$NAME-after" 50
	healed 4
}

more_lines() { # KIB: so much is written to the file from now on
	local size
	size=$(stat -c %s "$MNT/five")
	wait_until 60 eval "[ \$(stat -c %s '$MNT/five') -gt $((size + $1 * 1024)) ]"
}
# An open file takes writes, and a lock on it holds, through a member's death and return.
case_5() {
	python3 - "$MNT/five" "$OTHER/five" "$SCRATCH" >"$SCRATCH/five.out" 2>&1 <<-'PY' &
	import fcntl, os, sys, time
	here, other, scratch = sys.argv[1:]
	fd = os.open(here, os.O_RDWR | os.O_CREAT, 0o644)
	fcntl.lockf(fd, fcntl.LOCK_EX, 10, 0)
	fcntl.flock(fd, fcntl.LOCK_EX)
	rival = os.open(other, os.O_RDWR)
	def refused(take):
	    try:
	        take()
	        return False
	    except BlockingIOError:
	        return True
	i = 0
	while not os.path.exists(scratch + "/five.stop"):
	    os.write(fd, b"%07d\n" % i)
	    i += 1
	    if i % 20 == 0:
	        assert refused(lambda: fcntl.lockf(rival, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)), f"the other got the POSIX lock, line {i}"
	        assert refused(lambda: fcntl.flock(rival, fcntl.LOCK_EX | fcntl.LOCK_NB)), f"the other got the flock lock, line {i}"
	    if i == 20:
	        open(scratch + "/five.ready", "w").close()
	    time.sleep(0.002)
	fcntl.lockf(fd, fcntl.LOCK_UN, 10, 0)
	fcntl.flock(fd, fcntl.LOCK_UN)
	end = time.monotonic() + 120
	while refused(lambda: fcntl.lockf(rival, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)):
	    assert time.monotonic() < end, "the lock is held after it was given back"
	    time.sleep(0.1)
	lines = open(other).read().split("\n")[:-1]
	assert lines == ["%07d" % n for n in range(i)], f"{len(lines)} lines for {i}"
	PY
	local user=$! i status=0 epoch
	note "$user" user
	wait_until 20 test -e "$SCRATCH/five.ready" || fail "case 5: $(tail -n 1 "$SCRATCH/five.out")"
	for i in 0 1 2; do
		epoch=$(epoch_now)
		kill_member "$i"
		wait_until 20 missed "$i" || fail "case 5: the coordinator does not notice that member $i has ended"
		start_member "$i"
		wait_until 60 came_back "$epoch" || fail "case 5: member $i is not healed"
		more_lines 3 || fail "case 5: nothing more is written: $(tail -n 1 "$SCRATCH/five.out")"
	done
	touch "$SCRATCH/five.stop"
	wait_until 60 gone "$user" || fail "case 5: the user of the file hangs"
	wait "$user" || status=$?
	unset "PIDS[$user]"
	[ "$status" = 0 ] || fail "case 5: $(tail -n 1 "$SCRATCH/five.out")"
	healed 5
}

# A mount that is killed in the middle of writes leaves equal bricks, and its tokens stop nobody for long.
case_6() {
	mkdir "$MNT/six"
	echo one >"$OTHER/six/file"
	local i
	for i in 1 2 3 4; do
		(while dd if=/dev/zero of="$OTHER/six/file" bs=64k count=20 conv=notrunc && mv "$OTHER/six/file" "$OTHER/six/file.$i" &&
			mv "$OTHER/six/file.$i" "$OTHER/six/file"; do :; done) >/dev/null 2>&1 &
		note $! "writer $i"
	done
	sleep 1
	kill -9 "$OTHER_PID"
	wait "$OTHER_PID" 2>/dev/null || true
	unset "PIDS[$OTHER_PID]"
	timeout 60 sh -ec "echo two >'$MNT/six/file'; mkdir '$MNT/six/dir'" || fail "case 6: another mount is not let go on" # each for max-wait at most
	umount -l "$OTHER"
	start_mount "$SCRATCH/other"
	OTHER_PID=$LAST_PID
	healed 6
}

# A mount that was away longer than its session lasts does not write over what another one has appended meanwhile.
sessions_ended() { awk '/ session of .* ended$/ { n++ } END { print n + 0 }' "$STACK/member$1.log"; }
ended_more() { [ "$(sessions_ended "$1")" -gt "$2" ]; }
case_7() {
	local address i ended=()
	need ss
	echo one >>"$OTHER/seven"
	wait_until 60 replicas_rest || fail "case 7: a change is not settled" # all that is left of it is the token
	for i in 0 1 2; do ended[i]=$(sessions_ended "$i"); done
	kill -STOP "$OTHER_PID"
	for address in $(ss -tnpH | awk -v pid="pid=$OTHER_PID," 'index($0, pid) { print $4 }'); do
		ss -K src "$address" >/dev/null 2>&1 || break # what is left is seen below
	done
	if ss -tnpH | grep -q "pid=$OTHER_PID,"; then
		kill -CONT "$OTHER_PID"
		leave_out "case 7: ss can't cut connections here"
		return
	fi
	for i in 0 1 2; do wait_until 20 ended_more "$i" "${ended[i]}" || fail "case 7: the session does not end at member $i"; done
	echo two >>"$MNT/seven"
	kill -CONT "$OTHER_PID"
	timeout 60 sh -c "echo three >>'$OTHER/seven'" || fail "case 7: the mount that was away can't append"
	[ "$(tr '\n' ' ' <"$MNT/seven")" = "one two three " ] || fail "case 7: lines are lost: $(tr '\n' ' ' <"$MNT/seven")"
	healed 7
}

lock_is_free() {
	timeout 60 python3 - "$MNT/eight" <<-'PY' 2>/dev/null
	import fcntl, os, sys
	fd = os.open(sys.argv[1], os.O_RDWR)
	fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
	fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
	PY
}

# Who waits for a lock at a member that hangs, and is left out, gets it as soon as it is free; nothing of it is left at that member.
case_8() {
	: >"$MNT/eight"
	cat >"$SCRATCH/eight.py" <<-'PY'
	import fcntl, os, sys, time
	path, scratch, name = sys.argv[1:]
	fd = os.open(path, os.O_RDWR)
	fcntl.lockf(fd, fcntl.LOCK_EX)
	fcntl.flock(fd, fcntl.LOCK_EX)
	open(f"{scratch}/{name}.has", "w").close()
	while not os.path.exists(f"{scratch}/{name}.stop"):
	    time.sleep(0.05)
	fcntl.flock(fd, fcntl.LOCK_UN)
	fcntl.lockf(fd, fcntl.LOCK_UN)
	while not os.path.exists(f"{scratch}/{name}.close"): # it has no lock any more, and does nothing with the file
	    time.sleep(0.05)
	PY
	in_background eight-1 python3 "$SCRATCH/eight.py" "$MNT/eight" "$SCRATCH" one
	wait_until 10 test -e "$SCRATCH/one.has" || fail "case 8: nobody gets the lock"
	in_background eight-2 python3 "$SCRATCH/eight.py" "$OTHER/eight" "$SCRATCH" two
	sleep 1
	[ ! -e "$SCRATCH/two.has" ] || fail "case 8: two have the lock"
	kill -STOP "${MEMBER_PID[0]}"
	wait_until 20 member_is 0 out || fail "case 8: the member that hangs is not left out"
	touch "$SCRATCH/one.stop"
	wait_until 30 test -e "$SCRATCH/two.has" || fail "case 8: the lock is free, and who waits for it does not get it"
	kill -CONT "${MEMBER_PID[0]}"
	wait_until 60 all_quiet_in || fail "case 8: not healed"
	touch "$SCRATCH/two.stop" "$SCRATCH/two.close"
	ended_well eight-2 20
	wait_until 10 lock_is_free || fail "case 8: a lock is left over of who has the file open"
	touch "$SCRATCH/one.close"
	ended_well eight-1 20
	wait_until 10 lock_is_free || fail "case 8: a lock is left over"
	healed 8
}

# What is deeper than any recursion can be changed by a mount that has just begun, at bricks that have just begun.
case_9() {
	local i views epoch
	in_depth() { # DIR make|write
		timeout 200 python3 - "$1" "$2" <<-'PY'
		import os, sys
		os.chdir(sys.argv[1])
		for i in range(300):
		    if sys.argv[2] == "make":
		        os.mkdir("d")
		    os.chdir("d")
		with open(sys.argv[2], "x") as f:
		    f.write("deep")
		PY
	}
	mkdir "$MNT/$NAME"
	in_depth "$MNT/$NAME" make || fail "case 9: the tree can't be made"
	for i in 0 1 2; do
		epoch=$(epoch_now)
		kill_member "$i"
		wait_until 20 missed "$i" || fail "case 9: the coordinator does not notice that member $i has ended"
		start_member "$i"
		wait_until 40 came_back "$epoch" || fail "case 9: member $i does not come back"
	done
	stop_mount "$OTHER" "$OTHER_PID"
	start_mount "$SCRATCH/other"
	OTHER_PID=$LAST_PID
	views=$(coordinator_says epoch)
	in_depth "$OTHER/$NAME" write || fail "case 9: nothing can be made 300 directories down"
	decided_again 9
	[ "$views" = "$(coordinator_says epoch)" ] || { again "there was a new view: $(coordinator_says why)"; return; }
	healed 9
}

# heal_with OPTION...: so the coordinator heals from now on; none: as it does without options.
heal_with() {
	local option
	sed -i '/option heal-/d' "$STACK/coordinator.vol"
	for option; do sed -i "/^ *type cluster\/coordinator/a\    option $option" "$STACK/coordinator.vol"; done
	"$STRATUS" reload "$COORDINATOR_PID" >/dev/null || fail "the coordinator does not take its options: $*"
}
# misses MEMBER BYTES NAME: a file of random bytes is written without that member, which then is back and is healed.
misses() {
	kill_member "$1"
	wait_until 10 member_is "$1" out || fail "$3: the member is not left out"
	head -c "$2" /dev/urandom >"$SCRATCH/$3"
	cp "$SCRATCH/$3" "$MNT/$3"
	start_member "$1"
	wait_until 20 member_is "$1" back || fail "$3: the member does not come back"
}

# A large file is healed in pieces: who writes to it meanwhile waits for none of it, though all of it takes longer than a write may: two minutes,
# or until 16 pieces are healed and 100 writes are done; then the rest is done fast, while writes go on.
case_10() {
	heal_with "heal-bandwidth 512K" "heal-piece 256K"
	head -c 60000000 /dev/urandom >"$MNT/ten"
	misses 2 60000000 ten
	cat >"$SCRATCH/ten.py" <<-'PY'
	import os, random, re, subprocess, sys
	there, here = os.open(sys.argv[1], os.O_RDWR), os.open(sys.argv[2], os.O_RDWR)
	def dump():
	    return subprocess.run([sys.argv[3], "dump", sys.argv[4]], capture_output=True, text=True).stdout
	def healed(text):
	    return int(re.search(r"bytes healed: (\d+)", text).group(1))
	def write():
	    data, at = random.randbytes(5000), random.randrange(0, 59990000)
	    assert os.pwrite(there, data, at) == 5000
	    os.pwrite(here, data, at)
	text = dump()
	begin, writes, enough = healed(text), 0, False
	while not re.search(r"member 2: in", text):
	    for i in range(20):
	        write()
	    writes += 20
	    text = dump()
	    if not enough and writes >= 100 and healed(text) - begin >= 16 * 256 * 1024:
	        assert re.search(r"member 2: back", text), f"not being healed after {writes} writes: " + text
	        open(sys.argv[5], "w").close()
	        enough = True
	assert enough, f"only {writes} writes while {healed(text) - begin} bytes were healed"
	PY
	in_background ten timeout 300 python3 "$SCRATCH/ten.py" "$MNT/ten" "$SCRATCH/ten" "$STRATUS" "$COORDINATOR_PID" "$SCRATCH/ten.enough"
	wait_until 200 test -e "$SCRATCH/ten.enough" -o -s "$SCRATCH/ten.status" || fail "case 10: no 100 writes, or no 16 pieces"
	heal_with
	ended_well ten 200
	healed 10
	cmp "$SCRATCH/ten" "$OTHER/ten" || fail "case 10: the file is not what was written"
}

# One that is being healed makes a quorum with one that is left: a third that is gone need not come back for that. What is changed without it
# it gets when it is back.
case_11() {
	heal_with "heal-bandwidth 16K" # 50 MB take an hour: until it is told to be faster
	misses 0 50000000 eleven
	kill_member 2
	wait_until 60 sh -c "! touch '$MNT/eleven-early' 2>/dev/null" || fail "case 11: changes go on without a quorum"
	wait_until 20 member_is 0 back || fail "case 11: it is not being healed any more: $(coordinator_says why)"
	heal_with
	wait_until 60 member_is 0 in || fail "case 11: what is being healed does not become whole: $(coordinator_says why)"
	wait_until 20 sh -c "echo without >'$MNT/eleven-late'" || fail "case 11: no changes though two are whole"
	cmp "$SCRATCH/eleven" "$OTHER/eleven" || fail "case 11: the file is not what was written"
	[ "$(cat "$OTHER/eleven-late")" = without ] || fail "case 11: what was written without the third is not there"
	start_member 2
	healed 11
	[ "$(cat "$OTHER/eleven-late")" = without ] || fail "case 11: what was written without the third is lost"
}

has_no_lease() { grep -q 'lease: 0 ms' < <("$STRATUS" dump "${MEMBER_PID[$1]}"); }
was_killed() { # PID
	local status=0
	wait "$1" 2>/dev/null || status=$?
	unset "PIDS[$1]"
	[ "$status" = 137 ]
}
try_lock() { # FILE: 0: got it; 3: it is another's
	timeout 60 python3 -c '
import fcntl, os, sys
try:
    fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(3)' "$1" 2>/dev/null
}
is_locked() {
	local status=0
	try_lock "$1" || status=$?
	[ "$status" != 0 ] || fail "case 12: a lock that is held is given to another, too"
	[ "$status" = 3 ]
}

# Who waits for a lock can be killed while no member serves; who holds one keeps it.
case_12() {
	local i waiters=() holders=()
	for i in 1 2 3 4; do
		python3 -c 'import fcntl, os, sys, time; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX); print(flush=True); time.sleep(2000)' \
			"$MNT/twelve$i" >"$SCRATCH/twelve$i" &
		note $! "holder of a lock"
		holders[i]=$!
		wait_until 10 test -s "$SCRATCH/twelve$i" || fail "case 12: a lock that is free is not given"
		python3 -c 'import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR); print(flush=True); fcntl.lockf(fd, fcntl.LOCK_EX)' \
			"$OTHER/twelve$i" >"$SCRATCH/twelve$i.waiter" &
		note $! "waiter for a lock"
		waiters+=($!)
		wait_until 10 test -s "$SCRATCH/twelve$i.waiter" || fail "case 12: a file whose lock is another's can't be opened" # else that may come when no member serves
	done
	kill -STOP "$COORDINATOR_PID"
	for i in 0 1 2; do wait_until 60 has_no_lease "$i" || fail "case 12: member $i serves without a coordinator: $("$STRATUS" dump "${MEMBER_PID[i]}" 2>&1 | grep -A12 -e "lease" -e "replica" | head -40)"; done
	sleep 4 # who waits has asked for the view in vain
	for i in "${waiters[@]}"; do ! gone "$i" || fail "case 12: one does not wait for its lock"; done
	kill -9 "${waiters[@]}"
	wait_until 15 gone "${waiters[@]}" || fail "case 12: who waits for a lock can't be killed" # closing the file takes until max-wait
	for i in "${waiters[@]}"; do was_killed "$i" || fail "case 12: one that waited has ended by itself"; done
	kill -CONT "$COORDINATOR_PID"
	for i in 1 2 3 4; do
		wait_until 30 is_locked "$OTHER/twelve$i" || fail "case 12: a lock that is held is given to another, too"
		! gone "${holders[i]}" || fail "case 12: who holds a lock has ended"
		kill -9 "${holders[i]}"
		was_killed "${holders[i]}" || fail "case 12: who held a lock had ended"
		wait_until 30 try_lock "$OTHER/twelve$i" || fail "case 12: the lock of a dead process is kept"
	done
	healed 12
}

# A file that is open and has no name any more: a member that was started anew does not have it, and need not. It stays in the set.
case_13() {
	local views
	cat >"$SCRATCH/thirteen.py" <<-'PY'
	import os, sys, time
	path, sign = sys.argv[1:]
	fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
	os.write(fd, b"one ")
	os.unlink(path)
	open(sign + ".ready", "w").close()
	while not os.path.exists(sign + ".go"):
	    time.sleep(0.05)
	for i in range(20):
	    os.pwrite(fd, b"two ", 4 + 4 * i)
	os.fsync(fd)
	assert os.pread(fd, 1000, 0) == b"one " + b"two " * 20, os.pread(fd, 1000, 0)
	os.fchmod(fd, 0o640)
	assert os.fstat(fd).st_mode & 0o777 == 0o640 and os.fstat(fd).st_size == 84
	PY
	in_background "$NAME" python3 "$SCRATCH/thirteen.py" "$MNT/$NAME" "$SCRATCH/$NAME"
	wait_until 20 test -e "$SCRATCH/$NAME.ready" || fail "case 13: $(cat "$SCRATCH/$NAME.out")"
	views=$(epoch_now)
	kill_member 1
	wait_until 20 missed 1 || fail "case 13: the coordinator does not notice that member 1 has ended"
	start_member 1
	wait_until 60 came_back "$views" || fail "case 13: the member does not come back"
	views=$(epoch_now)
	touch "$SCRATCH/$NAME.go"
	ended_well "$NAME" 60
	decided_again 13
	[ "$views" = "$(epoch_now)" ] || { again "there was a new view: $(coordinator_says why)"; return; }
	healed 13
}

# Copying (copy_file_range) is one change like others: no member is taken for one that differs, so there is no new view. Run on a set with an
# arbiter, too (REPLICA=3a), which copies nothing.
case_14() {
	local views
	head -c 3000000 /dev/urandom >"$MNT/$NAME"
	views=$(epoch_now)
	python3 - "$MNT/$NAME" "$MNT/$NAME.copy" <<-'PY' || fail "case 14: the copy failed"
	import os, sys
	source = os.open(sys.argv[1], os.O_RDONLY)
	target = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
	left = 3000000
	while left:
	    n = os.copy_file_range(source, target, left)
	    assert n, f"{left} bytes are not copied"
	    left -= n
	PY
	cmp "$MNT/$NAME" "$MNT/$NAME.copy" || fail "case 14: the copy differs"
	decided_again 14
	[ "$views" = "$(epoch_now)" ] || { again "there was a new view: $(coordinator_says why)"; return; }
	rm "$MNT/$NAME" "$MNT/$NAME.copy"
}

# Two members that are IN disagree about a directory that no list tells of, and neither can be left out (as after a power cut of all): who makes
# something there is not told that it is done before both have it; and it is done, for the coordinator finds what one lacks.
case_15() {
	local generation views lower=${MEMBER_BRICK[2]}/$NAME/lower
	mkdir -p "$MNT/$NAME/lower"
	echo old >"$MNT/$NAME/lower/old"
	generation=$(generation_now)
	wait_until 60 generations_passed "$generation" 4 || fail "case 15: generations do not pass" # what was changed then is in no index any more
	kill_member 1
	wait_until 20 member_is 1 out || fail "case 15: a member that was killed is not left out"
	kill_member 2
	wait_until 20 missed 2 || fail "case 15: nobody misses the second"
	rm -r "$lower"
	start_member 2
	wait_until 60 member_is 2 in || fail "case 15: the second does not come back"
	views=$(epoch_now)
	echo new >"$MNT/$NAME/lower/new" || {
		again "nothing could be made in a directory that one lacks: $(coordinator_says why)"
		start_member 1
		return
	}
	[ "$(cat "$lower/new" "$lower/old")" = $'new\nold' ] || fail "case 15: it was told to be done, and the second does not have it"
	[[ "$(coordinator_says why)" == *lacks* ]] || again "it was not the coordinator that found what one lacks: $(coordinator_says why)"
	[ $(($(epoch_now) - views)) -le 2 ] || again "$(($(epoch_now) - views)) views were made for one directory"
	start_member 1
	healed 15
}

for number in ${CASES:-1 2 3 4 5 6 7 8 9 10 11 12 13 14 15}; do
	for try in 1 2 3 4; do
		AGAIN= NAME=case$number-$try
		"case_$number"
		[ -n "$AGAIN" ] || break
		say "case $number once more: $AGAIN"
		healed "$number, try $try,"
	done
	[ -z "$AGAIN" ] || fail "case $number: $AGAIN"
done
stop_mount "$OTHER" "$OTHER_PID"
stop_stack
[ -n "${CASES-}" ] || REPLICA=3a CASES=14 "$0" || fail "case 14 with an arbiter"
pass
