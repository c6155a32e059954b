#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three mounts work together, in the root and below it: what only one may do at a time only one does, and all see what it has done. Of a volume spread over four bricks, of a
# tenant with one brick, and of one with three replicas, which agree about all of it, and are the same in the end. SECONDS_OF_EACH of each kind of work.
# limit: 900 s, 1500 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need python3
scratch
cd "$SCRATCH"
D=$SCRATCH/data EACH=${SECONDS_OF_EACH:-$([ "$LONG" = 1 ] && echo 10 || echo 1)}
demo() { timeout 300 "$STRATUS" demo "$@" --dir "$D"; }
leave() {
	umount "$SCRATCH/m1" "$SCRATCH/m2" 2>/dev/null
	demo stop --purge >/dev/null 2>&1
}
AT_EXIT=leave
mkdir m1 m2

together() { # WHAT TENANT OPTION...: of `stratus demo`; no TENANT: the volume itself
	local what=$1 tenant=$2 i server top=$SCRATCH/m${2:+/$2} tls=()
	shift 2
	demo "$@" ${tenant:+--tenants "$tenant"} --mount "$SCRATCH/m" >out || fail "demo: $(cat out)"
	[ -z "$tenant" ] || tls=(--tls-dir "$D/tenant-$tenant")
	server=$("$STRATUS" status | sed -n 's/.*volfiles at \([0-9.:]*\),.*/\1/p')
	for i in 1 2; do
		"$STRATUS" mount --log "mount$i.log" ${tls[@]+"${tls[@]}"} "$server:/demo" "$SCRATCH/m$i" || fail "$what: mount $i: $(cat "mount$i.log")"
	done
	mkdir "$top/below"
	timeout 600 python3 "$TOP/tests/mount/together.py" "$EACH" "$top" m1 m2 >said || fail "$what, in the root: $(cat said)"
	timeout 600 python3 "$TOP/tests/mount/together.py" "$EACH" "$top/below" m1/below m2/below >said || fail "$what, below the root: $(cat said)"
	! grep -h 'members disagree' mount*.log "$D"/log/*.log >said 2>&1 || fail "$what: $(cat said)"
}
equal() { python3 "$TOP/tests/mount/same.py" "$D/brick0" "$D/brick1" >differ && python3 "$TOP/tests/mount/same.py" "$D/brick0" "$D/brick2" >differ; }

together "four bricks" "" --bricks 4
leave
together "a tenant" acme --bricks 1
leave
together "a tenant on three replicas" acme --replica 3
wait_until 30 equal || fail "the bricks differ: $(cat differ)"
pass
