#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# While a clean quorum of a replica set lives no operation fails or lasts longer than 15 s, whatever is done to servers, disks, links,
# the coordinator and mounts; when all is mended, every acknowledged byte and name is there and the bricks are byte-identical.
#
# Seeded runs: 15 (200 with LONG=1). SEED=N: that one; RUNS=N: so many from there on. REPLICA=2, 3 or 3a; not given: the runs take turns.
# ONLY="kill_server eio" does only these faults (see replicas.py). KEEP=1 keeps the logs. CRYPT=1: the mounts encrypt.
# limit: 900 s, 28800 s with LONG=1
# calm: leases of a second and less, and a limit for each operation
GIVEN=${REPLICA:-} ONE_SEED=${SEED:-}
REPLICA=${REPLICA:-3} MEMBER_HOSTS="(10.77.1.2 10.77.2.2 10.77.3.2)"
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/net.sh"
need_root
need_stack
need python3 ip nsenter
scratch
AT_EXIT=after
after() {
	unmount_below "$SCRATCH" # before its network goes
	net_down
}
show_logs() { :; } # they are long: KEEP=1
BRICK_TOP=$'debug/error-gen\n    option percent 0'
AFR_OPTIONS=$'option member-timeout 1500ms\n    option max-wait 25s'
COORDINATOR_OPTIONS=$'option lease 600ms\n    option heartbeat 100ms\n    option sync-interval 1s\n    option cold-wait 5s'
MEMBER_OPTIONS="option token-timeout 2s" SERVER_OPTIONS="option session-timeout 3s"
export KEEP STRATUS STRATUSD NS=sf$$ SECONDS_OF_FAULTS=${SECONDS_OF_FAULTS:-$([ "$LONG" = 1 ] && echo 12 || echo 8)}
PROGRAM=$(dirname "$0")/replicas.py

small_disk() { # the full disk is one of its own
	truncate -s 128M "$SCRATCH/disk.img"
	mkdir "$SCRATCH/disk"
	mkfs.ext4 -q -I 256 "$SCRATCH/disk.img" >/dev/null 2>&1 && mount -o loop "$SCRATCH/disk.img" "$SCRATCH/disk" 2>/dev/null
}
# write_run SEED: the volfiles, and what replicas.py wants to know.
write_run() {
	local i
	STACK=$SCRATCH/$1 VOLUME_ID=$(uuid)
	MEMBERS=${REPLICA%a}
	mkdir "$STACK"
	head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$STACK/secret"
	BRICKS=
	for ((i = 0; i < MEMBERS; i++)); do
		MEMBER_BRICK[i]=$STACK/brick$i
		[ "$i" != "$SMALL" ] || MEMBER_BRICK[i]=$SCRATCH/disk/brick$i
		BRICKS="$BRICKS ${MEMBER_BRICK[i]}"
		MEMBER_PORT[i]=24007 MEMBER_ID[i]=$(uuid) MEMBER_VOL[i]=$STACK/member$i.vol
		write_member_volfile "$i"
	done
	write_coordinator_volfile
	write_replica_client "$STACK/client.vol" "ping-interval 1s" "ping-timeout 3s"
}
one_run() { # SEED
	local kinds=(3 3a 2 3 3) status=0
	REPLICA=${GIVEN:-${kinds[$1 % 5]}}
	SMALL=
	[ "$HAVE_DISK" = 0 ] || SMALL=$(($1 % ${REPLICA%a}))
	write_run "$1"
	net_mend
	SMALL=$SMALL BRICKS=$BRICKS REPLICA=$REPLICA MOUNT_WORDS=$(key_words) timeout -k 60 400 python3 "$PROGRAM" "$1" "$STACK" >"$STACK/result.log" 2>&1 || status=$?
	say "replica $REPLICA, $(tail -n 1 "$STACK/result.log")"
	if [ "$status" != 0 ]; then
		head -n 12 "$STACK/result.log" >&2
		tail -n 40 "$STACK/events.log" >&2 2>/dev/null || true
		say "SEED=$1 REPLICA=$REPLICA repeats it"
		FAILED="$FAILED $1: $(grep -m 1 "^seed $1: " "$STACK/result.log" || tail -n 1 "$STACK/result.log");"
		[ "$KEEP" = 0 ] || cp -a "$SCRATCH/disk/"brick* "$STACK" 2>/dev/null
	fi
	rm -rf "$SCRATCH/disk/"*
	[ "$status" != 0 ] || [ "$KEEP" = 1 ] || rm -rf "$STACK"
}

net_up "$NS" m0=1 m1=2 m2=3 c=10 a=11 b=12
HAVE_DISK=0
small_disk && HAVE_DISK=1 || leave_out "no loop devices: no disk is filled"
RUNS=${RUNS:-$([ -n "$ONE_SEED" ] && echo 1 || { [ "$LONG" = 1 ] && echo 200 || echo 15; })}
FAILED=
for ((seed = ${ONE_SEED:-1}, run = 0; run < RUNS; run++, seed++)); do
	one_run "$seed"
	[ -z "$FAILED" ] || [ "${GO_ON:-0}" = 1 ] || break
done
[ -z "$FAILED" ] || fail "seeds$FAILED"
pass
