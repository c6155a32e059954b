#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The graph below a mount is replaced again and again while programs work, hold locks and wait for some: no error, no lost lock,
# no growth.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
SWITCHES=$([ "$LONG" = 1 ] && echo 1000 || echo 60)

MNT=$MNT python3 - "$SCRATCH/stop" <<'END' >"$SCRATCH/load.log" 2>&1 &
import fcntl, os, sys, threading, time

MNT, STOP = os.environ["MNT"], sys.argv[1]
failures, rounds = [], [0] * 6
done = lambda: os.path.exists(STOP)


def files(n):
    kept = os.open("%s/kept%d" % (MNT, n), os.O_RDWR | os.O_CREAT)
    while not done():
        name = "%s/file%d" % (MNT, n)
        with open(name, "wb") as f:
            f.write(b"x" * 50000)
        os.pwrite(kept, b"%08d" % rounds[n], 0)
        if open(name, "rb").read() != b"x" * 50000 or os.pread(kept, 8, 0) != b"%08d" % rounds[n]:
            raise RuntimeError("wrong data")
        os.listdir(MNT)
        os.rename(name, name + "-moved")
        os.unlink(name + "-moved")
        rounds[n] += 1


def wrap(fn, n):
    try:
        fn(n)
    except BaseException as e:
        failures.append("%s %d: %r" % (fn.__name__, n, e))


def take_turns():
    """Processes that wait for each other's lock: one always waits in some graph."""
    fd = os.open(MNT + "/turns", os.O_RDWR | os.O_CREAT)
    turns = 0
    while not done():
        fcntl.lockf(fd, fcntl.LOCK_EX)
        seen = int(os.pread(fd, 20, 0) or b"0")
        time.sleep(0.003)
        os.pwrite(fd, b"%020d" % (seen + 1), 0)
        fcntl.lockf(fd, fcntl.LOCK_UN)
        turns += 1
    return turns


pids = []
for i in range(3):
    pid = os.fork()
    if pid == 0:
        try:
            turns = take_turns()
            open("%s.%d" % (STOP, i), "w").write(str(turns))
            os._exit(0 if turns > 0 else 3)
        except BaseException as e:
            print("locker:", repr(e), flush=True)
            os._exit(2)
    pids.append(pid)
held = os.open(MNT + "/held", os.O_RDWR | os.O_CREAT)
fcntl.lockf(held, fcntl.LOCK_EX)
threads = [threading.Thread(target=wrap, args=(files, n)) for n in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
for pid in pids:
    if os.waitpid(pid, 0)[1] != 0:
        failures.append("a locker failed")
turns = sum(int(open("%s.%d" % (STOP, i)).read()) for i in range(3) if os.path.exists("%s.%d" % (STOP, i)))
counted = int(open(MNT + "/turns").read())
if counted != turns:
    failures.append("locks: %d turns, counted %d" % (turns, counted))
pid = os.fork()
if pid == 0:
    try:
        fcntl.lockf(os.open(MNT + "/held", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
        os._exit(1)
    except BlockingIOError:
        os._exit(0)
if os.waitpid(pid, 0)[1] != 0:
    failures.append("the lock that was held all the time is lost")
print("rounds", rounds, "turns", turns, "failures", failures, flush=True)
sys.exit(1 if failures or min(rounds) == 0 else 0)
END
LOAD=$!
note "$LOAD" load

switch() { # the volfile changes each time, so that a new graph is really made
	local extra=()
	[ $(($1 % 2)) = 0 ] || extra=(+debug/io-stats)
	write_client_volfile "$CLIENT_VOL" "$PORT" "$VOLUME_ID" "$BRICK_ID" "${extra[@]}"
	"$STRATUS" reload "$MNT" >/dev/null || fail "switch $1 was refused"
	gone "$LOAD" && fail "the load has ended: $(cat "$SCRATCH/load.log")"
	return 0
}
for i in $(seq 10); do switch "$i"; done
FDS=$(fd_count "$MOUNT_PID") RSS=$(rss_kib "$MOUNT_PID")
for i in $(seq 11 "$SWITCHES"); do switch "$i"; done
FDS_NOW=$(fd_count "$MOUNT_PID") RSS_NOW=$(rss_kib "$MOUNT_PID")

touch "$SCRATCH/stop"
STATUS=0; wait "$LOAD" || STATUS=$?
unset "PIDS[$LOAD]"
[ "$STATUS" = 0 ] || fail "$(cat "$SCRATCH/load.log")"
say "$SWITCHES switches; $(tail -n 1 "$SCRATCH/load.log"); descriptors $FDS, $FDS_NOW; KiB $RSS, $RSS_NOW"
[ "$FDS_NOW" -le $((FDS + 8)) ] || fail "descriptors leak"
[ "$RSS_NOW" -le $((RSS + 20480)) ] || fail "memory leaks"
stop_stack
pass
