#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A disk of a set of three that takes no more changes holds up no tenant, not even one that comes for the first time: its brick is left out, and status says so. One that is full is told by df(1),
# and the log of a mount that waits for it stays short.
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need mkfs.ext4 python3 setfattr
scratch
cd "$SCRATCH"
STACK=$SCRATCH
. "$TOP/tests/mount/cluster.sh"

# ---- three servers; alpha's brick has a disk of its own, and gamma's ----
"$STRATUS" ca init --dir ca >/dev/null
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
for name in alpha beta gamma; do cert issue --server 127.0.0.1,localhost --out $name; done
for name in acme globex initech; do cert issue --tenant $name --out $name; done
for name in alpha gamma; do
	truncate -s 512M disk-$name
	mkfs.ext4 -q -m 0 disk-$name
	mkdir $name-disk
	mount -o loop,errors=remount-ro disk-$name $name-disk
done
start_three
cp -r alpha own # each machine has its files at the same place; these three share one
{
	printf 'volume: shared\nid: %s\nreplica: 3\ntransport: tls\ntls:\n' "$(uuid)"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in alpha beta gamma; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'tenants: []\nbricks:\n'
	for directory in alpha:alpha-disk/brick beta:brick-beta gamma:gamma-disk/brick; do
		printf '  - {server: %s, directory: %s/%s, id: %s, port: %s}\n' "${directory%:*}" "$SCRATCH" "${directory#*:}" "$(uuid)" "$(free_port)"
	done
} >shared.yaml
lead apply shared.yaml >out 2>err || fail "apply: $(cat err)"
for tenant in acme globex initech; do lead tenant create shared $tenant >/dev/null; done
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
states() { on "$1" heal status --json shared | json '[m["state"] for m in d[0]["members"]] if d and "members" in d[0] else ""'; }
states_are() { local name; for name in alpha beta gamma; do [ "$(states $name)" != "$1" ] || return 0; done; return 1; }
told() { for name in alpha beta gamma; do on $name status 2>&1 || true; done; }
wait_until 60 states_are "['in', 'in', 'in']" || fail "the set is not whole: $(told)"

# ---- full: nobody waits for it longer than a view takes, df(1) tells it, and the log stays short ----
start_mount "$SCRATCH/mnt-acme" "$SERVERS:/shared" --tls-dir "$SCRATCH/acme"
ACME=$LAST_PID
echo first >mnt-acme/file
free_of() { echo $(($(stat -f -c '%a * %S' "$1"))); }
least_is() { [ "$(free_of mnt-acme)" -le "$(free_of $1-disk)" ]; }
fill() { # NAME: what is left is less than the floor
	head -c $(($(free_of "$1-disk") - 1048576)) /dev/zero >"$1-disk/ballast" || fail "no ballast"
	sync -f "$1-disk"
	least_is "$1" || fail "df tells of $(free_of mnt-acme) bytes, and $1 has $(free_of "$1-disk")"
	on "$1" status --check >out 2>&1 || true
	grep -q "$1-disk/brick: [0-9]* % of its file system's bytes are used" out || fail "status --check does not name who is full: $(cat out)"
}
LOG=$SCRATCH/mount-mnt-acme.log
times_told() { grep -c "member $1 did not do what others did (No space" "$LOG" || true; }
# only_made NAME NUMBER OTHERS STATES...: nothing is written, there is only made something, while the disk of member NUMBER is full; it is left out by what it says of its disk itself
only_made() {
	local name=$1 number=$2 other=$3 i
	shift 3
	fill "$name"
	for i in 1 2 3 4 5; do
		timeout 20 mkdir mnt-acme/$name$i || fail "no directory can be made while the disk of $name is full: $(told)"
		timeout 20 ln -s target mnt-acme/$name$i/link || fail "no link can be made while the disk of $name is full: $(told)"
		: >mnt-acme/$name$i/file || fail "no file can be made while the disk of $name is full: $(told)"
		[ -e $other/tenants/acme/$name$i/file ] || fail "it was told to be made, and is not at $other: $(told)"
	done
	is_left_out() { states_are "$1" || states_are "$2"; } # it is tried again now and then
	wait_until 20 is_left_out "$@" || fail "the brick that is full is not left out: $(told)"
	[ "$(times_told "$number")" -ge 1 ] && [ "$(times_told "$number")" -le 4 ] || fail "the log tells $(times_told "$number") times that a member is full: $LOG"
	rm $name-disk/ballast
	sync -f $name-disk
	timeout 60 mkdir mnt-acme/$name-later || fail "there is room again, and nothing can be made"
	wait_until 120 states_are "['in', 'in', 'in']" || fail "the set is not whole: $(told)"
	[ -e $name-disk/brick/tenants/acme/${name}5/file ] || fail "what was made without it is not there: $(told)"
}
wait_until 10 least_is gamma || fail "df tells of $(free_of mnt-acme) bytes, and gamma has $(free_of gamma-disk)"
only_made gamma 2 alpha-disk/brick "['in', 'in', 'out']" "['in', 'in', 'back']"
leads alpha || say "alpha does not lead any more"
only_made alpha 0 gamma-disk/brick "['out', 'in', 'in']" "['back', 'in', 'in']" # the first member, and at the server that leads

# ---- what no disk has room for, and none has begun, is refused and no more: nobody else waits for a new view ----
epochs() { for name in alpha beta gamma; do { on $name heal status --json shared | json 'd[0]["epoch"]'; } 2>/dev/null || true; done; }
big() { setfattr -n user.big -v "0x$(head -c 60000 /dev/zero | od -An -v -tx1 | tr -d ' \n')" "$1" 2>/dev/null; }
too_big=true
for directory in . gamma-disk; do
	: >$directory/try
	big $directory/try && too_big=false
	rm $directory/try
done
if $too_big; then
	before=$(epochs)
	[ -n "$before" ] || fail "nobody tells of the view"
	for i in 1 2 3 4 5; do big mnt-acme/file && fail "an attribute is set that no disk has room for"; done
	[ "$(epochs)" = "$before" ] || fail "what is refused made new views: $before, then $(epochs)"
fi

# ---- read-only: whoever comes, comes ----
! on gamma status --check --full 100 | grep -q read-only || fail "status --check: $(on gamma status --check)"
mount -o remount,abort gamma-disk || fail "the file system does not take 'abort'"
on gamma status --check >out 2>&1 && fail "status --check finds nothing wrong"
grep -q "gamma-disk/brick: its file system is read-only" out || fail "status --check: $(cat out)"
on gamma status | grep -q "gamma-disk/brick port [0-9]* serving, its file system is read-only" || fail "status: $(on gamma status)"
start_mount "$SCRATCH/mnt-globex" "$SERVERS:/shared" --tls-dir "$SCRATCH/globex"
GLOBEX=$LAST_PID
timeout 20 mkdir mnt-globex/dir || fail "who comes for the first time can't make anything: $(told)"
left_out() { states_are "['in', 'in', 'out']" || states_are "['in', 'in', 'back']"; } # it is tried again now and then
wait_until 20 left_out || fail "the brick that takes nothing is not left out: $(told)"
# it is tried again now and then, and nobody waits for that, neither who was there nor who comes
VIEW=$(epochs) COUNT=0
tried_again() {
	COUNT=$((COUNT + 1))
	timeout 25 mkdir mnt-globex/again-$COUNT || fail "who is there waits for a brick that is not healed: $(told)"
	[ "$(epochs)" -ge $((VIEW + 2)) ]
}
wait_until 90 tried_again || fail "the brick is not tried again: $(told)"
start_mount "$SCRATCH/mnt-initech" "$SERVERS:/shared" --tls-dir "$SCRATCH/initech"
timeout 25 mkdir mnt-initech/dir || fail "who comes later waits for a brick that is not healed: $(told)"
stop_mount "$SCRATCH/mnt-initech" "$LAST_PID"
echo second >mnt-acme/file && [ "$(cat mnt-acme/file)" = second ] || fail "who was there can't write"
# what is refused for who one is, is refused at once
lead tenant suspend shared initech >/dev/null
mkdir refused
BEFORE=$(now_ms)
! STRATUS_TLS_DIR=$SCRATCH/initech timeout 60 "$STRATUS" mount "$SERVERS:/shared" "$SCRATCH/refused" 2>err || fail "a suspended tenant is let in"
[ $(($(now_ms) - BEFORE)) -lt 20000 ] || fail "a suspended tenant is refused after $(($(now_ms) - BEFORE)) ms"
stop_mount "$SCRATCH/mnt-globex" "$GLOBEX"
stop_mount "$SCRATCH/mnt-acme" "$ACME"
pass
