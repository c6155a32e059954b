#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files are brought to where their names are while a program writes to them: what was written is there, with holes, attributes, ACL and extended attributes; who has them open
# goes on, also after they were removed. Symbolic links, fifos and devices are brought, too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/runs.sh"
. "$(dirname "$0")/storms.sh"
need_root
need_stack
need python3
need setfacl

name_at() { # SUBVOLUME PREFIX: a name of the root that is there
	local i=0
	until [ "$(located "$2$i")" = "$1" ]; do i=$((i + 1)); done
	echo "$2$i"
}
put_away() { # PREFIX: a file of one subvolume with a name at another
	local from
	from=$(name_at client0 "from$1")
	NAME=$(name_at client1 "$1")
	: >"$MNT/$from"
	mv "$MNT/$from" "$MNT/$NAME"
	[ -e "$STACK/brick1/$NAME" ] && [ -z "$(find "$STACK/brick1/.stratus.dht/away" -name 'a.*' 2>/dev/null)" ] || fail "it is not away"
}
brings() { # until it is: it may be changed, or just have been moved
	"$STRATUS" ctl "$MNT" dht bring "$NAME" >"$SCRATCH/said" && grep -q '^brought' "$SCRATCH/said"
}
is_at_home() { [ -s "$STACK/brick1/$NAME" ] && [ -z "$(find "$STACK/brick0/.stratus.dht/away" -name 'a.*')" ]; }

scratch
stack 4 1 "cluster/dht:sweep-interval 50ms" "features/layout:reopen-time 1s"

say "all that belongs to a file comes along"
put_away whole
printf begin >"$MNT/$NAME"
truncate -s 20M "$MNT/$NAME"
printf end >>"$MNT/$NAME"
setfattr -n user.colour -v blue "$MNT/$NAME"
setfacl -m u:4321:rw "$MNT/$NAME"
chown 17:18 "$MNT/$NAME"
touch -d '2001-02-03 04:05:06.5' "$MNT/$NAME"
told() { stat -c '%i %a %u %g %h %s %Y' "$MNT/$NAME"; getfattr -d -m user "$MNT/$NAME" 2>/dev/null; getfacl -cn "$MNT/$NAME" 2>/dev/null; md5sum <"$MNT/$NAME"; }
before=$(told)
brings || fail "it is not brought: $(cat "$SCRATCH/said")"
[ "$(told)" = "$before" ] || fail "it was $before, and is $(told)"
is_at_home || fail "it is not where its name is"
[ "$(stat -c %b "$STACK/brick1/$NAME")" -lt 1000 ] || fail "its hole was filled: $(stat -c %b "$STACK/brick1/$NAME") blocks"

say "who writes to it meanwhile loses nothing"
put_away busy
python3 - "$MNT/$NAME" >"$SCRATCH/written" <<'EOF' &
import os, sys, time
f = os.open(sys.argv[1], os.O_RDWR)
end, n = time.time() + 4, 0
while time.time() < end:
    n += 1
    os.pwrite(f, b"%08d" % n, 8 * (n % 1000))
    assert os.pread(f, 8, 8 * (n % 1000)) == b"%08d" % n
print(n)
EOF
writer=$!
wait_until 30 brings || fail "it is never brought: $(cat "$SCRATCH/said")"
wait "$writer" || fail "the writer failed"
python3 - "$MNT/$NAME" "$(cat "$SCRATCH/written")" <<'EOF' || fail "something that was written is not there"
import sys
data, last = open(sys.argv[1], "rb").read(), int(sys.argv[2])
for n in range(max(1, last - 999), last + 1):
    assert data[8 * (n % 1000):8 * (n % 1000) + 8] == b"%08d" % n, n
EOF
is_at_home || fail "it is not where its name is"

say "who has it open has it after it was removed"
put_away gone
echo text >"$MNT/$NAME"
exec 7<"$MNT/$NAME"
brings || fail "it is not brought: $(cat "$SCRATCH/said")"
rm "$MNT/$NAME"
sleep 3 # sweeps come by
[ "$(cat <&7)" = text ] || fail "it can't be read any more"
exec 7<&-
calm_now() { [ -z "$(find "$STACK"/brick?/.stratus.dht/work ! -type d)" ]; }
wait_until 60 calm_now || fail "something is left: $(find "$STACK"/brick?/.stratus.dht/work ! -type d)"

say "who has it open goes on when the mount has switched its graph, whether it was moved before that or after"
switches() { # SIZE: another graph, as each change of the volume makes one
	sed -i '/type cluster\/dht/,/end-volume/{/option log-size/d; s/^\( *\)type cluster\/dht.*/&\n\1option log-size '"$1"'/}' "$CLIENT_VOL"
	"$STRATUS" reload "$MNT" >/dev/null || fail "the mount does not switch its graph"
}
uses() { # WHAT: the program that has it open writes that behind what there is, and reads all
	local line
	echo "$1" >&"${USER_OF[1]}"
	read -r line <&"${USER_OF[0]}" || fail "who has it open is gone"
	[ "$line" = "$2" ] || fail "who has it open $3: $line"
}
put_away switched
coproc USER_OF {
	python3 -u -c 'import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    try:
        os.pwrite(f, line.strip().encode(), os.fstat(f).st_size)
        print(os.pread(f, 100, 0).decode())
    except OSError as e:
        print(e)' "$MNT/$NAME"
}
USER_PID=$!
note "$USER_PID" "who has it open"
uses a a "can't use it"
switches 1000
brings || fail "it is not brought: $(cat "$SCRATCH/said")"
uses b ab "can't use it where it has been moved, after a switch"
switches 2000
uses c abc "can't use it after a switch, where it had been moved before"
kill "$USER_PID"
unset "PIDS[$USER_PID]"
wait_until 60 calm_now || fail "something is left: $(find "$STACK"/brick?/.stratus.dht/work ! -type d)"

say "links and nodes come along, and who makes changes meanwhile loses none"
kind_told() { stat -c '%F %i %a %u %g %h %t:%T %Y %N' "$MNT/$NAME"; getfattr -hd -m trusted.own "$MNT/$NAME" 2>/dev/null; }
put_kind() { # link|fifo|char: as NAME, whose object is at another subvolume
	local from
	from=$(name_at client0 "from$1")
	NAME=$(name_at client1 "$1")
	case $1 in
	link) ln -s "../some where/else" "$MNT/$from" ;;
	fifo) mkfifo -m 0640 "$MNT/$from" ;;
	char) mknod -m 0600 "$MNT/$from" c 1 3 ;;
	esac
	chown -h 17:18 "$MNT/$from"
	setfattr -hn trusted.own -v 1 "$MNT/$from"
	touch -hd '2001-02-03 04:05:06.5' "$MNT/$from"
	mv "$MNT/$from" "$MNT/$NAME"
}
for kind in link fifo char; do
	put_kind "$kind"
	before=$(kind_told)
	(for n in {1..50}; do chown -h "$n" "$MNT/$NAME" || exit 1; done; chown -h 17 "$MNT/$NAME"; touch -hd '2001-02-03 04:05:06.5' "$MNT/$NAME") &
	changer=$!
	wait_until 30 brings || fail "a $kind is never brought: $(cat "$SCRATCH/said")"
	wait "$changer" || fail "who changes the $kind meanwhile fails"
	[ "$(kind_told)" = "$before" ] || fail "it was $before, and is $(kind_told)"
	[ -z "$(find "$STACK/brick0/.stratus.dht/away" -name 'a.*')" ] || fail "a $kind is not where its name is"
	wait_until 60 calm_now || fail "of a $kind something is left: $(find "$STACK"/brick?/.stratus.dht/work ! -type d)"
	[ "$(kind_told)" = "$before" ] || fail "it was $before, and is $(kind_told)"
done
"$STRATUS" fsck "$CLIENT_VOL" || fail "fsck finds something"
stop_stack
pass
