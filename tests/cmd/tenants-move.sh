#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume of several tenants gets a brick and gives up its first one, while two of them work, one is suspended, one has all that it may have, and others are idle; the server is killed in the
# middle of both. Nothing is lost, nothing is there twice, mounts follow, all are charged what is there; and nobody but the provider's own processes can act for a tenant.
# limit: 1800 s
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/keeper.sh"
need_root
need_stack
need python3 getfattr
COUNT=${COUNT:-48} IDLE=${IDLE:-12}
MEMBERS=${MEMBERS:-1} # more: in place of each brick there is a set of so many; then nobody has a limit
BEGAN=${BEGAN:-2}     # with so many bricks, or sets
NEW=$((BEGAN * MEMBERS)) # the number of the first brick that comes
LIMITS=$([ "$MEMBERS" = 1 ] && echo yes || true)

scratch
cd "$SCRATCH"
HTTP=$(free_port)
"$STRATUS" ca init --dir ca >/dev/null
"$STRATUS" cert issue --dir ca --server 127.0.0.1 --out own >/dev/null || fail "a server's certificate"
for name in acme globex dormant full early late; do "$STRATUS" cert issue --dir ca --tenant $name --out $name >/dev/null || fail "the certificate of $name"; done
"$STRATUS" cert issue --dir ca --client desk --out desk >/dev/null
"$STRATUS" cert issue --dir ca --tenant-admin acme --out boss >/dev/null
for name in own acme globex dormant desk boss; do cp $name/cert.pem $name.pem; cp $name/key.pem $name.key; done # as tests/hostile/wire.py has them
cp ca/ca.pem good-ca.pem
start_keeper() {
	"$STRATUSD" --foreground --state "$SCRATCH/state" --name alpha --listen 127.0.0.1:"$HTTP" --tls-dir "$SCRATCH/own" >>"$SCRATCH/stratusd.log" 2>&1 &
	KEEPER=$!
	note "$KEEPER" stratusd
	wait_until 30 "$STRATUS" status || fail "stratusd does not answer"
}
mount_as() { # TENANT NAME
	mkdir -p "$SCRATCH/$2.mnt"
	MOUNTS+=("$SCRATCH/$2.mnt")
	"$STRATUS" mount --log "$SCRATCH/$2.log" --pid-file "$SCRATCH/$2.pid" --tls-dir "$SCRATCH/$1" 127.0.0.1:"$HTTP":/photos "$SCRATCH/$2.mnt" || fail "$2 is not mounted"
	note "$(cat "$SCRATCH/$2.pid")" "mount $2"
}
unmount() { # NAME
	local pid
	pid=$(cat "$SCRATCH/$1.pid")
	umount "$SCRATCH/$1.mnt" && wait_until 20 gone "$pid" || fail "the mount $1 does not end"
	unset "PIDS[$pid]"
}
told() { "$STRATUS" rebalance status photos --json | json "$1"; }
tenants() { "$STRATUS" tenant "$@" >/dev/null || fail "stratus tenant $*"; }

# ---- what each has ----
fill() { # MOUNT: files of several owners, with links, and directories with files
	python3 - "$1" "$COUNT" <<-'END'
	import os, sys
	top, count = sys.argv[1], int(sys.argv[2])
	for i in range(count):
	    with open(f"{top}/file{i}", "w") as f:
	        f.write(f"this is {i}\n" * (i + 1) * 100)
	    os.chown(f"{top}/file{i}", i, i + 1)
	    os.setxattr(f"{top}/file{i}", "user.number", str(i).encode())
	    if i % 4 == 0:
	        os.makedirs(f"{top}/dir{i}/below")
	        os.chown(f"{top}/dir{i}", i, i)
	        with open(f"{top}/dir{i}/below/file", "w") as f:
	            f.write(f"this is {i}\n")
	        os.symlink(f"../file{i}", f"{top}/dir{i}/link")
	        os.link(f"{top}/file{i}", f"{top}/name{i}")
	END
}
is_whole() { # MOUNT
	local said
	said=$(python3 - "$1" "$COUNT" 2>&1 <<-'END'
	import os, sys
	top, count = sys.argv[1], int(sys.argv[2])
	want = sorted([f"file{i}" for i in range(count)] + [f"{what}{i}" for what in ("dir", "name") for i in range(0, count, 4)])
	have = sorted(n for n in os.listdir(top) if n.startswith(("file", "dir", "name")))
	assert have == want, (sorted(set(want) ^ set(have)), len(have), len(want))
	for i in range(count):
	    with open(f"{top}/file{i}") as f:
	        assert f.read() == f"this is {i}\n" * (i + 1) * 100, i
	    s = os.stat(f"{top}/file{i}")
	    assert (s.st_uid, s.st_gid) == (i, i + 1), (i, s)
	    assert os.getxattr(f"{top}/file{i}", "user.number") == str(i).encode(), i
	    if i % 4 == 0:
	        with open(f"{top}/dir{i}/below/file") as f:
	            assert f.read() == f"this is {i}\n", i
	        assert os.readlink(f"{top}/dir{i}/link") == f"../file{i}", i
	        assert os.path.samefile(f"{top}/name{i}", f"{top}/file{i}"), i
	END
	) || fail "not all is there on $1: $said"
}
works() { # MOUNT NAME: until the file $SCRATCH/enough is there; each thing that it does is seen, and is so a moment later
	python3 - "$1" "$SCRATCH/enough" "$MEMBERS" >"$SCRATCH/work-$2.log" 2>&1 <<-'END' &
	import errno, os, sys, time
	top, enough, members = sys.argv[1:]
	n = 0
	def change(where):
	    a, b = f"{where}/work{n % 7}", f"{where}/moved{n % 5}"
	    with open(a, "w") as f:
	        f.write(f"work {n}\n" * 50)
	    assert open(a).read() == f"work {n}\n" * 50, a
	    os.rename(a, b)
	    assert not os.path.exists(a), a
	    assert open(b).read() == f"work {n}\n" * 50, b
	    with open(b, "a") as f:
	        f.write("more")
	    assert open(b).read() == f"work {n}\n" * 50 + "more", b
	def bring():
	    d = f"{top}/made{n}"
	    os.mkdir(d)
	    open(f"{d}/file", "w").close()
	    os.rename(f"{d}/file", f"{top}/brought")
	    os.rmdir(d)
	    os.unlink(f"{top}/brought")
	def cleared(*names):
	    try:
	        for name in names:
	            if os.path.lexists(name):
	                os.rmdir(name) if os.path.isdir(name) else os.unlink(name)
	        return True
	    except OSError as e:
	        assert e.errno == errno.EIO, e
	def done(what, *args, names):
	    # Of what was under way when all members of a set were killed nobody may know whether it was done: EIO says so (doc/replication.md). So it is looked at, and done anew.
	    global doubts
	    while True:
	        try:
	            return what(*args)
	        except OSError as e:
	            assert e.errno == errno.EIO and members != "1", e
	        doubts += 1
	        assert doubts < 20, "EIO again and again"
	        while not cleared(*names):
	            time.sleep(0.1)
	doubts = 0
	while not os.path.exists(enough):
	    for where in top, f"{top}/dir{n % 12 // 4 * 4}":
	        done(change, where, names=[f"{where}/work{n % 7}"])
	    done(bring, names=[f"{top}/made{n}/file", f"{top}/made{n}", f"{top}/brought"])
	    n += 1
	print(n, "doubts:", doubts)
	END
	WORKERS+=($!)
	note $! "who works as $2"
}
begin_work() {
	rm -f "$SCRATCH/enough"
	WORKERS=()
	works "$SCRATCH/acme.mnt" acme
	works "$SCRATCH/globex.mnt" globex
}
end_work() {
	local pid
	: >"$SCRATCH/enough"
	for pid in "${WORKERS[@]}"; do
		wait_until 120 gone "$pid" || fail "who works does not end: $("$STRATUS" rebalance status photos)"
		wait "$pid" || fail "something went wrong at work: $(tail -n 5 "$SCRATCH"/work-*.log)"
		unset "PIDS[$pid]"
	done
	say "done at work meanwhile: $(cat "$SCRATCH/work-acme.log") and $(cat "$SCRATCH/work-globex.log")"
}
charged_as_there() {
	local result
	compared() { # who was killed in the middle of something may have to count anew first
		result=0
		"$STRATUS" usage verify --wait 100 --json >verified 2>verify.err || result=$?
		[ $result != 2 ]
	}
	wait_until 200 compared && [ $result = 0 ] || fail "usage verify: $(cat verified verify.err)"
	[ "$(json 'all(a["result"] == "agrees" for b in d for a in b["accounts"])' <verified)" = True ] || fail "usage verify: $(cat verified)"
}
charged() { "$STRATUS" usage --total --tenant "$1" --json | json 'd[0]["accounts"][0]["bytes"]'; }
fsck_as() { # TENANT CERTIFICATE [OPTION...]: what was killed in the middle of a name may have left records, nothing else
	local whose=$1
	local -a options=(--wait 1 --tls-dir "$SCRATCH/$2" "${@:3}" 127.0.0.1:"$HTTP":/photos)
	timeout 100 "$STRATUS" fsck --repair "${options[@]}" >fsck.out 2>&1 || fail "fsck of $whose: $(cat fsck.out)"
	! grep ' at .*: ' fsck.out | grep -v '^unended ' || fail "fsck of $whose finds what no kill leaves: $(cat fsck.out)"
	timeout 100 "$STRATUS" fsck "${options[@]}" >fsck.out 2>&1 || fail "fsck of $whose: $(cat fsck.out)"
}
bricks_from() { seq -f "127.0.0.1:$SCRATCH/b%g" "$1" $(($2 - 1)); }
names_on() { find "$SCRATCH/b$1/tenants/$2" -mindepth 1 -maxdepth 1 ! -name '.stratus*' 2>/dev/null | wc -l; }
all_whole() {
	local name
	# What a kill has left in the middle of a name takes more room than this one has, so that his mount would wait for it: the provider ends it. (Others may be at it at that moment.)
	wait_until 100 timeout 100 "$STRATUS" fsck --repair --wait 1 --tls-dir "$SCRATCH/own" --tenant full 127.0.0.1:"$HTTP":/photos || fail "what was left of full's names can't be ended"
	for name in acme globex full; do is_whole "$SCRATCH/$name.mnt"; done
	tenants resume photos dormant
	mount_as dormant dormant
	is_whole "$SCRATCH/dormant.mnt"
	unmount dormant
	for name in acme globex; do fsck_as $name $name; done
	fsck_as full own --tenant full # by the provider, as above
	! timeout 100 "$STRATUS" fsck --wait 1 --tls-dir "$SCRATCH/own" 127.0.0.1:"$HTTP":/photos >fsck.out 2>&1 && grep -q 'name a tenant with --tenant' fsck.out || fail "fsck of nobody: $(cat fsck.out)"
	tenants suspend photos dormant
	fsck_as dormant own --tenant dormant
	charged_as_there
}
killed_when_moved() { # HOW_MANY
	local moved
	moves() { moved=$(told 'd.get("moved", 0) + d.get("files", 0)') && [ "$moved" -ge $1 ]; }
	wait_until 100 moves "$1" || fail "nothing is moved: $("$STRATUS" rebalance status photos --json)"
	say "killed when $(told 'd["state"], d.get("step"), d.get("moved"), d.get("files"), d.get("at-work"), d.get("tenants-done")')"
	kill_keeper
	start_keeper
}

# ---- made ----
start_keeper
# shellcheck disable=SC2046
"$STRATUS" volume create photos --tenants $([ "$BEGAN" != 1 ] || echo --growable) $([ "$MEMBERS" = 1 ] || echo --replica "$MEMBERS") --tls-dir "$SCRATCH/own" $(bricks_from 0 "$NEW") >/dev/null || fail "volume create"
"$STRATUS" volume set photos cluster/dht sweep-interval 200ms >/dev/null
"$STRATUS" volume set photos features/layout reopen-time 2s >/dev/null
for name in acme globex dormant full; do tenants create photos $name; done
for ((i = 0; i < IDLE; i++)); do tenants create photos idle$i; done
tenants create photos gone
"$STRATUS" volume start photos >/dev/null || fail "volume start"
for name in acme globex dormant full; do
	mount_as $name $name
	fill "$SCRATCH/$name.mnt"
done
unmount dormant
tenants suspend photos dormant
tenants delete photos gone
# so that nothing more is to be had, by who moves either, if that were asked for
sleep 1
FULL=$(charged full)
[ -z "$LIMITS" ] || tenants resize photos full --quota $((FULL + 4096))
"$STRATUS" rebalance start photos --wait | grep -q 'no bricks were added\|0 have moved' || fail "nothing is to be done, but: $("$STRATUS" rebalance status photos)"

# ---- a brick comes ----
# shellcheck disable=SC2046
"$STRATUS" brick add photos $(bricks_from "$NEW" $((NEW + MEMBERS))) >out || fail "brick add: $(cat out)"
follows() { # MOUNT HOW_OFTEN
	[ "$(grep -c "switched to version" "$SCRATCH/$1.log")" -ge "$2" ]
}
for name in acme globex full; do wait_until 30 follows $name 1 || fail "the mount of $name does not follow: $(tail -n 5 $name.log)"; done
[ "$(names_on $NEW acme)" = 0 ] || fail "there are names on the new brick before any was moved"
# Nor has one who comes now any there: the brick may be removed at once as long as names are not to move. (Who is wrong needs a moment for it.)
tenants create photos early
mount_as early early
fill "$SCRATCH/early.mnt"
sleep 2
fill_more() { local i; for ((i = 0; i < COUNT; i++)); do echo more >"$SCRATCH/early.mnt/more$i" || return; done; }
fill_more || fail "early can't make files"
[ "$(names_on $NEW early)" = 0 ] || fail "who became a tenant before names are to move has some on the new brick"
is_whole "$SCRATCH/early.mnt"
begin_work
"$STRATUS" rebalance start photos >/dev/null || fail "rebalance start"
killed_when_moved 5
"$STRATUS" rebalance stop photos >out || fail "rebalance stop: $(cat out)"
[ "$(told 'd["state"]')" = stopped ] || [ "$(told 'd["state"]')" = "done" ] || fail "after stop: $("$STRATUS" rebalance status photos --json)"
timeout 800 "$STRATUS" rebalance start photos --wait >out 2>&1 || fail "it does not end: $(cat out; "$STRATUS" rebalance status photos --json)"
end_work
[ "$(told 'd["tenants-done"] == d["tenants"] == '$((5 + IDLE)))" = True ] || fail "not all tenants: $("$STRATUS" rebalance status photos --json)"
is_whole "$SCRATCH/early.mnt"
unmount early
for name in acme globex dormant full early; do
	share=$(names_on $NEW $name)
	say "$share names of $name are on the new brick"
	[ "$share" -ge $((COUNT / 8)) ] || fail "$name has $share names on the new brick"
	[ "$(find b$NEW/tenants/$name -maxdepth 1 -name 'file*' -size +0 | wc -l)" -ge $((COUNT / 12)) ] || fail "files of $name have not come along"
done
[ ! -e b$NEW/tenants/gone ] || fail "the tree of a deleted tenant is made"
all_whole

# ---- one who comes later has it, too ----
tenants create photos late
spread() { [ "$(getfattr --absolute-names -n trusted.dht.layout --only-values b$NEW/tenants/late 2>/dev/null | wc -c)" -ge $((16 + 8 * (BEGAN + 1))) ]; }
wait_until 30 spread || fail "the root of a tenant that came later is not at the new brick: $("$STRATUS" rebalance status photos --json)"
mount_as late late
fill "$SCRATCH/late.mnt"
[ "$(names_on $NEW late)" -ge $((COUNT / 8)) ] || fail "late has $(names_on $NEW late) names on the new brick"
unmount late

# ---- nobody else acts for a tenant ----
"$STRATUS" volume info photos | sed 1d >photos.yaml
"$STRATUS" volgen photos.yaml --out . >/dev/null
python3 - "$TOP/tests/hostile" "$(sed -n 's/.*option remote-port //p' client-photos.vol | head -n 1)" "$SCRATCH" $(for name in acme globex gone dormant; do "$STRATUS" tenant info photos $name --json | json 'd["id"]' | tr -d -; done) >hostile.out 2>&1 <<-'END' || fail "who acts for a tenant: $(cat hostile.out)"
	import os, sys
	sys.path.insert(0, sys.argv[1])
	import wire
	from wire import *
	wire.stage(sys.argv[2], sys.argv[3])
	acme, globex, gone, dormant = (bytes.fromhex(id) for id in sys.argv[4:])
	ACTS_FOR = 8
	def acts(who, *said, **more):
	    return Client(who, says=[extension(ACTS_FOR, id) for id in said], **more)
	for who in "acme", "globex", "boss", "desk":
	    for id in acme, globex, dormant, gone, ROOT, os.urandom(16):
	        expect(f"{who} acts for {id.hex()}", acts(who, id).refused, EACCES)
	    expect(f"{who}, not critical", Client(who, says=[extension(ACTS_FOR, acme, critical=0)]).refused, EACCES)
	for id in gone, os.urandom(16), ROOT, bytes(15) + b"\2":
	    expect(f"a server acts for {id.hex()}", acts("own", id).refused, EACCES)
	for said in [bytes(16)], [b""], [acme[:15]], [acme + b"x"], [acme, acme], [acme, globex]:
	    expect(f"a server acts for {said}", acts("own", *said).refused, EINVAL)
	expect("another revision", Client("own", says=[extension(ACTS_FOR, acme, revision=2)]).refused, EINVAL)
	# a session is of one tenant: nobody joins it as another one, nor has its handles elsewhere
	mover, other, whole = acts("own", acme), acts("own", globex), Client("own")
	expect("a server acts for acme", mover.refused, 0)
	expect("a server acts for one that is suspended", acts("own", dormant).refused, 0)
	expect("its root", mover.gfid, ROOT)
	for who, said in ("own", [globex]), ("own", []), ("acme", [acme]), ("acme", []):
	    expect(f"joined by {who} as {said}", acts(who, *said, client_id=mover.id, secret=mover.secret).refused, EACCES)
	status, handle = mover.lookup(b"file0")
	if status: # by its layout it may be at another brick
	    status, handle = mover.lookup(b".stratus.dht")
	expect("a name of acme's", status, 0)
	for client, is_ in (mover, 0), (other, ESTALE), (whole, ESTALE), (Client("globex"), ESTALE):
	    expect("by that handle", client.call(GETATTR, opaque(handle) + bytes(8))[0], is_)
	for name in b"..", b"globex", b"tenants":
	    status, _ = mover.lookup(name)
	    if not status:
	        wrong(f"who acts for acme finds {name}")
	# in a call it says nothing
	tenant = Client("acme")
	expect("a tenant, in a call", tenant.call(GETATTR, opaque(tenant.root) + bytes(8), who=head(extensions=[extension(ACTS_FOR, globex)]))[0], EOPNOTSUPP)
	wire.done()
END

# ---- the first one goes ----
begin_work
# shellcheck disable=SC2046
"$STRATUS" brick remove photos $(bricks_from 0 "$MEMBERS") >out || fail "brick remove: $(cat out)"
killed_when_moved 5
# It takes as long as it takes, as long as it gets on. How it does is kept beside the other logs.
is_out() { [ "$("$STRATUS" volume info photos | grep -c 'directory: .*/b')" = $NEW ]; }
gets_out() {
	local now before='' since=$SECONDS
	until is_out; do
		now=$(told 'd.get("moved"), d.get("files"), d.get("tenants-done")')
		[ "$now" = "$before" ] || {
			before=$now since=$SECONDS
			echo "$(date +%T) $("$STRATUS" rebalance status photos --json | json 'd')" >>"$SCRATCH/leaving.log"
		}
		[ $((SECONDS - since)) -lt 300 ] || return 1
		sleep 0.2
	done
}
gets_out || fail "it does not leave: $("$STRATUS" rebalance status photos --json)"
end_work
# what mounts were shown to have been removed is gone, and nothing else: no file and no name is left there
[ -z "$(find b0/tenants -mindepth 2 ! -type d)" ] || fail "files are left on the brick that went: $(find b0/tenants -mindepth 2 ! -type d | head)"
# (Versions that came while the server was down a mount may not have seen; the last one it must.)
VERSION=$("$STRATUS" volume info photos --json | json 'd["version"]')
has_last() { grep -q "switched to version $VERSION of" "$SCRATCH/$1.log"; }
for name in acme globex full; do wait_until 30 has_last $name || fail "the mount of $name does not follow: $(tail -n 5 $name.log)"; done
all_whole
mount_as late late
is_whole "$SCRATCH/late.mnt"
unmount late
# one whose root nobody has made yet has it where no brick has gone
tenants create photos later
"$STRATUS" cert issue --dir ca --tenant later --out later >/dev/null
mount_as later later
fill "$SCRATCH/later.mnt"
is_whole "$SCRATCH/later.mnt"
fsck_as later own --tenant later
pass
