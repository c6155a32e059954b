#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two tenants whose names are spread over two replica sets of three servers, over TLS: each has all that a mount of such a volume has, also between the sets, and sees
# nothing of the other; servers are killed while both work, come back, and are healed; the members of each set are equal then; all are charged what is there; and a
# deleted one leaves nothing at any of them.
# limit: 900 s, 1200 s with LONG=1
. "$(dirname "$0")/lib.sh"
need_root
need_stack
need openssl python3 setfacl getfacl setfattr
scratch
cd "$SCRATCH"
STACK=$SCRATCH
declare -A MOUNT
. "$TOP/tests/mount/cluster.sh"
SERVER_NAMES="alpha beta gamma" SET0="alpha beta gamma" SET1="alpha-2 beta-2 gamma-2"

# ---- the cluster ----
"$STRATUS" ca init --dir ca >/dev/null
cert() { "$STRATUS" cert "$@" --dir ca >/dev/null || fail "stratus cert $*"; }
for name in $SERVER_NAMES; do cert issue --server 127.0.0.1,localhost --out $name; done
for name in acme globex initech; do cert issue --tenant $name --out $name; done
cp -r alpha own # each machine has its files at the same place; these three share one
start_three
specification() {
	local name
	printf 'volume: photos\nid: %s\nreplica: 3\ntransport: tls\ntls:\n' "$(uuid)"
	printf '  %s: %s/own/%s\n' certificate "$SCRATCH" cert.pem key "$SCRATCH" key.pem authorities "$SCRATCH" ca.pem revoked "$SCRATCH" crl.pem
	printf 'servers:\n'
	for name in $SERVER_NAMES; do printf '  %s: {host: 127.0.0.1}\n' $name; done
	printf 'tenants: []\nbricks:\n'
	for name in $SET0 $SET1; do
		printf '  - {server: %s, directory: %s/brick-%s, id: %s, port: %s}\n' "${name%-*}" "$SCRATCH" "$name" "$(uuid)" "$(free_port)"
	done
	printf 'options:\n  protocol/client: {max-wait: 3s, ping-interval: 1s}\n  cluster/dht: {sweep-interval: 100ms}\n  cluster/afr: {max-wait: 120s}\n'
}
specification >photos.yaml
lead apply photos.yaml >out 2>err || fail "apply: $(cat err)"
[ ! -s err ] || fail "a warning: $(cat err)"
lead tenant create photos acme >/dev/null
lead tenant create photos globex >/dev/null
SERVERS=127.0.0.1:${HTTP[alpha]},127.0.0.1:${HTTP[beta]},127.0.0.1:${HTTP[gamma]}
heal_is() { [ "$(on "$1" heal status --json photos | json '[[(m["state"], m["pending"], m["to_heal"]) for m in s["members"]] for s in d]')" = "[[('in', 0, False), ('in', 0, False), ('in', 0, False)], [('in', 0, False), ('in', 0, False), ('in', 0, False)]]" ]; }
whole() { heal_is alpha || heal_is beta || heal_is gamma; } # whoever leads
status_of_heal() { for name in $SERVER_NAMES; do on $name heal status photos 2>&1 || true; done; }
equal() { # WHEN
	local name set=$SET0
	for set in "$SET0" "$SET1"; do
		for name in ${set#* }; do
			python3 "$TOP/tests/mount/same.py" "brick-${set%% *}" "brick-$name" >differ 2>&1 || fail "$1 brick-${set%% *} and brick-$name differ: $(cat differ; grep -h ' coordinator\|deleted tenant' alpha.log beta.log gamma.log | sort | tail -n 30)"
		done
	done
}

# ---- what a mount can do, also between sets ----
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
rename() { python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$@"; }
for i in {0..23}; do mkdir "$A/d$i" && echo "$i" >"$A/d$i/file" && echo "$i" >"$A/f$i"; done
[ "$(ls "$A2" | wc -l)" = 48 ] && [ "$(cat "$A2"/d?/file "$A2"/d??/file | sort -n | uniq | wc -l)" = 24 ] || fail "another mount sees: $(ls "$A2")"
for name in $SET0 $SET1; do
	[ "$(ls "brick-$name/tenants/acme" | wc -l)" -ge 5 ] || fail "$name has of acme: $(ls "brick-$name/tenants/acme")"
	[ "$(ls "brick-$name/tenants")" = $'acme\nglobex' ] || fail "$name has: $(ls "brick-$name/tenants")"
done
for i in {0..23}; do
	rename "$A/f$i" "$A/moved$i" || fail "rename of f$i"
	ln "$A/moved$i" "$A/linked$i" || fail "a link of moved$i"
	[ "$A2/moved$i" -ef "$A2/linked$i" ] && [ "$(stat -c %h "$A2/moved$i")" = 2 ] || fail "moved$i has $(stat -c %h "$A2/moved$i") links"
done
for i in {1..8}; do mkdir "$A/deep$i" && mv "$A/deep$i" "$A/d$((i + 13))/deep" || fail "mv of the directory deep$i"; done
for i in {1..7}; do
	! rename "$A/d$((i + 13))" "$A/d$((i + 13))/deep/x" 2>/dev/null || fail "a directory got below itself"
	rename "$A/d$((i + 13))/deep" "$A/d$((i + 14))/deeper" || fail "mv of a directory that is away"
done
cat "$A2"/moved* | sort -n | uniq | wc -l | grep -qx 24 || fail "not all files are what they were"
setfacl -m u:1234:rw "$A/moved1" && getfacl -p "$A2/moved1" | grep -q user:1234:rw || fail "an ACL: $(getfacl -p "$A2/moved1")"
chmod 1750 "$A" && chown 12:34 "$A"
[ "$(stat -c '%a %u:%g' brick-*/tenants/acme | sort -u)" = "1750 65548:65570" ] || fail "the roots differ: $(stat -c '%a %u:%g' brick-*/tenants/acme)"
chmod 755 "$A" && chown 0:0 "$A"
[ "$(ls "$G")" = secret ] && ! ls "$A" | grep -q secret || fail "globex sees $(ls "$G"), acme sees $(ls "$A")"
"$STRATUS" locate "$A/moved1" >located || fail "locate: $(cat located)"
! grep -q "$SCRATCH\|tenants" <(grep -v "mnt-acme" located) || fail "a tenant hears where the bricks are: $(cat located)"
for name in $SET0 $SET1; do
	[ -z "$(find "brick-$name/tenants/acme" \( -not -uid +65535 -o -uid +131071 -o -not -gid +65535 -o -gid +131071 \))" ] || fail "acme has ids outside its range at $name"
done
wait_until 30 whole || fail "the sets are not whole: $(status_of_heal)"

# ---- servers die while they work, and come back; so does a mount in the middle of a name ----
working() { # DIRECTORY: until it is told to end; each file that it says it has made is there
	exec python3 - "$1" <<-'END'
	import os, signal, sys
	top, end = sys.argv[1], []
	signal.signal(signal.SIGTERM, lambda *_: end.append(1))
	n = 0
	while not end:
	    a, b = f"{top}/w{n}", f"{top}/dir{n % 5}/g{n}"
	    os.makedirs(f"{top}/dir{n % 5}", exist_ok=True)
	    with open(a, "w") as f:
	        f.write(f"{n}\n")
	    os.rename(a, f"{top}/r{n}")
	    os.rename(f"{top}/r{n}", b)
	    os.mkdir(f"{top}/made{n}")
	    os.rename(f"{top}/made{n}", f"{top}/dir{n % 5}/kept{n}")
	    if n % 3 == 0:
	        os.unlink(b)
	        os.rmdir(f"{top}/dir{n % 5}/kept{n}")
	    else:
	        print(f"dir{n % 5}/g{n} {n}", flush=True)
	    n += 1
	END
}
mkdir "$A/work" "$G/work" "$A2/dies"
working "$A/work" >acme.done 2>acme.err & note $! "acme's work"; WORKS=$!
working "$G/work" >globex.done 2>globex.err & note $! "globex's work"; WORKS="$WORKS $!"
working "$A2/dies" >dies.done 2>/dev/null & note $! "whose mount dies"; DIES=$!
done_in_all() { cat acme.done globex.done | wc -l; }
done_more() { local of; for of in acme globex; do [ "$(wc -l <$of.done)" -ge $((${LEAST[$of]:-0} + 12)) ] || return 1; done; }
declare -A LEAST
note_done() { local of; for of in acme globex; do LEAST[$of]=$(wc -l <$of.done); done; }
wait_until 60 done_more || fail "nothing is done: $(cat acme.err globex.err)"
exec 7>"$A/open" # a file that is open has no name any more when the server comes back
echo before >&7
rm "$A/open"
kill_hard "${PID[beta]}" "stratusd beta"
note_done
wait_until 150 done_more || fail "nothing is done with a server dead: $(cat acme.err globex.err; status_of_heal)"
echo without >&7 || fail "an open file without a name can't be written"
kill_hard "${MOUNT[mnt-acme2]}" "the mount that dies" 7>&-
unmount_below "$A2"
wait "$DIES" || true
unset "PIDS[$DIES]"
start_server beta 7>&-
note_done
wait_until 150 done_more || fail "nothing is done any more: $(cat acme.err globex.err; status_of_heal)"
wait_until 90 whole || fail "the backlog is not empty: $(status_of_heal)"
echo after >&7 || fail "an open file without a name can't be written when the server is back"
exec 7>&-
kill_hard "${PID[gamma]}" "stratusd gamma"
lead tenant create photos initech >/dev/null
known() { "$STRATUS" ctl "${PID[alpha]}" brick0 tenants | grep -q '^initech ' && "$STRATUS" ctl "${PID[beta]}" brick4 tenants | grep -q '^initech '; }
wait_until 30 known || fail "the bricks do not hear of initech"
mount_as initech mnt-initech # its tree is made at a member that is away, too
for i in {0..9}; do mkdir -p "$SCRATCH/mnt-initech/a$i" && echo late >"$SCRATCH/mnt-initech/a$i/b" || fail "initech's first work"; done
start_server gamma
note_done
wait_until 150 done_more || fail "nothing is done any more: $(cat acme.err globex.err; status_of_heal)"
# shellcheck disable=SC2086
kill $WORKS
for pid in $WORKS; do wait "$pid" || fail "something went wrong at work: $(cat acme.err globex.err)"; unset "PIDS[$pid]"; done
wait_until 90 whole || fail "the backlog is not empty: $(status_of_heal)"
for tenant in acme globex; do
	root=$A; [ $tenant = acme ] || root=$G
	python3 - "$root/work" $tenant.done <<-'END' >wrong 2>&1 || fail "of $tenant's work is not there: $(cat wrong)"
	import os, sys
	top, told = sys.argv[1:]
	for line in open(told):
	    name, number = line.split()
	    assert open(f"{top}/{name}").read() == number + "\n", name
	    assert os.path.isdir(f"{top}/{name.replace('/g', '/kept')}"), name
	END
done
[ "$(cat brick-gamma*/tenants/initech/a*/b | sort -u)" = late ] || fail "gamma has of initech: $(ls -R brick-gamma*/tenants/initech)"
say "done meanwhile: $(wc -l <acme.done) and $(wc -l <globex.done)"
fsck_as() { timeout 300 "$STRATUS" fsck --wait 1 "${@:2}" --tls-dir "$SCRATCH/$1" "$SERVERS:/photos" >fsck.out 2>&1; }
for tenant in acme globex initech; do
	fsck_as $tenant --repair || true # what was killed in the middle of a name may have left records, nothing else
	! grep ' at .*: ' fsck.out | grep -v '^unended ' || fail "fsck of $tenant finds what no kill leaves: $(cat fsck.out)"
	fsck_as $tenant || fail "fsck of $tenant: $(cat fsck.out)"
done
! timeout 60 "$STRATUS" fsck --wait 1 --tls-dir "$SCRATCH/own" "$SERVERS:/photos" >fsck.out 2>&1 || fail "fsck takes the bricks' roots for one tree: $(cat fsck.out)"

# ---- equal, and charged ----
for mount in mnt-acme mnt-globex mnt-initech; do stop_mount "$SCRATCH/$mount" "${MOUNT[$mount]}"; done
wait_until 60 whole || fail "the backlog is not empty: $(status_of_heal)"
equal "after a kill"
on alpha scrub photos check >/dev/null 2>&1 || on beta scrub photos check >/dev/null 2>&1 || on gamma scrub photos check >/dev/null
scrubbed() { for name in $SERVER_NAMES; do [ "$(on $name scrub photos status 2>/dev/null | grep -c ', 0 differences')" = 2 ] && return; done; return 1; }
wait_until 90 scrubbed || fail "a scrub finds: $(for name in $SERVER_NAMES; do on $name scrub photos status 2>&1; done)"
"$STRATUS" usage verify --wait 60 >verified 2>&1 || fail "usage verify: $(cat verified)"
each() { "$STRATUS" usage --json --tenant "$1" | json '[sum(b["accounts"][0][what] for b in d) for what in ("bytes", "inodes")] + [len(d)]'; }
total() { "$STRATUS" usage --total --json --tenant "$1" | json '[b["accounts"][0][what] for b in d for what in ("bytes", "inodes")] + [b["bricks"] for b in d]'; }
for tenant in acme globex initech; do
	[ "$(each $tenant)" = "$(total $tenant)" ] && [[ $(total $tenant) == *", 2]" ]] || fail "the bill of $tenant: $(each $tenant), in all $(total $tenant)"
	[ "$("$STRATUS" tenant info photos $tenant --stratusd "${PID[alpha]}" --json | json '[d["charged"]["bytes"], d["charged"]["inodes"], 2]')" = "$(total $tenant)" ] || fail "tenant info tells another bill of $tenant: $("$STRATUS" tenant info photos $tenant --stratusd "${PID[alpha]}" --json)"
done

# ---- a deleted one is gone at all of them ----
lead tenant delete photos acme >/dev/null
gone_everywhere() { [ -z "$(compgen -G "brick-*/tenants/acme")" ]; } # ls would fail, too, when one goes before it is looked at
wait_until 60 gone_everywhere || fail "of a deleted tenant is left: $(find brick-*/tenants/acme | head)"
equal "after a tenant was deleted"
mount_as globex mnt-globex
[ "$(cat "$G/secret")" = "top secret" ] || fail "the other tenant lost something"
stop_mount "$G" "${MOUNT[mnt-globex]}"
pass
