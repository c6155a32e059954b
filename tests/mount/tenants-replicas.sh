#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants on a replica set of three servers, over TLS, made by `stratus apply`: each has all that a mount of a set has, and sees nothing of the
# other; a mount that is killed holds up no other; one server is killed while both work, comes back, and is healed; the bricks are equal then, trees of tenants and all.
# limit: 900 s, 1200 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need curl openssl python3 setfacl getfacl setfattr
scratch
cd "$SCRATCH"
STACK=$SCRATCH
declare -A MOUNT
. "$TOP/tests/mount/cluster.sh"

# ---- the cluster ----
"$STRATUS" ca init --dir ca >/dev/null
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
for name in alpha beta gamma; do cert issue --server 127.0.0.1,localhost --out $name; done
for name in acme globex stranger; do cert issue --tenant $name --out $name; done
cp -r alpha own # each machine has its files at the same place; these three share one
start_three
specification() { # BRICKS OF A SET
	local name
	printf 'volume: photos\nid: %s\nreplica: %s\ntransport: tls\ntls:\n' "$VOLUME" "$1"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in alpha beta gamma; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'tenants: []\nbricks:\n'
	for name in alpha beta gamma; do
		printf '  - {server: %s, directory: %s/brick-%s, id: %s, port: %s}\n' "$name" "$SCRATCH" "$name" "$(uuid)" "$(free_port)"
	done
	printf 'options:\n  protocol/client: {max-wait: 3s, ping-interval: 1s}\n'
}
VOLUME=$(uuid)
specification 3 >photos.yaml
lead apply photos.yaml >out 2>err || fail "apply: $(cat err)"
[ ! -s err ] || fail "a warning: $(cat err)"
lead tenant create photos acme >/dev/null
lead tenant create photos globex >/dev/null
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
heal_is() { [ "$(on "${1:-alpha}" heal status --json photos | json '[(m["state"], m["pending"], m["to_heal"]) for m in d[0]["members"]] if d else ""')" = "${2:-[('in', 0, False), ('in', 0, False), ('in', 0, False)]}" ]; }
whole() { heal_is alpha || heal_is beta || heal_is gamma; } # whoever leads
status_of_heal() { for name in alpha beta gamma; do on $name heal status photos 2>&1 || true; done; }

# ---- both at work ----
mount_as() { # TENANT DIRECTORY
	start_mount "$SCRATCH/$2" "$SERVERS:/photos" --tls-dir "$SCRATCH/$1"
	MOUNT[$2]=$LAST_PID
}
A=$SCRATCH/mnt-acme A2=$SCRATCH/mnt-acme2 G=$SCRATCH/mnt-globex
mount_as acme mnt-acme
mount_as acme mnt-acme2
mount_as globex mnt-globex
[ "$(stat -c %i "$A") $(stat -c %i "$G")" = "1 1" ] || fail "a tenant's root is not like all roots"
echo "top secret" >"$G/secret"
(cd "$A" && MNT=$A timeout 600 python3 "$TOP/tests/mount/fops.py" >"$SCRATCH/fops.out" 2>&1) || fail "fops.py: $(tail -n 40 "$SCRATCH/fops.out")"
[ -z "$(ls -A "$A")" ] || rm -rf "${A:?}"/*
mkdir "$A/dir" && echo one >"$A/dir/file" && [ "$(cat "$A2/dir/file")" = one ] || fail "acme's other mount sees: $(ls -R "$A2")"
# The token of the tenant's root, which has another gfid at the servers than at the mounts: who had it knows that somebody else has it now.
acquired() { "$STRATUS" dump "$A" | sed -n 's/.*tokens acquired: //p'; }
: >"$A/mine"
had=$(acquired)
: >"$A/mine-too"
[ "$(acquired)" = "$had" ] || fail "the token of the root is not kept: $(acquired) acquired, $had before"
: >"$A2/theirs"
: >"$A/mine-again"
[ "$(acquired)" -gt "$had" ] || fail "two mounts have the token of the tenant's root"
rm "$A/mine" "$A/mine-too" "$A/mine-again" "$A2/theirs"
echo two >"$A2/dir/file" && [ "$(cat "$A/dir/file")" = two ] || fail "what the other mount has written: $(cat "$A/dir/file")"
setfacl -m u:1234:rw "$A/dir/file" && getfacl -p "$A2/dir/file" | grep -q user:1234:rw || fail "an ACL: $(getfacl -p "$A2/dir/file")"
mkdir "$A/from" "$A/to" && mv "$A/from" "$A/to/moved" && [ -d "$A2/to/moved" ] || fail "mv of a directory"
ln "$A/dir/file" "$A/linked" && [ "$(stat -c %h "$A2/dir/file")" = 2 ] || fail "a link"
[ "$(ls "$G")" = secret ] && ! ls "$A" | grep -q secret || fail "globex sees $(ls "$G"), acme sees $(ls "$A")"
"$STRATUS" locate "$A/dir/file" >located || fail "locate: $(cat located)"
! grep -q "$SCRATCH\|tenants" <(grep -v "mnt-acme" located) || fail "a tenant hears where the bricks are: $(cat located)"
mkdir refused
! STRATUS_TLS_DIR=$SCRATCH/stranger timeout 30 "$STRATUS" mount "$SERVERS:/photos" "$SCRATCH/refused" 2>err || fail "a stranger is let in"
for name in alpha beta gamma; do
	[ "$(ls "brick-$name/tenants")" = $'acme\nglobex' ] || fail "$name has: $(ls "brick-$name/tenants")"
	[ -z "$(find "brick-$name/tenants/acme" \( -not -uid +65535 -o -uid +131071 -o -not -gid +65535 -o -gid +131071 \))" ] || fail "acme has ids outside its range at $name"
done
wait_until 20 whole || fail "the set is not whole: $(status_of_heal)"

# ---- a mount that is killed holds nobody up: what it had tokens of is free without a view (T14) ----
let_go() { for name in alpha beta gamma; do "$STRATUS" dump "${PID[$name]}"; done | awk -F: '/clients let go:/ { n += $2 } END { print n + 0 }'; }
dies() { # NUMBER: it has the rename token, as it has given a directory another parent
	mount_as acme mnt-dying
	mkdir "$SCRATCH/mnt-dying/x$1" "$SCRATCH/mnt-dying/y$1" && mv "$SCRATCH/mnt-dying/x$1" "$SCRATCH/mnt-dying/y$1/x" || fail "mv of a directory"
	kill_hard "${MOUNT[mnt-dying]}" "the mount that is to die"
	umount -l "$SCRATCH/mnt-dying"
}
moved() { [ -d "$A2/x$1" ] || mv "$A2/y$1/x" "$A2/x$1"; }
for i in 1 2 3 4 5; do # where all is slow a view may be the sooner one
	dies $i
	wait_until 60 moved $i || fail "what a killed mount holds is never free: $(status_of_heal)"
	[ "$(let_go)" = 0 ] || break
done
[ "$(let_go)" -gt 0 ] || fail "a view is needed for what a killed mount has left: $(for name in alpha beta gamma; do "$STRATUS" dump "${PID[$name]}"; done | grep -E 'why:|let go')"
say "a killed mount was let go at the $i. time"

# ---- a server dies while they work, and comes back ----
working() { # DIRECTORY: until it is told to end; each file that it says it has made is there
	local i dir=$1
	trap 'exit 0' TERM
	for ((i = 0; ; i++)); do
		mkdir -p "$dir/w$((i % 7))" && echo "$i" >"$dir/w$((i % 7))/f$i" && mv "$dir/w$((i % 7))/f$i" "$dir/w$((i % 5))/g$i" 2>/dev/null ||
			mkdir -p "$dir/w$((i % 5))"
		[ ! -e "$dir/w$((i % 5))/g$i" ] || echo "w$((i % 5))/g$i $i"
		[ $((i % 3)) != 0 ] || rm -f "$dir"/w$((i % 7))/f$((i - 3))
	done
}
mkdir "$A/work" "$G/work"
working "$A/work" >acme.done & note $! "acme's work"; WORKS=$!
working "$G/work" >globex.done & note $! "globex's work"; WORKS="$WORKS $!"
done_more() { local least=$1; [ "$(wc -l <acme.done)" -gt "$least" ] && [ "$(wc -l <globex.done)" -gt "$least" ]; }
wait_until 60 done_more 40 || fail "nothing is done"
exec 7>"$A/open" # a file that is open has no name any more when the server comes back
echo before >&7
rm "$A/open"
kill_hard "${PID[beta]}" "stratusd beta"
LEAST=$(cat acme.done globex.done | wc -l)
wait_until 60 done_more $((LEAST + 20)) || fail "nothing is done with a server dead: $(status_of_heal)"
echo without >&7 || fail "an open file without a name can't be written"
mount_as globex mnt-late 7>&- # a mount that comes meanwhile
[ "$(cat "$SCRATCH/mnt-late/secret")" = "top secret" ] || fail "a mount that comes with a server dead"
start_server beta 7>&-
LEAST=$(cat acme.done globex.done | wc -l)
wait_until 60 done_more $((LEAST + 20)) || fail "nothing is done any more: $(status_of_heal)"
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
echo after >&7 || fail "an open file without a name can't be written when the server is back"
exec 7>&-
# shellcheck disable=SC2086
kill $WORKS
for pid in $WORKS; do wait "$pid" || true; unset "PIDS[$pid]"; done
for tenant in acme globex; do
	root=$A; [ $tenant = acme ] || root=$G
	while read -r file number; do [ "$(cat "$root/work/$file")" = "$number" ] || fail "$tenant: $file is $(cat "$root/work/$file"), not $number"; done <$tenant.done
done
say "done meanwhile: $(wc -l <acme.done) and $(wc -l <globex.done)"

# ---- a tenant that comes while a server is away: its tree is made there, too ----
kill_hard "${PID[gamma]}" "stratusd gamma"
lead tenant create photos initech >/dev/null
cert issue --tenant initech --out initech
known() { "$STRATUS" ctl "${PID[alpha]}" brick0 tenants | grep -q '^initech ' && "$STRATUS" ctl "${PID[beta]}" brick1 tenants | grep -q '^initech '; }
wait_until 30 known || fail "the bricks do not hear of initech"
mount_as initech mnt-initech
mkdir -p "$SCRATCH/mnt-initech/a/b" && echo late >"$SCRATCH/mnt-initech/a/b/c" || fail "initech's first work"
start_server gamma
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
[ "$(cat brick-gamma/tenants/initech/a/b/c)" = late ] || fail "gamma has of initech: $(ls -R brick-gamma/tenants/initech)"

# ---- equal ----
for mount in mnt-acme mnt-acme2 mnt-globex mnt-late mnt-initech; do stop_mount "$SCRATCH/$mount" "${MOUNT[$mount]}"; done
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
for name in beta gamma; do
	python3 "$TOP/tests/mount/same.py" brick-alpha brick-$name >differ 2>&1 || fail "the bricks differ: $(cat differ)"
done
on alpha scrub photos check >/dev/null 2>&1 || on beta scrub photos check >/dev/null 2>&1 || on gamma scrub photos check >/dev/null
scrubbed() { for name in alpha beta gamma; do on $name scrub photos status 2>/dev/null | grep -q ', 0 differences' && return; done; return 1; }
wait_until 60 scrubbed || fail "a scrub finds: $(for name in alpha beta gamma; do on $name scrub photos status 2>&1; done)"

# ---- one bill of the three: one member says that what it charges is billed, and all charge the same ----
metrics() { for name in alpha beta gamma; do curl -fsS --cacert own/ca.pem --cert own/cert.pem --key own/key.pem "https://127.0.0.1:${HTTP[$name]}/metrics"; done; }
one_bill() {
	metrics >metrics || return
	grep -q '^stratus_throttle_held_total{.*,volume="photos",set="[^"]*",tenant="acme",why="limit"} ' metrics || return
	[ "$(grep -c '^stratus_usage_billed{.*,set="[^"]*"} 1$' metrics)" = 1 ] && [ "$(grep -c '^stratus_usage_billed{.*} 0$' metrics)" = 2 ] &&
		[ "$(grep '^stratus_usage_bytes{.*,set=.*tenant="acme"}' metrics | sed 's/.* //' | uniq -c | awk '{print $1, ($2 > 0)}')" = "3 1" ]
}
wait_until 60 one_bill || fail "the metrics tell no bill: $(grep -E '^stratus_usage_(billed|bytes)' metrics)"

# ---- a deleted one is gone at all of them ----
lead tenant delete photos globex >/dev/null
left() { [ -n "$(compgen -G "brick-*/tenants/globex")" ]; } # ls would fail, too, when one goes before it is looked at
purged() { ! left; }
wait_until 60 purged || fail "of a deleted tenant is left: $(ls -d brick-*/tenants/globex)"
for name in beta gamma; do
	python3 "$TOP/tests/mount/same.py" brick-alpha brick-$name >differ 2>&1 || fail "the bricks differ after a tenant was deleted: $(cat differ)"
done
pass
