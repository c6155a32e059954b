#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An encrypted mount: nothing on the bricks can be read, other programs notice nothing, two mounts write one file, a wrong key and a graph
# with another way out are refused. On one brick, then on a replica set ($REPLICA chooses one of them).
# limit: 900 s, 7200 s with LONG=1
CRYPT=1
[ "${1-}" != replicas ] || REPLICA=3
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3 git sqlite3
scratch
start_stack "$SCRATCH"
bricks() { if [ "$REPLICA" = 1 ]; then echo "$BRICK"; else echo "${MEMBER_BRICK[@]}"; fi; }

# ---- nothing readable ----
mkdir "$MNT/secret-directory"
printf 'the-secret-contents %.0s' {1..20000} >"$MNT/secret-directory/secret-name"
ln -s secret-target "$MNT/secret-link"
touch "$MNT/$(printf 'secret-%.0s' {1..36})xyz" # 255 bytes
setfattr -n user.secret-attribute -v the-secret-value "$MNT/secret-directory/secret-name"
[ "$(readlink "$MNT/secret-link")" = secret-target ] || fail "a link's target is another one"
[ "$(getfattr --only-values -n user.secret-attribute "$MNT/secret-directory/secret-name")" = the-secret-value ] || fail "an attribute is lost"
sync -f "$MNT"
for dir in $(bricks); do
	find "$dir" -name '*secret*' | grep -q . && fail "a name can be read on $dir"
	grep -rqa 'the-secret-contents' "$dir" && fail "contents can be read on $dir"
	find "$dir" -type l -printf '%l\n' | grep -q secret && fail "a link's target can be read on $dir"
	getfattr -R -d -m - "$dir" 2>/dev/null | grep -q 'secret' && fail "an attribute can be read on $dir"
	[ "$(find "$dir" -type f -size +300k | wc -l)" -ge 1 ] || fail "the file is not on $dir at all"
done
say "nothing can be read on the bricks"

# ---- real programs ----
(
	cd "$MNT"
	git init -q repository
	cd repository
	git config user.email a@b && git config user.name a
	cp -r "$TOP/libcore" .
	git add . && git commit -qm one && git gc -q && git fsck --strict
	diff -r "$TOP/libcore" libcore
	sqlite3 base 'create table t (a integer primary key, b text);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) insert into t select i, hex(randomblob(20)) from n;'
	[ "$(sqlite3 base 'pragma integrity_check; select count(*) from t;')" = "ok
3000" ]
) || fail "a program does not work on it"

# ---- two mounts, one file ----
start_mount "$SCRATCH/other"
OTHER_PID=$LAST_PID
A=$MNT/both B=$SCRATCH/other/both SEED=$SEED SCRATCH=$SCRATCH timeout 600 python3 - <<'END' &
import os, random, sys
SIZE, ROUNDS = 300000, 600
A, B, SEED = os.environ["A"], os.environ["B"], int(os.environ["SEED"])
open(A, "wb").write(bytes(SIZE))

def writer(path, number):
    """Bytes in turns of 7 belong to the one and the other: most blocks have some of both."""
    chance, fd = random.Random(SEED * 2 + number), os.open(path, os.O_RDWR)
    for i in range(ROUNDS):
        if i % 200 == 100:
            open(f"{os.environ['SCRATCH']}/at-{number}-{i}", "w").close()
        at = chance.randrange(SIZE // 14 - 1) * 14 + number * 7
        os.pwrite(fd, bytes([chance.randrange(1, 256)]) * 7, at)
        os.pread(fd, 5000, max(0, at - 2000))

def expected():
    data = bytearray(SIZE)
    for number in (0, 1):
        chance = random.Random(SEED * 2 + number)
        for _ in range(ROUNDS):
            at = chance.randrange(SIZE // 14 - 1) * 14 + number * 7
            data[at:at + 7] = bytes([chance.randrange(1, 256)]) * 7
    return bytes(data)

children = []
for path, number in ((A, 0), (B, 1)):
    pid = os.fork()
    if pid == 0:
        writer(path, number)
        os._exit(0)
    children.append(pid)
failed = [os.waitpid(pid, 0)[1] for pid in children]
if any(failed) or open(A, "rb").read() != expected() or open(B, "rb").read() != expected():
    sys.exit(f"writers ended with {failed}, or a write is lost")
END
WRITERS=$!
for at in 0-100 1-300 0-500; do # and servers are killed meanwhile
	wait_until 60 test -e "$SCRATCH/at-$at" || fail "the writers don't get on"
	if [ "$REPLICA" = 1 ]; then restart_brick; else kill_member 1 && start_member 1; fi
done
wait "$WRITERS" || fail "two mounts that write one file undo each other's changes (SEED=$SEED)"

# ---- the same, at any place: what is left is what some serial order of the acknowledged writes leaves ----
in_some_order() { # SECONDS SEED
	local dir kick pid
	dir=$(mktemp -d "$SCRATCH/serial-XXXXXX")
	timeout $(($1 * 6 + 120)) python3 "$TOP/tests/mount/serial.py" "$MNT/serial" "$SCRATCH/other/serial" "$dir" "$1" "$2" 2>"$dir/said" &
	pid=$!
	for ((kick = 0; kick < $1 / 3; kick++)); do
		wait_until 60 test -e "$dir/kick-$kick" || fail "the writers don't get on (SEED=$2)"
		if [ "$REPLICA" = 1 ]; then restart_brick; else kill_member 1 && start_member 1; fi
	done
	wait "$pid" || fail "two mounts that write one file (SEED=$2): $(tail -n 3 "$dir/said")"
	rm "$MNT/serial"
}
if [ "$LONG" = 1 ]; then
	for ((i = 0; i < ${SEEDS:-20}; i++)); do in_some_order 60 "$((SEED + i))"; done
else
	in_some_order 9 "$SEED"
fi
# ---- names of 255 bytes, by two mounts ----
mkdir "$SCRATCH/kicks"
timeout 600 python3 "$TOP/tests/mount/long-names.py" "$MNT" "$SCRATCH/other" "$SCRATCH/kicks" "$SEED" &
WRITERS=$!
for kick in 0 1; do
	wait_until 60 test -e "$SCRATCH/kicks/kick-$kick" || fail "those who change long names don't get on"
	if [ "$REPLICA" = 1 ]; then restart_brick; else kill_member 1 && start_member 1; fi
done
wait "$WRITERS" || fail "long names are lost, or others than were made (SEED=$SEED)"
stop_mount "$SCRATCH/other" "$OTHER_PID"
setfattr -n user.stratus.volume -v SFV1 "$MNT" 2>/dev/null && fail "the mark of an encrypted volume can be set through a mount"

# ---- keys ----
head -c 64 /dev/urandom >"$SCRATCH/wrong.secret"
"$STRATUS" key init --new-secret-file "$SCRATCH/wrong.secret" "$SCRATCH/wrong" >/dev/null
mkdir "$SCRATCH/refused"
refused() { # SENTENCE ARGUMENTS...: of stratus mount
	local sentence=$1 said
	shift
	said=$("$STRATUS" mount "$@" "$SCRATCH/refused" 2>&1) && { MOUNTS+=("$SCRATCH/refused"); fail "mounted with $*"; }
	grep -qF "$sentence" <<<"$said" || fail "'stratus mount $*' says: $said"
}
KEY="--key=$STACK/key --secret-file=$STACK/key.secret"
refused "encrypted with another key" --key="$SCRATCH/wrong" --secret-file="$SCRATCH/wrong.secret" "$CLIENT_VOL"
refused "opens no slot" --key="$STACK/key" --secret-file="$SCRATCH/wrong.secret" "$CLIENT_VOL"
refused "is encrypted, and this mount has no key" "$CLIENT_VOL"
refused "can't be read" --key="$SCRATCH/nothing" --secret-file="$SCRATCH/wrong.secret" "$CLIENT_VOL"

# ---- graphs ----
python3 - "$CLIENT_VOL" >"$SCRATCH/bare.vol" <<'END' # without its mount
import re, sys
print(re.sub(r"volume \S+\n\s*type mount/fuse\n.*?end-volume\n", "", open(sys.argv[1]).read(), flags=re.S))
END
below=$(sed -n 's/^volume //p' "$SCRATCH/bare.vol" | tail -n 1)
{ cat "$SCRATCH/bare.vol"; printf 'volume second\n    type mount/fuse\n    option mountpoint %s\n    subvolumes %s\nend-volume\n' "$SCRATCH/side" "$below"
  printf 'volume third\n    type mount/fuse\n    subvolumes %s\nend-volume\n' "$below"; } >"$SCRATCH/two.vol"
# shellcheck disable=SC2086
refused "could leave unencrypted" $KEY "$SCRATCH/two.vol"
{ cat "$SCRATCH/bare.vol"; printf 'volume theirs\n    type encryption/crypt\n    option key-file /theirs\n    subvolumes %s\nend-volume\n' "$below"
  printf 'volume third\n    type mount/fuse\n    subvolumes theirs\nend-volume\n'; } >"$SCRATCH/theirs.vol"
# shellcheck disable=SC2086
refused "itself" $KEY "$SCRATCH/theirs.vol"

# ---- and so is a graph that comes later: the mount goes on as it was ----
for vol in two theirs; do
	cp "$CLIENT_VOL" "$SCRATCH/kept.vol"
	cp "$SCRATCH/$vol.vol" "$CLIENT_VOL"
	said=$("$STRATUS" reload "$MNT" 2>&1) && fail "a mount with a key switches to $vol.vol"
	grep -qE 'could leave unencrypted|itself' <<<"$said" || fail "'stratus reload' to $vol.vol says: $said"
	cp "$SCRATCH/kept.vol" "$CLIENT_VOL"
	mountpoint -q "$SCRATCH/side" && fail "the second mount of $vol.vol is there"
done
echo after-a-refused-switch >"$MNT/after-a-refused-switch"
{ cat "$SCRATCH/bare.vol"; printf 'volume between\n    type debug/null\n    subvolumes %s\nend-volume\n' "$below"
  printf 'volume fuse\n    type mount/fuse\n    subvolumes between\nend-volume\n'; } >"$CLIENT_VOL"
said=$("$STRATUS" reload "$MNT" 2>&1) || fail "a mount with a key does not switch to another graph: $said"
grep -q 'between' < <("$STRATUS" dump "$MNT") || fail "the mount has the old graph"
echo after-a-switch >"$MNT/after-a-switch"
cp "$SCRATCH/kept.vol" "$CLIENT_VOL"
said=$("$STRATUS" reload "$MNT" 2>&1) || fail "a mount with a key does not switch back: $said"
[ "$(cat "$MNT/after-a-switch" "$MNT/after-a-refused-switch" | tr '\n' ' ')" = "after-a-switch after-a-refused-switch " ] || fail "files are lost in a switch"
sync -f "$MNT"
for dir in $(bricks); do
	find "$dir" -name '*after-a*' | grep -q . && fail "a name that was made after a switch can be read on $dir"
	grep -rqa 'after-a' "$dir" && fail "what was written after a switch can be read on $dir"
done

# ---- options of the servers' for the kernel ----
sed 's/type mount\/fuse/&\n    option mount-options suid,dev/' "$CLIENT_VOL" >"$SCRATCH/suid.vol"
# shellcheck disable=SC2086
"$STRATUS" mount $KEY "$SCRATCH/suid.vol" "$SCRATCH/refused" || fail "can't mount a volfile with mount-options"
options=$(findmnt -no OPTIONS "$SCRATCH/refused")
umount "$SCRATCH/refused"
[[ $options == *nosuid*nodev* ]] || fail "the servers' volfile allows set-uid programs and devices: $options"

# ---- the provider's hand: EIO, and a line that says why ----
if [ "$REPLICA" = 1 ]; then
	victim=$(find "$BRICK" -path "$BRICK/.stratus" -prune -o -type f -size 403168c -print | head -n 1) # 400000 bytes of contents
	printf x | dd of="$victim" bs=1 seek=100000 conv=notrunc status=none
	cat "$MNT/secret-directory/secret-name" >/dev/null 2>&1 && fail "what was changed on the brick is read as if nothing were"
	grep -q 'a block was changed' "$SCRATCH"/mount-mnt.log || fail "the log does not say why"
	# a mount that began without its brick finds out before anything is served
	kill_brick
	sed 's/type protocol\/client/&\n    option wait-for-brick on/' "$CLIENT_VOL" >"$SCRATCH/waits.vol"
	mkdir "$SCRATCH/late"
	"$STRATUS" mount --foreground "$SCRATCH/waits.vol" "$SCRATCH/late" >>"$SCRATCH/mount-late.log" 2>&1 &
	LATE_PID=$!
	note "$LATE_PID" "mount late"
	MOUNTS+=("$SCRATCH/late")
	wait_until 20 grep -q " $SCRATCH/late " /proc/self/mounts || fail "a mount with wait-for-brick does not begin"
	start_brick
	touch "$SCRATCH/late/plain" 2>"$SCRATCH/late.said" && fail "a mount without a key that began before its brick writes"
	grep -q 'Required key' "$SCRATCH/late.said" || fail "such a mount says $(cat "$SCRATCH/late.said")"
	umount "$SCRATCH/late"
	await_end "$LATE_PID" "the process of $SCRATCH/late" "after umount"
	# unencrypted files are no volume to encrypt
	umount "$MNT"
	await_end "$MOUNT_PID" "the process of $MNT" "after umount"
	setfattr -x user.stratus.volume "$BRICK"
	# shellcheck disable=SC2086
	refused "files that are not encrypted" $KEY "$CLIENT_VOL"
	stop_brick
	"$0" replicas
else
	stop_stack
fi
pass
