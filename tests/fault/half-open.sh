#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Those who connect and never end the handshake, or send it byte by byte, or are refused and do not go, keep nobody out, and what they cost is bounded.
. "$(dirname "$0")/../mount/lib.sh"
need_root
need_stack
need python3

scratch
cd "$SCRATCH"
"$STRATUS" ca init --dir ca >/dev/null
"$STRATUS" cert issue --dir ca --server 127.0.0.1 --out server >/dev/null
"$STRATUS" cert issue --dir ca --client mounter --out client >/dev/null
BRICK=$SCRATCH/brick MNT=$SCRATCH/mnt SERVER_VOL=$SCRATCH/server.vol CLIENT_VOL=$SCRATCH/client.vol STACK=$SCRATCH
PORT=$(free_port) VOLUME_ID=$(uuid) BRICK_ID=$(uuid)
mkdir -p "$BRICK"
options() { # DIR
	printf '    option transport tls\n    option tls-certificate %s/cert.pem\n    option tls-key %s/key.pem\n' "$1" "$1"
	printf '    option tls-authorities %s/ca.pem\n    option tls-revoked %s/crl.pem\n' "$1" "$1"
}
write_server_volfile "$SERVER_VOL" "$BRICK" "$PORT" "$VOLUME_ID" "$BRICK_ID"
sed -i '/option listen/r /dev/fd/3' "$SERVER_VOL" 3< <(options "$SCRATCH/server")
write_client_volfile "$CLIENT_VOL" "$PORT" "$VOLUME_ID" "$BRICK_ID"
sed -i '/option remote-port/r /dev/fd/3' "$CLIENT_VOL" 3< <(options "$SCRATCH/client")
start_brick
start_mount "$MNT"
MOUNT_PID=$LAST_PID

# flood COUNT: so many connections at all times
flood() {
	ulimit -n 20000
	python3 "$TOP/tests/hostile/half-open.py" "$PORT" "$1" >flood.out 2>flood.err &
	FLOOD=$!
	note "$FLOOD" flood
	wait_until 30 grep -q there flood.out || fail "the flood does not come: $(cat flood.err)"
}
end_flood() {
	kill "$FLOOD"
	wait "$FLOOD" 2>/dev/null || true
	unset "PIDS[$FLOOD]"
}
works() { # NAME: a mount that was there, and a new one
	local begin
	begin=$(now_ms)
	echo "$1" | timeout 60 tee "$MNT/$1" >/dev/null || fail "$1: a mount that was there can't write"
	start_mount "$SCRATCH/new-$1"
	[ "$(timeout 60 cat "$SCRATCH/new-$1/$1")" = "$1" ] || fail "$1: a new mount can't read"
	say "$1: $(( $(now_ms) - begin )) ms for a write, a new mount and a read"
	stop_mount "$SCRATCH/new-$1" "$LAST_PID"
}
fact() { facts "$BRICK_PID" | sed -n "s/^ *$1: //p"; }

before=$(rss_kib "$BRICK_PID")
flood 1000
works half-open-1000
[ "$(fact 'handshakes crowded out')" = 0 ] || fail "1000 were too many"
end_flood
flood 4000
works half-open-4000
[ "$(fact 'handshakes crowded out')" -gt 2000 ] || fail "nobody made way"
[ "$(facts "$BRICK_PID" | grep -c ', greeting,')" -le 1100 ] || fail "more than max-handshakes are kept"
after=$(rss_kib "$BRICK_PID")
say "memory: $before KiB before, $after KiB with 4000 half-open connections"
[ $((after - before)) -lt $((150000 + ${RSS_SLACK_KIB:-0})) ] || fail "the server has grown from $before to $after KiB"
end_flood
greeting() { grep -q ', greeting,' < <(facts "$BRICK_PID"); }
not_greeting() { ! greeting; }
wait_until 20 not_greeting || fail "connections that never greet stay"
works afterwards
stop_mount "$MNT" "$MOUNT_PID"
stop_brick
pass
