#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three members cost a client no round trip more than one: what doc/replication.md says of a change, a read and a token is what is sent.
#
# strace notes what goes through the sockets of the mounts while a program does one operation many times; counts-replica.py takes the
# messages apart. A round trip is what is sent before an answer to any of it has been read, so three messages in parallel are one.
# Only the mounts are watched: the coordinator's leases go between other processes. Not counted is what nobody waits for: the message
# that tells, 20 ms after the last change, that all are settled (a slow machine has such pauses between operations), and pings. All else
# is, whoever asked for it. `counts-replica.sh --print` prints the numbers and asserts nothing.
# alone: it counts messages and calls that pauses add to
REPLICA=3
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need strace python3
TIMES=100

# operation, round trips in all, and each kind of message that there is, as often in all, per operation. No other kind may be there.
#   stat       the kernel looks the name up at one member; the attributes come with it
#   read       one message to one member
#   write      one message to each of the three members
#   create     the kernel looks the name up, then the file is made: one message to each member. It is released at each member later;
#              nobody waits for that
#   create-in-new  the first change in a directory that this mount has made: the kernel looks up the directory and the name. The token came with
#              the answer to mkdir
#   create-in-found  the same where another mount has made the directory, and gives its token back (a message to its granter asks for it); this mount
#              knows the directory from a lookup, which went to one member: it is looked up at the two others while the change goes to the
#              first, then the change goes to them. That is one round trip more, or two steps in it if the answers of the two do not come
#              together
#   unlink     the kernel looks the name up; one message to each member. The tokens of what is forgotten go back by and by, many with one
#              message, for which nobody waits
#   rmdir      the same: of a directory that this mount has seen under the token of the parent it knows what it is
#   turns      two mounts write one file in turn: one asks for the token, the other gives it back, the first writes: three round trips one
#              after the other, the most that a change costs whose token another has (a recall is an event, and no request)
LIMITS="
stat           1  lookup=1
read           1  read=1
write          1  write=3
create         2  lookup=1 create=3 release=3
create-in-new  3  lookup=2 create=3 release=3
create-in-found  5-7  lookup=4 acquire=1 give-back=1 create=3 release=3
unlink         2-2.5  lookup=1 unlink=3 give-back=0-0.5
rmdir          2-2.5  lookup=1 rmdir=3 give-back=0-0.5
turns          3  acquire=1 give-back=1 write=3
"
scratch
start_stack "$SCRATCH"
start_mount "$SCRATCH/other"
OTHER_PID=$LAST_PID
# What the kernel believes for a while would make the numbers depend on how fast the machine is.
for top in "$MNT" "$SCRATCH/other"; do
	"$STRATUS" set "$top" fuse busy-poll 0
	"$STRATUS" set "$top" fuse believe off
done
PORTS=$(IFS=,; echo "${MEMBER_PORT[*]}")

# One program does all operations, on files of its own; it tells when it is ready and begins when told to.
cat >"$SCRATCH/operate.py" <<'END2'
import os, sys
what, top, other, times, ready = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
os.mkdir(f"{top}/{what}")
os.chdir(f"{top}/{what}")
def create(path): os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
for i in range(times if what.startswith("create-in") else 0):
    os.mkdir(f"{other if what == 'create-in-found' else top}/{what}/{i}")
for i in range(times if what in ("unlink", "rmdir") else 0):
    os.mkdir(f"d{i}") if what == "rmdir" else create(f"d{i}")
create("file")  # takes the token of the directory
if what in ("read", "write", "turns"):
    fds = [os.open(f"{t}/{what}/file", os.O_RDWR) for t in (top, other)]
    os.pwrite(fds[what == "turns"], bytes(4096), 0)  # who has the token of the file
do = {"stat": lambda i: os.stat("file"), "read": lambda i: os.pread(fds[0], 1, 0),
      "write": lambda i: os.pwrite(fds[0], bytes(4096), i * 4096),
      "unlink": lambda i: os.unlink(f"d{i}"), "rmdir": lambda i: os.rmdir(f"d{i}"),
      "turns": lambda i: os.pwrite(fds[i % 2], bytes(4096), i * 4096),
      "create": lambda i: create(f"c{i}"), "create-in-new": lambda i: create(f"{i}/c"), "create-in-found": lambda i: create(f"{i}/c")}[what]
open(ready, "w").close()
sys.stdin.readline()  # until strace watches
for i in range(times):
    do(i)
open(ready + ".done", "w").close()
sys.stdin.readline()  # until strace watches no more: what is released at the end is no operation's
os._exit(0)
END2

traced() { # every thread
	local status
	for status in /proc/"$1"/task/*/status; do grep -q '^TracerPid:[[:space:]]*[1-9]' "$status" || return 1; done
}
untraced() { ! traced "$1"; }
watch() { # PID FILE: all bytes of all messages
	strace -f -q -yy -xx -s 2000000 -e trace=sendmsg,sendto,sendmmsg,write,writev,read,readv,recvmsg,recvfrom -p "$1" -o "$2" &
	note $! strace
	TRACERS+=($!)
}
done_or_gone() { [ -e "$2" ] || gone "$1"; }
quiet() { # what is released behind the answers has gone
	local before=$(cat "$SCRATCH"/[ab].trace | wc -c)
	sleep 0.2
	[ "$(cat "$SCRATCH"/[ab].trace | wc -c)" = "$before" ]
}
measure() { # OPERATION: leaves the numbers in $SCRATCH/numbers
	local program pid
	TRACERS=()
	mkfifo "$SCRATCH/go.$1"
	python3 "$SCRATCH/operate.py" "$1" "$MNT" "$SCRATCH/other" "$TIMES" "$SCRATCH/ready.$1" <"$SCRATCH/go.$1" &
	program=$!
	note "$program" operate
	exec 8>"$SCRATCH/go.$1"
	wait_until 30 test -e "$SCRATCH/ready.$1" || fail "$1 does not start"
	watch "$MOUNT_PID" "$SCRATCH/a.trace"
	watch "$OTHER_PID" "$SCRATCH/b.trace"
	wait_until 10 traced "$MOUNT_PID" && wait_until 10 traced "$OTHER_PID" || fail "strace can't attach"
	echo >&8
	wait_until 60 done_or_gone "$program" "$SCRATCH/ready.$1.done" && ! gone "$program" || fail "$1 failed"
	wait_until 30 quiet || fail "the mounts do not come to rest after $1"
	kill -INT "${TRACERS[@]}"
	for pid in "${TRACERS[@]}"; do
		wait "$pid" || true
		unset "PIDS[$pid]"
	done
	exec 8>&-
	wait "$program" || fail "$1 failed"
	unset "PIDS[$program]"
	wait_until 10 untraced "$MOUNT_PID" && wait_until 10 untraced "$OTHER_PID" || fail "strace does not let go"
	python3 "$(dirname "$0")/counts-replica.py" "$TOP/libcore/fops.def" "$TIMES" "$PORTS" "$SCRATCH/a.trace" "$SCRATCH/b.trace" \
		>"$SCRATCH/numbers" || fail "the messages of $1 can't be read"
}

# judge ROUND_TRIPS "KIND=COUNT..." <NUMBERS: says what is wrong. A twentieth more or less is what the end of the preparations brings.
judge() {
	python3 - "$SCRATCH/numbers" "$1" "$2" <<'END2'
import sys
first = open(sys.argv[1]).readline().split()
trips, limit = float(first[1]), [float(n) for n in sys.argv[2].split("-")]
seen = {k: float(v) for k, v in (w.split("=") for w in first[2:])}
stated = {k: [float(n) for n in v.split("-")] for k, v in (w.split("=") for w in sys.argv[3].split())}
ASIDE = {"settle", "ping"}
wrong = []
if not limit[0] * 0.95 <= trips <= limit[-1] * 1.05:
    wrong.append(f"round trips {trips} instead of {sys.argv[2]}")
for kind in sorted(set(seen) | set(stated)):
    got, want = seen.get(kind, 0), stated.get(kind, [0])
    if kind not in ASIDE and not want[0] * 0.95 <= got <= want[-1] * 1.05 + (0 if want[-1] else 0.05):
        wrong.append(f"{kind} {got} instead of {want}")
print("; ".join(wrong))
END2
}

missed=0
while read -r operation trips messages; do
	[ -n "$operation" ] || continue
	measure "$operation"
	say "$operation: $(head -n 1 "$SCRATCH/numbers")"
	wrong=$(judge "$trips" "$messages")
	[ "${1:-}" = --print ] || [ -n "$wrong" ] && sed -n '2,$p' "$SCRATCH/numbers"
	[ -z "$wrong" ] || { say "$operation: $wrong"; missed=$((missed + 1)); }
done <<<"$LIMITS"
stop_mount "$SCRATCH/other" "$OTHER_PID"
stop_stack
[ "${1:-}" != --print ] || pass
[ $missed -eq 0 ] || fail "$missed operations take other messages than stated"
pass
