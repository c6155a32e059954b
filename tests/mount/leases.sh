#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Leases on a brick without replicas (doc/leases.md): what is believed costs no question, what another mount changes is recalled first, and a mount that does not
# answer, or a brick that is killed, lets others wait and nobody read what is old.
SPREAD=2 REPLICA=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
need setfacl
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER=$SCRATCH/other OTHER_PID=$LAST_PID

count() { facts "$1" | awk -F': ' -v what="  $2" '$1 == what { sum += $2 } END { print sum + 0 }'; }
recalls() { count "$OTHER" recalls; }
# The other mount believes that the file has that size.
believe() { # NAME SIZE
	local before tries
	for ((tries = 0; tries < 200; tries++)); do
		before=$(count "$OTHER" believed)
		[ "$(stat -c %s "$OTHER/$1")" = "$2" ] || fail "the other mount says $(stat -c %s "$OTHER/$1") of $1, not $2"
		[ "$(count "$OTHER" believed)" -gt "$before" ] && return
	done
	fail "the other mount believes nothing of $1"
}

# ---- it is believed, and recalled ----
chmod 755 "$MNT"
mkdir "$MNT/d"
echo 1 >"$MNT/d/f"
for ((i = 0; i < 20; i++)); do # what was told has a time: on a busy machine it may be over before the change
	believe d/f 2
	before=$(recalls)
	echo 22 >"$MNT/d/f"
	[ "$(stat -c %s "$OTHER/d/f")" = 3 ] || fail "the other mount reads what is old"
	[ "$(recalls)" -le "$before" ] || break
	echo 1 >"$MNT/d/f"
done
[ "$i" -lt 20 ] || fail "nothing was recalled"
say "recalls: $(recalls)"

# ---- what a brick has lost is not told again because it is known here ----
echo lost >"$MNT/d/lost"
cat "$OTHER/d/lost" >/dev/null # what is read for the first time has another time of access
kept_none() { facts "$OTHER" | grep -q "kept open: 0"; }
wait_until 20 kept_none || fail "a file that was closed is kept open"
believe d/lost 5
rm "$STACK"/brick*/d/lost
said=$(LC_ALL=C cat "$OTHER/d/lost" 2>&1 || :)
[[ $said == *"No such file"* ]] || fail "of a file that its brick has lost it is said: $said"

# ---- one that does not answer lets others wait, and reads nothing old afterwards ----
for what in size name; do
	believe d/f 3
	kill -STOP "$OTHER_PID"
	case $what in
	size) timeout 60 truncate -s 7 "$MNT/d/f" || fail "a mount that is stopped keeps another from changing a file" ;;
	name) timeout 60 mv "$MNT/d/f" "$MNT/d/g" || fail "a mount that is stopped keeps another from renaming a file" ;;
	esac
	kill -CONT "$OTHER_PID"
	case $what in
	size) [ "$(stat -c %s "$OTHER/d/f")" = 7 ] || fail "a mount that was stopped reads the old size" ;;
	name) [ ! -e "$OTHER/d/f" ] && [ -e "$OTHER/d/g" ] || fail "a mount that was stopped reads the old name" ;;
	esac
	truncate -s 3 "$MNT"/d/[fg]
done
mv "$MNT/d/g" "$MNT/d/f"

# ---- a brick that is killed has forgotten what it told; who was stopped meanwhile may believe it ----
believe d/f 3
at=0
[ -e "$STACK/brick0/d" ] || at=1
[ -e "$STACK/brick$at/.stratus/leases" ] || fail "that something is believed is not recorded"
kill -STOP "$OTHER_PID"
kill_server $at
start_server $at
timeout 60 truncate -s 9 "$MNT/d/f" || fail "no change after the brick was killed"
kill -CONT "$OTHER_PID"
[ "$(stat -c %s "$OTHER/d/f")" = 9 ] || fail "what a killed brick has told is believed after it was changed"

# ---- a file that is kept open when the connection breaks is released when there is one again ----
kept() { facts "$OTHER" | sed -n 's/.*kept open: //p'; }
none_kept() { [ "$(kept)" = 0 ]; }
held() { ls -l "/proc/${SERVER_PID[$at]}/fd" | grep ' -> .*/brick[^/]*/d/f$'; }
not_held() { ! held; }
read_and_kept() { cat "$OTHER/d/f" >/dev/null && held && [ "$(kept)" -gt 0 ]; }
lost() { grep -q "port $port lost" "$STACK/mount-other.log"; }
break_connections() { ss -K -t "( sport = :$port or dport = :$port )" >/dev/null 2>&1; lost; }
port=$(sed -n 's/.*option listen .*:\([0-9]*\)$/\1/p' "$STACK/server-s$at.vol")
chmod 644 "$MNT/d/f"
wait_until 60 read_and_kept || fail "no file is kept open, or the test can't see it: $(ls -l "/proc/${SERVER_PID[$at]}/fd")"
kill -STOP "${SERVER_PID[$at]}"
: >"$STACK/mount-other.log"
if poll 5 break_connections; then
	wait_until 60 none_kept || fail "a file is kept open for ever"
	sleep 3 # whoever gives up does it in that time
else
	leave_out "connections can't be broken here"
fi
kill -CONT "${SERVER_PID[$at]}"
[ "$(timeout 60 stat -c %s "$OTHER/d/f")" = 9 ] || fail "the other mount does not find the brick again"
wait_until 60 not_held || fail "the brick has a file open that nobody uses: $(held)"

# ---- what this mount takes away is not as it was known ----
python3 - "$OTHER/d" <<'END' || fail "what the mount itself has changed is as it was"
import errno, os, sys
d = sys.argv[1]
for i in range(20):
    os.mkdir(f"{d}/gone")
    os.stat(f"{d}/gone")
    fd = os.open(f"{d}/gone", os.O_RDONLY)
    os.fstat(fd)
    os.rmdir(f"{d}/gone")
    links = os.fstat(fd).st_nlink
    assert links == 0, f"a removed directory has {links} links"
    os.close(fd)
    os.listdir(d)
    try:
        os.lstat(d + "/" + "x" * 256)
    except OSError as e:
        assert e.errno == errno.ENAMETOOLONG, e
END

# ---- nor is the time of access when a file is read for the first time ----
python3 - "$MNT/d/read" "$OTHER/d/read" "$SCRATCH/read" <<'END' || fail "who has read a file does not see that it was read"
import os, sys, time
def seen_after_reading(writer, reader):
    with open(writer, "wb") as f:
        f.write(b"text")
    time.sleep(0.1) # longer than a tick of the kernel's clock
    os.stat(reader)
    with open(reader, "rb", buffering=0) as f:
        os.fstat(f.fileno())
        assert f.read(100) == b"text"
        s = os.fstat(f.fileno())
    return s.st_atime_ns > s.st_mtime_ns
if seen_after_reading(sys.argv[3], sys.argv[3]): # else the disk does not note it
    for i in range(10):
        assert seen_after_reading(sys.argv[1], sys.argv[2]), i
END

# ---- what the kernel does not know to be another mode ----
for ((i = 0; i < 10; i++)); do
	: >"$MNT/d/acl$i"
	chmod 600 "$MNT/d/acl$i"
	[ "$(stat -c %a "$OTHER/d/acl$i")" = 600 ] || fail "the mode of a new file"
	setfacl -m u:99:rwx "$OTHER/d/acl$i"
	[ "$(stat -c %a "$OTHER/d/acl$i")" = 670 ] || fail "with an ACL the mode is $(stat -c %a "$OTHER/d/acl$i"), or was so just before"
	: >"$MNT/d/suid$i"
	chmod 4777 "$MNT/d/suid$i"
	said=$(setpriv --reuid 1001 --regid 1001 --clear-groups bash -c "stat -c %a $OTHER/d/suid$i; echo x 1<>$OTHER/d/suid$i; stat -c %a $OTHER/d/suid$i" | paste -sd ' ')
	[ "$said" = "4777 777" ] || fail "before and after another one has written into a file its mode is $said"
done

# ---- and goes on ----
believe d/f 9
rm "$MNT/d/f"
[ ! -e "$OTHER/d/f" ] || fail "a removed name is believed"
stop_mount "$OTHER" "$OTHER_PID"
stop_stack
pass
