# SPDX-License-Identifier: Apache-2.0
# For scripts that have read lib.sh, and stand in $SCRATCH: the three servers of cluster.sh, and a volume `photos` of tenants, over TLS, on two of them or in two replica sets of all three.
need python3 curl
. "$TOP/tests/mount/cluster.sh"
SERVER_NAMES="alpha beta gamma"

start_for() { # TENANT...: certificates of all, and the servers
	local name
	"$STRATUS" ca init --dir ca >/dev/null
	for name in $SERVER_NAMES; do "$STRATUS" cert issue --dir ca --server 127.0.0.1,localhost --out "$name" >/dev/null || fail "the certificate of $name"; done
	for name; do "$STRATUS" cert issue --dir ca --tenant "$name" --out "$name" >/dev/null || fail "the certificate of $name"; done
	start_three
	cp -r alpha own
	SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
}
volume_begins() { # [LINE]
	printf 'volume: photos\nid: %s\n%stransport: tls\ntls:\n' "$(uuid)" "${1:+$1$'\n'}"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	printf '  %s: {host: 127.0.0.1}\n' $SERVER_NAMES
	printf 'tenants: []\ntenant-base: 65536\nbricks:\n'
}
brick_of() { printf '  - {server: %s, directory: %s/%s, id: %s, port: %s}\n' "$1" "$SCRATCH" "$2" "$(uuid)" "$(free_port)"; } # SERVER DIRECTORY
# The bricks b0 and b2 are alpha's, b1 and b3 beta's.
apply_on_servers() {
	{
		volume_begins
		for i in 0 1 2 3; do brick_of "$([ $((i % 2)) = 0 ] && echo alpha || echo beta)" b$i; done
		printf 'options:\n  protocol/client: {max-wait: 20s, ping-interval: 1s}\n'
	} >photos.yaml
	lead apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
}
# Each server has a member of each set, sSET-SERVER.
SETS="0 1"
apply_on_sets() {
	local set name
	{
		volume_begins "replica: 3"
		for set in $SETS; do for name in $SERVER_NAMES; do brick_of "$name" "s$set-$name"; done; done
		printf 'options:\n  protocol/client: {max-wait: 5s, ping-interval: 1s}\n  cluster/afr: {max-wait: 120s}\n'
	} >photos.yaml
	lead apply photos.yaml >/dev/null 2>err || fail "apply: $(cat err)"
}
LEADER=alpha
find_leader() { local name; for name in $SERVER_NAMES; do if [ -n "${PID[$name]:-}" ] && leads "$name"; then LEADER=$name; return 0; fi; done; return 1; }
resize() { wait_until 30 find_leader || fail "nobody leads"; lead tenant resize photos acme "$@" >/dev/null 2>err || fail "tenant resize $*: $(cat err)"; }

# ---- replica sets ----
members() { local name; for name in $SERVER_NAMES; do on "$name" heal status photos --json 2>/dev/null | json '[(m["state"], m["pending"], m["to_heal"]) for s in d for m in s["members"]]' 2>/dev/null && return; done; }
whole() { [ "$(members | grep -o "('in', 0, False)" | wc -l)" = $((3 * $(wc -w <<<"$SETS"))) ]; }
status_of_heal() { local name; for name in $SERVER_NAMES; do on "$name" heal status photos 2>&1 || true; done; }
alike() { # WHEN
	local set name
	wait_until 90 whole || fail "$1: the sets are not whole: $(status_of_heal)"
	for set in $SETS; do
		for name in beta gamma; do
			equal() { python3 "$TOP/tests/mount/same.py" "s$set-alpha" "s$set-$name" >differ 2>&1; }
			wait_until 30 equal || fail "$1: members of set $set differ: $(cat differ)"
		done
	done
	wait_until 60 agrees || fail "$1: usage verify: $(cat verified)"
}
agrees() { "$STRATUS" usage verify --wait 30 >verified 2>&1; }
known() { # at all bricks, of the tenant acme
	local number=0 set name
	for set in $SETS; do
		for name in $SERVER_NAMES; do
			"$STRATUS" ctl "${PID[$name]}" brick$number tenants 2>/dev/null | grep -q '^acme ' || return
			number=$((number + 1))
		done
	done
}

# ---- limits ----
racer() { # DIRECTORY: writes until EDQUOT, and (with a second word) puts up with a server that is away
	timeout 600 python3 - "$1" "${2:-}" <<-'END'
	import errno, os, sys
	number = failed = 0
	while True:
	    try:
	        fd = os.open(f"{sys.argv[1]}.{number}", os.O_WRONLY | os.O_CREAT, 0o644)
	        number += 1
	        try:
	            for _ in range(16):
	                os.write(fd, b"x" * 65536)
	        finally:
	            os.close(fd)
	    except OSError as e:
	        failed += 1
	        number += 1
	        if e.errno == errno.EDQUOT:
	            sys.exit(0)
	        if not sys.argv[2] or failed > 200:
	            sys.exit(f"{e}, {number}")
	END
}

# ---- soft limits ----
told() { on "$1" usage --total --tenant acme --json | json "d[0]['accounts'][0]['bytes_over_since']"; }
is_told() { local name; for name in $TELLERS; do [ "$(told "$name")" = "$1" ] || return 1; done; }
is_above() {
	SINCE=$(told alpha)
	[ "$SINCE" -gt 0 ] && is_told "$SINCE"
}
tells() { local name; for name in $TELLERS; do echo "$name: $(told "$name")"; done; }
lines() { cat alpha.log beta.log gamma.log | grep -c "acme has [0-9]* bytes in all, $1"; }
once() { [ "$(lines "more than its soft limit of $SOFT")" = "$1" ]; }
less() { [ "$(lines "less than its soft limit of $SOFT again")" = "$1" ]; }
kill_all() {
	local name
	for name in $SERVER_NAMES; do kill_hard "${PID[$name]}" "stratusd $name"; done
	for name in $SERVER_NAMES; do start_server "$name"; done
	wait_until 60 find_leader || fail "nobody leads"
}
write() { dd if=/dev/zero of="$A/$1" bs=1M count="$2" conv=notrunc 2>/dev/null; } # FILE MIB
refused() { ! dd if=/dev/zero of="$A/$1" bs=4K count=1 oflag=append conv=notrunc 2>/dev/null; }
size() { df -B1 --output="$1" "$A" | tail -n 1 | tr -d ' '; }
shown() { [ "$(size size)" -le $SOFT ] && [ "$(size size)" -ge $((SOFT - (1 << 20))) ] && [ "$(size avail)" = 0 ]; }
