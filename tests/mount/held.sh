#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a mount knows of a file without asking, while changes of its own wait between it and who vouches (as they do for a lock of encryption/crypt, or in the graph
# before): a write that follows what is known beside one that waits does not lose that one; and what is looked at in a new graph, while the old one has a change, is not
# believed once that is done.
SPREAD=2 REPLICA=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
start_stack "$SCRATCH" +debug/hold +debug/delay-gen "debug/delay-gen:fops none"
chmod 755 "$MNT"
mkdir "$MNT/d"
name_of() { awk -v type="$1" '$1 == "volume" {name = $2} $1 == "type" && $2 == type {print name}' "$CLIENT_VOL"; } # TYPE

# ---- two writes ----
python3 - "$STRATUS" "$MNT" "$(name_of debug/hold)" <<'END' || fail "a write that waited is lost to who reads"
import os, subprocess, sys, threading, time
stratus, mnt, hold = sys.argv[1:]
def ctl(*words):
    return subprocess.run([stratus, "ctl", mnt, hold, *words], check=True, capture_output=True, text=True).stdout
def await_parked(count):
    while ctl("list").count("parked: write") != count:
        time.sleep(0.01)
for i in range(4):
    name = f"{mnt}/d/f{i}"
    with open(name, "wb") as f:
        f.write(b"-" * 200)
    first, second = os.open(name, os.O_RDWR), os.open(name, os.O_RDWR)
    ctl("hold", "write")
    writers = [threading.Thread(target=os.pwrite, args=(first, b"A" * 10, 0)), threading.Thread(target=os.pwrite, args=(second, b"B" * 10, 100))]
    writers[0].start()
    await_parked(1)
    end = time.monotonic() + 1.5 # longer than the kernel believes a name: then it is looked up, and there is something to know
    while time.monotonic() < end:
        os.stat(name)
        assert os.pread(second, 8192, 0) == b"-" * 200
        time.sleep(0.01)
    writers[1].start()
    await_parked(2)
    ctl("hold", "none")
    for w in writers: # the oldest first
        ctl("release")
        w.join()
    for turn in range(2):
        seen = os.pread(second, 8192, 0)
        assert seen == b"A" * 10 + b"-" * 90 + b"B" * 10 + b"-" * 90, f"round {i}: {seen}"
    os.close(first)
    os.close(second)
END

# ---- two graphs ----
old_change() { # MODE: it waits in the graph that is active, and a new one comes meanwhile; then all see it
	python3 - "$STRATUS" "$MNT" "$1" <<'END'
import os, subprocess, sys, threading
stratus, mnt, mode = sys.argv[1], sys.argv[2], int(sys.argv[3], 8)
name = f"{mnt}/d/f0"
done = threading.Event()
def change():
    os.chmod(name, mode)
    done.set()
changer = threading.Thread(target=change)
changer.start()
reload = subprocess.Popen([stratus, "reload", mnt], stdout=subprocess.DEVNULL)
while not done.is_set():
    os.stat(name)
for turn in range(10):
    seen = os.stat(name).st_mode & 0o777
    assert seen == mode, f"{seen:o} instead of {mode:o}"
changer.join()
sys.exit(reload.wait())
END
}
volfile_with() { # TRANSLATORS: of the same volume
	sed "s|^client-translators: .*|client-translators: [$1]|" "$STACK/spec.yaml" >"$STACK/other.yaml"
	mkdir -p "$STACK/other"
	"$STRATUS" volgen "$STACK/other.yaml" --out "$STACK/other" --state "$STACK" >/dev/null || fail "no volfiles"
	cp "$STACK/other/client-v.vol" "$CLIENT_VOL"
}
cat "$MNT/d/f0" >/dev/null # it is read: what follows asks for no time
for mode in 600 644 640; do
	"$STRATUS" set "$MNT" "$(name_of debug/delay-gen)" delay 2s
	"$STRATUS" set "$MNT" "$(name_of debug/delay-gen)" fops setattr
	volfile_with "debug/delay-gen$([ $mode = 644 ] || echo ', debug/io-stats')"
	old_change $mode || fail "what was changed through the graph before is as it was"
done
stop_stack
pass
