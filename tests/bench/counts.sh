#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Round trips and system calls per operation stay as few as stated here; so does the memory of an idle mount and brick. On one brick, without and with
# what volumes have that can get more, and with encryption.
#
# strace notes every call of both processes while one program does one operation many times; messages are counted at the
# sockets. `counts.sh --print` prints the numbers and asserts nothing.
# calm: it counts messages and calls that pauses add to
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need strace python3
TIMES=200
IDLE_LIMIT_KIB=$((20 * 1024))

# operation, round trips, system calls of the mount, of the brick, and of one in a volume that can grow: at most so many per operation
LIMITS="
stat       1  7  7  7
read-4k    1  7  5  5
write-4k   1  7  5  5
create     3 24 27 27
small      4 31 28 29
mkdir      2 14 17 20
unlink     2 16 17 17
"
# The same with encryption, alone: what is more for a file with contents is the lock, which goes with the file when it is closed, and the length.
CRYPT_LIMITS="
stat       1  7  7
read-4k    1  7  5
create     3 24 27
small      6 42 34
unlink     2 16 17
"
scratch
missed=0
be_idle() {
	local mount_kib brick_kib
	"$STRATUS" set "$MNT" "$(name_of mount/fuse "$CLIENT_VOL")" busy-poll 0 # polling makes calls of its own, as many as there is time for
	"$STRATUS" set "$MNT" "$(name_of mount/fuse "$CLIENT_VOL")" believe off # what is believed for a while depends on how fast the machine is
	"$STRATUS" set "$SERVER_VOL" "$(name_of protocol/server "$SERVER_VOL")" busy-poll 0
	"$STRATUS" dump "$MNT" >/dev/null
	mount_kib=$(rss_kib "$MOUNT_PID") brick_kib=$(rss_kib "$BRICK_PID")
	say "idle: mount $mount_kib KiB, brick $brick_kib KiB"
	[ "$mount_kib" -lt $IDLE_LIMIT_KIB ] && [ "$brick_kib" -lt $IDLE_LIMIT_KIB ] || missed=$((missed + 1))
}
name_of() { awk -v type="$1" '$1 == "volume" {name = $2} $1 == "type" && $2 == type {print name}' "$2"; }

cat >"$SCRATCH/operate.py" <<'END'
import os, sys
what, top, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(top)
fd = None
if what in ("read-4k", "write-4k"):
    fd = os.open("file", os.O_RDWR)
def create(i): os.close(os.open(f"c{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
def small(i):
    fd = os.open(f"s{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(fd, bytes(5000))
    os.close(fd)
do = {"stat": lambda i: os.stat("file"), "read-4k": lambda i: os.pread(fd, 4096, i * 4096),
      "write-4k": lambda i: os.pwrite(fd, bytes(4096), i * 4096), "create": create, "small": small,
      "mkdir": lambda i: os.mkdir(f"d{i}"), "unlink": lambda i: os.unlink(f"c{i}")}[what]
open(sys.argv[4], "w").close()
sys.stdin.readline()  # until strace watches
for i in range(times):
    do(i)
END

# Prints "ROUND_TRIPS MOUNT_CALLS BRICK_CALLS DETAILS" per operation.
cat >"$SCRATCH/count.py" <<'END'
import collections, re, sys
times = int(sys.argv[1])
totals, sends, detail = [], 0, []
for path in sys.argv[2:]:
    calls = collections.Counter()
    for line in open(path, errors="replace"):
        found = re.match(r"\d+ +(\w+)\((?:\d+<([^>]*))?", line)  # a call resumed later is counted where it began
        # The brick's watchdog ticks, and moves loops, by the time that strace makes everything take.
        if not found or found[1] in ("restart_syscall", "exit", "exit_group", "clock_nanosleep", "futex"):
            continue
        on = "tcp" if "TCP" in (found[2] or "") else "fuse" if "/dev/fuse" in (found[2] or "") else ""
        calls[f"{found[1]}{'@' + on if on else ''}"] += 1
    if not totals:
        sends = sum(n for name, n in calls.items() if re.match(r"(send|sendto|sendmsg|write|writev|sendmmsg)@tcp", name))
    totals.append(sum(calls.values()))
    detail.append(" ".join(f"{name} {n / times:.1f}" for name, n in calls.most_common(12) if n >= times / 10))
print(f"{sends / times:.2f} {totals[0] / times:.1f} {totals[1] / times:.1f}")
print("\n".join(f"    {who}: {d}" for who, d in zip(("mount", "brick"), detail)))
END

measure() { # OPERATION
	local mount_trace brick_trace
	mkfifo "$STACK/go.$1"
	python3 "$SCRATCH/operate.py" "$1" "$MNT" "$TIMES" "$STACK/ready.$1" <"$STACK/go.$1" &
	local program=$!
	note "$program" operate
	exec 8>"$STACK/go.$1"
	wait_until 10 test -e "$STACK/ready.$1" || fail "$1 does not start"
	strace -f -q -yy -p "$MOUNT_PID" -o "$SCRATCH/mount.trace" & mount_trace=$!
	strace -f -q -yy -p "$BRICK_PID" -o "$SCRATCH/brick.trace" & brick_trace=$!
	note "$mount_trace" strace
	note "$brick_trace" strace
	wait_until 10 traced "$MOUNT_PID" && wait_until 10 traced "$BRICK_PID" || fail "strace can't attach"
	echo >&8
	exec 8>&-
	wait "$program" || fail "$1 failed"
	kill -INT "$mount_trace" "$brick_trace"
	wait "$mount_trace" "$brick_trace" || true
	unset "PIDS[$program]" "PIDS[$mount_trace]" "PIDS[$brick_trace]"
	wait_until 10 untraced "$MOUNT_PID"
	wait_until 10 untraced "$BRICK_PID"
	python3 "$SCRATCH/count.py" "$TIMES" "$SCRATCH/mount.trace" "$SCRATCH/brick.trace"
}
traced() { # every thread
	local status
	for status in /proc/"$1"/task/*/status; do grep -q '^TracerPid:[[:space:]]*[1-9]' "$status" || return 1; done
}
untraced() { ! grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$1/status"; }

count_all() { # alone|grows|crypt [--print]
	local operation trips mount_calls brick_calls in_growing measured got_trips got_mount got_brick over
	be_idle
	head -c 2000000 /dev/zero >"$MNT/file"
	while read -r operation trips mount_calls brick_calls in_growing; do
		[ -n "$operation" ] || continue
		[ "$1" != grows ] || brick_calls=$in_growing
		measured=$(measure "$operation")
		read -r got_trips got_mount got_brick <<<"$measured"
		over=$(awk -v a="$got_trips" -v b="$trips" -v c="$got_mount" -v d="$mount_calls" -v e="$got_brick" -v f="$brick_calls" \
			'BEGIN {print (a < b * 0.9 || c < b || e < b) ? "  NOT COUNTED" : (a > b * 1.1 || c > d * 1.1 || e > f * 1.1) ? "  TOO MANY" : ""}')
		printf '%-9s round trips %5s (at most %s), calls of the mount %5s (%s), of the brick %5s (%s)%s\n' "$operation" \
			"$got_trips" "$trips" "$got_mount" "$mount_calls" "$got_brick" "$brick_calls" "$over"
		[ "${2:-}" = --print ] || [ -n "$over" ] && sed -n '2,$p' <<<"$measured"
		[ -z "$over" ] || missed=$((missed + 1))
	done <<<"$([ "$1" = crypt ] && echo "$CRYPT_LIMITS" || echo "$LIMITS")"
}

mkdir "$SCRATCH/alone" "$SCRATCH/crypt" "$SCRATCH/grows"
start_stack "$SCRATCH/alone"
count_all alone "$@"
stop_stack
CRYPT=1
start_stack "$SCRATCH/crypt"
say "encrypted"
count_all crypt "$@"
stop_stack
CRYPT=0
. "$TOP/tests/mount/spread.sh"
BEGAN_WITH=1 start_spread "$SCRATCH/grows"
SERVER_VOL=$STACK/server-s0.vol BRICK_PID=${SERVER_PID[0]}
say "one brick that may get others"
count_all grows "$@"
stop_stack
[ "${1:-}" != --print ] || pass
[ $missed -eq 0 ] || fail "$missed operations take more than stated, or strace did not see them, or an idle process more than 20 MiB"
pass
