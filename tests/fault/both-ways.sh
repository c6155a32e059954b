#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many who read and many who write, all at once, after the brick was not there to take it: more waits both ways than the sockets hold, and neither end
# waits for the other to read first.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH"
EACH=64

cat >"$SCRATCH/both.py" <<'EOF'
import mmap, os, sys, threading
directory, each = sys.argv[1], int(sys.argv[2])
SIZE = 1 << 20

def descriptor(kind, i):
    return os.open(f"{directory}/{kind}{i}", os.O_RDWR | os.O_CREAT | os.O_DIRECT)

def fill(byte):
    room = mmap.mmap(-1, SIZE)
    room.write(bytes([byte]) * SIZE)
    return room

def read(fd, i):
    room = mmap.mmap(-1, SIZE)
    assert os.preadv(fd, [room], 0) == SIZE and room[:] == bytes([i]) * SIZE, f"file {i} has other contents"
    done.append(i)

def write(fd, i):
    assert os.pwritev(fd, [fill(i)], 0) == SIZE
    done.append(i)

done, work = [], []
for i in range(each):
    fd = descriptor("read", i)
    os.pwritev(fd, [fill(i)], 0)
    work += [(read, fd, i), (write, descriptor("write", i), i)]
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=f, args=args) for f, *args in work]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.exit(len(done) != 2 * each)
EOF

mkfifo "$SCRATCH/go"
python3 "$SCRATCH/both.py" "$MNT" "$EACH" <"$SCRATCH/go" >"$SCRATCH/both.out" 2>&1 &
BOTH=$!
note "$BOTH" both.py
exec 9>"$SCRATCH/go"
wait_until 60 says ready cat "$SCRATCH/both.out" || fail "the files are not made: $(tail -n 3 "$SCRATCH/both.out")"
under_way() { [ "$("$STRATUS" dump "$MNT" | grep -c '^request')" -ge $((2 * EACH)) ]; }
kill -STOP "$BRICK_PID"
echo go >&9
wait_until 30 under_way || fail "not all is under way: $("$STRATUS" dump "$MNT" | grep -c '^request') requests"
kill -CONT "$BRICK_PID"
wait_until 60 gone "$BOTH" || fail "it hangs: $("$STRATUS" dump "$MNT" | grep '^request' | head -n 3)"
wait "$BOTH" || fail "$(tail -n 3 "$SCRATCH/both.out")"
unset "PIDS[$BOTH]"
for i in 0 $((EACH - 1)); do
	[ "$(od -An -v -tu1 -w1 "$BRICK/write$i" | sort -u | tr -d ' ')" = "$i" ] || fail "what was written is not on the brick"
done
stop_stack
pass
