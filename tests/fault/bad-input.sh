#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A mistake in a volfile, an option, a path or an address gives one clear sentence and a non-zero exit, and nothing on disk is
# created or changed.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3
scratch

A_VOLUME=$(uuid) A_BRICK=$(uuid) PORT=$(free_port)
mkdir "$SCRATCH/new" "$SCRATCH/mnt" "$SCRATCH/file.d"
write_server_volfile "$SCRATCH/good.vol" "$SCRATCH/new" "$PORT" "$A_VOLUME" "$A_BRICK"
write_client_volfile "$SCRATCH/client.vol" "$PORT" "$A_VOLUME" "$A_BRICK"

# variant NAME SED: a volfile made from the good one. client_variant: from the client's.
variant() { sed -E "$2" "$SCRATCH/good.vol" >"$SCRATCH/$1.vol"; cmp -s "$SCRATCH/$1.vol" "$SCRATCH/good.vol" && fail "variant $1 is no variant"; return 0; }
client_variant() { sed -E "$2" "$SCRATCH/client.vol" >"$SCRATCH/$1.vol"; }

# Everything below the scratch directory but what the tests themselves write: names, modes, times of change, contents.
state() {
	(cd "$SCRATCH" && find . -path ./run -prune -o ! -name 'message*' ! -path . -printf '%p %y %m %U %G %s %T@ ' \
		-exec sh -c 'getfattr -hd -m - "$1" 2>/dev/null | md5sum' - {} \;)
}
COUNT=0
# expect NAME PATTERN COMMAND...: fails with one sentence that says PATTERN (an extended regular expression).
expect() {
	local name=$1 pattern=$2 status=0 lines
	shift 2
	COUNT=$((COUNT + 1))
	state >"$SCRATCH/message.before"
	timeout -k 5 20 "$@" >"$SCRATCH/message.out" 2>"$SCRATCH/message" </dev/null || status=$?
	lines=$(grep -cv "^Try \`" "$SCRATCH/message" || true)
	[ $status -ne 0 ] || wrong "$name" "exit status 0"
	[ $status -ne 124 ] || wrong "$name" "is not refused (or hangs)"
	[ $status -le 124 ] || wrong "$name" "exit status $status"
	[ "$lines" -eq 1 ] || wrong "$name" "$lines lines instead of one sentence"
	grep -qiE -- "$pattern" "$SCRATCH/message" || wrong "$name" "does not say '$pattern'"
	state >"$SCRATCH/message.after"
	cmp -s "$SCRATCH/message.before" "$SCRATCH/message.after" ||
		wrong "$name" "changed something: $(diff "$SCRATCH/message.before" "$SCRATCH/message.after" | grep '^[<>]' | head -n 3)"
}
WRONG=0
wrong() {
	WRONG=$((WRONG + 1))
	say "$1: $2; it said: $(head -c 600 "$SCRATCH/message")"
}
serves() { expect "$1" "$2" "$STRATUSD" --foreground "$SCRATCH/$1.vol"; }
mounts() { expect "$1" "$2" "$STRATUS" mount --foreground "$SCRATCH/$1.vol" "$SCRATCH/mnt"; }

# Volfiles
serves no-such-file 'no-such-file.vol'
expect directory-as-volfile 'file.d' "$STRATUSD" --foreground "$SCRATCH/file.d"
: >"$SCRATCH/empty.vol"
serves empty 'empty.vol|volume'
variant no-end '$d'
serves no-end 'end-volume'
variant garbage 's/^    type storage.*/\x01\x02garbage garbage/'
serves garbage 'garbage.vol:2'
head -c 2000000 /dev/urandom >"$SCRATCH/binary.vol"
serves binary 'binary.vol'
variant unknown-type 's,storage/posix,storage/posx,'
serves unknown-type 'storage/posx'
variant outside-type 's,storage/posix,../../../tmp/x,'
serves outside-type 'type'
variant no-type '/type storage/d'
serves no-type 'type'
variant two-of-a-name 's/^volume locks/volume posix/'
serves two-of-a-name 'posix'
variant unknown-child 's/subvolumes posix/subvolumes posit/'
serves unknown-child 'posit'
variant no-child '/subvolumes posix/d'
serves no-child 'locks|subvolume|child'
variant child-of-leaf 's,type storage/posix,type storage/posix\n    subvolumes access,'
serves child-of-leaf 'access|posix'

# Options
variant unknown-option 's/option directory/option direktory/'
serves unknown-option 'directory'
variant missing-option '/option directory/d'
serves missing-option 'directory'
variant bad-port 's/(option listen 127.0.0.1):.*/\1:99999999/'
serves bad-port 'listen|port'
variant bad-uuid 's/option volume-id .*/option volume-id not-a-uuid/'
serves bad-uuid 'not-a-uuid'
variant relative-path 's,option directory .*,option directory here,'
serves relative-path 'directory'
client_variant bad-number 's/remote-port .*/remote-port many/'
mounts bad-number 'remote-port|many'
client_variant bad-duration 's/(option remote-port.*)/\1\n    option max-wait -3s/'
mounts bad-duration 'max-wait'
client_variant unknown-client-option 's/remote-host/remote-hots/'
mounts unknown-client-option 'remote-host'

# The wrong program
expect client-served 'client|server' "$STRATUSD" --foreground "$SCRATCH/client.vol"
expect server-mounted 'server|fuse' "$STRATUS" mount --foreground "$SCRATCH/good.vol" "$SCRATCH/mnt"

# Places
variant missing-brick "s,option directory .*,option directory $SCRATCH/nowhere,"
serves missing-brick 'nowhere'
variant brick-is-file "s,option directory .*,option directory $SCRATCH/good.vol,"
serves brick-is-file 'good.vol'
variant no-address 's/listen 127.0.0.1/listen 192.0.2.77/'
serves no-address '192.0.2.77'
expect missing-mount-point 'nowhere' "$STRATUS" mount --foreground "$SCRATCH/client.vol" "$SCRATCH/nowhere"
expect file-as-mount-point 'good.vol' "$STRATUS" mount --foreground "$SCRATCH/client.vol" "$SCRATCH/good.vol"
client_variant nobody-listens 's/(option remote-port.*)/\1\n    option max-wait 2s/'
mounts nobody-listens "$PORT|127.0.0.1"
mountpoint -q "$SCRATCH/mnt" && fail "a mount that failed is still there"
client_variant no-such-host 's/remote-host .*/remote-host no-such-host.invalid\n    option max-wait 2s/'
mounts no-such-host 'no-such-host.invalid'

# A port in use
python3 -c 'import socket, sys, time; s = socket.create_server(("127.0.0.1", int(sys.argv[1]))); time.sleep(600)' "$PORT" &
note $! listener
TAKEN=$!
wait_until 10 port_open "$PORT"
serves good "$PORT|in use"
kill "$TAKEN"
wait_until 10 gone "$TAKEN"

# A brick that belongs to another volume, or is another one
BRICK=$SCRATCH/new SERVER_VOL=$SCRATCH/good.vol STACK=$SCRATCH
start_brick
stop_brick
rm -f "$SCRATCH"/*.log
variant other-volume "s/option volume-id .*/option volume-id $(uuid)/"
serves other-volume "$A_VOLUME|volume"
variant other-brick "s/option brick-id .*/option brick-id $(uuid)/"
serves other-brick "$A_BRICK|brick"
start_brick
client_variant asks-other-volume "s/option volume-id .*/option volume-id $(uuid)/;s/(option remote-port.*)/\1\n    option max-wait 2s/"
rm -f "$SCRATCH/stratusd.log"
mounts asks-other-volume 'volume'
client_variant asks-other-subvolume 's/remote-subvolume access/remote-subvolume excess/;s/(option remote-port.*)/\1\n    option max-wait 2s/'
mounts asks-other-subvolume 'excess'
client_variant passes-access-by 's/remote-subvolume access/remote-subvolume posix/;s/(option remote-port.*)/\1\n    option max-wait 2s/'
mounts passes-access-by 'posix'
stop_brick

# Command lines: wrong usage has status 2, all others 1
expect no-volfile 'volfile' "$STRATUSD"
expect no-such-command 'frobnicate' "$STRATUS" frobnicate
expect no-such-process 'nowhere' "$STRATUS" dump "$SCRATCH/nowhere"

[ $WRONG -eq 0 ] || fail "$WRONG mistakes are not answered as they should be"
say "$COUNT mistakes"
pass
