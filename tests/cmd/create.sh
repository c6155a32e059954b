#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `stratus volume create` and `stratus apply` change nothing if this server can't serve its part: a directory that is not empty, or is none, or can't be written to or made, or files of TLS that are
# not there.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
scratch
cd "$SCRATCH"
HTTP=$(free_port)
start_keeper
nothing() { [ "$("$STRATUS" volume info --json)" = "[]" ] && [ -z "$(ls -A good 2>/dev/null)" ]; }
create_refused() { # PATTERN DIRECTORY [OPTIONS]: with --start and without, beside a brick that could be served
	local pattern=$1 bad=$2
	shift 2
	refused "$pattern" volume create v "$@" 127.0.0.1:"$SCRATCH/good" 127.0.0.1:"$bad" --start
	nothing || fail "made: $("$STRATUS" volume info)"
	refused "$pattern" volume create v "$@" 127.0.0.1:"$SCRATCH/good" 127.0.0.1:"$bad"
	nothing || fail "made without --start: $("$STRATUS" volume info)"
}

mkdir used empty readonly
echo mine >used/file
echo mine >plain
mount -t tmpfs -o ro none readonly
create_refused "$SCRATCH/used is no brick and is not empty" "$SCRATCH/used"
create_refused "$SCRATCH/plain is no directory" "$SCRATCH/plain"
create_refused "$SCRATCH/plain/below can't be" "$SCRATCH/plain/below"
create_refused "$SCRATCH/no/such can't be made, for $SCRATCH/no is no directory" "$SCRATCH/no/such"
create_refused "$SCRATCH/readonly can't be a brick: Read-only file system" "$SCRATCH/readonly"
create_refused "$SCRATCH/readonly/below can't be made: .*Read-only file system" "$SCRATCH/readonly/below"
create_refused "can't read /nosuch/cert.pem: .*stratus cert issue" "$SCRATCH/empty" --tls-dir /nosuch
[ "$(cat used/file plain)" = "mine
mine" ] && [ ! -e no ] && [ -z "$(ls -A empty)" ] || fail "something was changed: $(ls -R used empty no)"

# ---- what can be served is made; a specification that comes with its bricks, too ----
"$STRATUS" volume create v --start 127.0.0.1:"$SCRATCH/good" 127.0.0.1:"$SCRATCH/empty" >/dev/null || fail "it can't be made where nothing is wrong"
"$STRATUS" volume info v | sed 1d >v.yaml
refused "can't read /nosuch/cert.pem" apply <(sed '$a transport: tls\ntls:\n  certificate: /nosuch/cert.pem\n  key: /nosuch/key.pem\n  authorities: /nosuch/ca.pem' v.yaml)
refused "no address for .*nosuch.invalid" apply <(sed 's/^\( *host: \).*/\1nosuch.invalid/' v.yaml)
refused "is no brick and is not empty" brick add v 127.0.0.1:"$SCRATCH/used"
"$STRATUS" volume info v | sed 1d | cmp - v.yaml || fail "what is refused has changed something"
"$STRATUS" volume stop v >/dev/null
"$STRATUS" volume delete v >/dev/null
"$STRATUS" apply v.yaml >out 2>err || fail "a volume can't come back with its bricks: $(cat out err)"
"$STRATUS" volume stop v >/dev/null
"$STRATUS" volume delete v >/dev/null

# ---- a server's name that can't be resolved: nothing is committed that can't be started; what is not started may have its address later ----
getent hosts alpha >/dev/null || {
	refused 'no address for "alpha".*write its .host. into the specification' volume create w --start alpha:"$SCRATCH/later"
	[ "$("$STRATUS" volume info --json)" = "[]" ] && [ ! -e later ] || fail "made: $("$STRATUS" volume info)"
	"$STRATUS" volume create w alpha:"$SCRATCH/later" >/dev/null || fail "not made, though it is not to start"
	refused 'no address for "alpha"' volume start w
	"$STRATUS" volume delete w >/dev/null
}
stop_process "$KEEPER" stratusd
pass
