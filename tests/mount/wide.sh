#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Directories that grow wide, as two mounts of four subvolumes see them: thousands of files are made, listed, renamed and removed by both while a third widens;
# each has what was put there, no name twice; rmdir(2) and rename(2) treat them as any other; then fsck finds nothing. Killed in the middle, the one who widens is
# followed by another.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
SPREAD=4
. "$(dirname "$0")/spread.sh"
scratch
start_stack "$SCRATCH" "features/layout:widen-at 200" "cluster/dht:sweep-interval 200ms"
SECOND=$SCRATCH/second THIRD=$SCRATCH/third
start_mount "$SECOND"
SECOND_PID=$LAST_PID
start_mount "$THIRD"
THIRD_PID=$LAST_PID

widening() { "$STRATUS" ctl "$1" dht rebalance widen "$2" || fail "widening can't be told to $2"; } # MOUNT VERB
# How many subvolumes have a part of the only wide directory, beside the one where it is.
parts() { find "$SCRATCH"/brick*/.stratus.dht/away -mindepth 2 -maxdepth 2 -name 'd.*' 2>/dev/null | wc -l; }
is_at() { [ "$(parts)" -ge "$1" ]; }
work_is_done() { [ -z "$(find "$SCRATCH"/brick*/.stratus.dht/work -mindepth 2 2>/dev/null)" ]; }

cat >"$SCRATCH/use.py" <<'END'
import os, sys
top, who, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
d = top + "/d"
def name(i): return "%s/%s-%d" % (d, who, i)
for i in range(files):
    with open(name(i), "x") as f: f.write("%s %d" % (who, i))
    if i % 7 == 3:
        os.rename(name(i), name(i) + ".new-name")
        os.rename(name(i) + ".new-name", name(i))
    if i % 11 == 5:
        with open(name(i) + ".tmp", "w") as f: f.write("%s %d" % (who, i))
        os.rename(name(i) + ".tmp", name(i))
    if i % 13 == 7:
        os.link(name(i), name(i) + "-link")
        assert os.stat(name(i)).st_nlink == 2, name(i)
        os.unlink(name(i) + "-link")
    if i % 97 == 11:
        os.mkdir(name(i) + "-dir")
        open(name(i) + "-dir/in", "w").close()
        os.rename(name(i) + "-dir", name(i) + "-other")
        os.unlink(name(i) + "-other/in")
        os.rmdir(name(i) + "-other")
    if i % 5 == 4:
        os.unlink(name(i))
    if i % 400 == 399:
        mine = [n for n in os.listdir(d) if n.startswith(who + "-")]
        want = {"%s-%d" % (who, k) for k in range(i + 1) if k % 5 != 4}
        assert len(mine) == len(set(mine)), "listed twice: %s" % sorted(n for n in set(mine) if mine.count(n) > 1)[:5]
        assert set(mine) == want, (sorted(set(mine) ^ want)[:5], len(mine), len(want))
END
cat >"$SCRATCH/compare.py" <<'END'
import os, sys
top, files = sys.argv[1], int(sys.argv[2])
d = top + "/d"
want = {"%s-%d" % (w, i) for w in ("a", "b") for i in range(files) if i % 5 != 4}
names = os.listdir(d)
assert len(names) == len(want) and set(names) == want, sorted(set(names) ^ want)[:5]
for n in names:
    with open(d + "/" + n) as f: text = f.read()
    assert text == n.replace("-", " "), (n, text)
END

FILES=1500
mkdir "$MNT/d"
chmod 1777 "$MNT/d"
widening "$THIRD" start
python3 "$SCRATCH/use.py" "$MNT" a "$FILES" 2>"$SCRATCH/a.log" & A=$!
note "$A" "user a"
python3 "$SCRATCH/use.py" "$SECOND" b "$FILES" 2>"$SCRATCH/b.log" & B=$!
note "$B" "user b"
wait_until 60 is_at 1 || fail "the directory does not grow wide"
kill_hard "$THIRD_PID" "the mount that widens" # in the middle: files are still made
widening "$SECOND" start
wait "$A" || fail "what the first mount did went wrong: $(tail -n 2 "$SCRATCH/a.log")"
wait "$B" || fail "what the second mount did went wrong: $(tail -n 2 "$SCRATCH/b.log")"
unset "PIDS[$A]" "PIDS[$B]"
wait_until 60 is_at 3 || fail "it came to $(parts) more subvolumes, not to 3"
wait_until 60 work_is_done || fail "something is under way still: $(find "$SCRATCH"/brick*/.stratus.dht/work -mindepth 2)"
for m in "$MNT" "$SECOND"; do
	python3 "$SCRATCH/compare.py" "$m" "$FILES" 2>"$SCRATCH/compare.log" || fail "names or texts differ at $m: $(tail -n 1 "$SCRATCH/compare.log")"
done
say "two mounts made and used $((2 * FILES)) files, and all is there"

[ "$(stat -c %a "$SECOND/d")" = 1777 ] || fail "its mode is $(stat -c %a "$SECOND/d")"
chmod 750 "$SECOND/d"
mode_is() { [ "$(stat -c %a "$MNT/d")" = "$1" ]; }
wait_until 5 mode_is 750 || fail "the other mount sees the mode $(stat -c %a "$MNT/d")"
! rmdir "$MNT/d" 2>/dev/null || fail "it was removed with all that is in it"
mv "$MNT/d" "$MNT/renamed"
[ "$(ls "$SECOND/renamed" | wc -l)" = $((2 * FILES * 4 / 5)) ] || fail "after a rename it has $(ls "$SECOND/renamed" | wc -l) names"
mkdir "$MNT/into"
mv "$SECOND/renamed" "$SECOND/into/d"
python3 "$SCRATCH/compare.py" "$MNT/into" "$FILES" || fail "names or texts differ after it was moved"
"$STRATUS" locate "$MNT/into/d/a-1" >/dev/null || fail "locate does not tell where a file in it is"
find "$SECOND/into/d" -type f -delete
[ -z "$(ls -A "$MNT/into/d")" ] || fail "names are left"
mkdir "$MNT/over"
echo kept >"$MNT/over/kept"
mv -T "$MNT/over" "$MNT/into/d" || fail "it can't be replaced"
[ "$(cat "$MNT/into/d/kept")" = kept ] || fail "what replaced it is not there"
rm -r "$SECOND/into"
wait_until 20 work_is_done || fail "something is under way still"
[ -z "$(find "$SCRATCH"/brick*/.stratus.dht/away -name 'd.*')" ] || fail "shards are left: $(find "$SCRATCH"/brick*/.stratus.dht/away -name 'd.*')"
"$STRATUS" fsck --wait 1 "$CLIENT_VOL" >"$SCRATCH/fsck.log" 2>&1 || fail "fsck finds something"
umount "$SECOND"
wait_until 20 gone "$SECOND_PID" || fail "the second mount does not end"
unset "PIDS[$SECOND_PID]"
stop_stack
pass
