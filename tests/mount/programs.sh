#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ordinary programs find on the mount what they find on a local disk: cp and diff, git, sqlite3, tar, rsync, make, fio.
#
# copy has a tree of more than 10,000 files; git, tar and rsync have a part of it, unless LONG=1.
# Arguments are the names of parts to run (default: all). PROGRAMS_DIR=DIR runs on any directory instead of a mount.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
PARTS=(copy git sqlite sqlite_wal tar rsync build fio two_mounts)

need_root
DIRECTORY_TIME=%T@
[ -z "${SHUFFLING-}${MOVING-}" ] || DIRECTORY_TIME=
[ -n "${PROGRAMS_DIR:-}" ] || need_stack

# /usr/include if it is large enough, else a tree that looks like it.
choose_tree() {
	TREE=/usr/include
	if [ "$(find "$TREE" 2>/dev/null | head -n 10001 | wc -l)" -gt 10000 ]; then return; fi
	TREE=$SCRATCH/tree
	python3 - "$TREE" "$SEED" <<'END'
import os, random, sys
top, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)
for d in range(250):
    path = f"{top}/d{d % 16}/s{d}"
    os.makedirs(path)
    for f in range(41):
        with open(f"{path}/f{f}.h", "wb") as out:
            out.write(random.randbytes(int(random.expovariate(1 / 6000))))
    os.symlink("f0.h", f"{path}/link")
    os.link(f"{path}/f1.h", f"{path}/hard")
END
}

# A directory of about a thousand files in it.
choose_part() {
	local dir
	PART=$TREE
	[ "$LONG" != 1 ] || return 0
	for dir in "$TREE/linux" "$TREE/d0"; do
		[ ! -d "$dir" ] || PART=$dir
	done
}

part_copy() {
	cp -a "$TREE" "$MNT/copy"
	diff -r --no-dereference "$TREE" "$MNT/copy"
	# Names, types, modes, owners, sizes, times (to the nanosecond), targets of links.
	list "$TREE" >"$SCRATCH/list.there"
	list "$MNT/copy" >"$SCRATCH/list.here"
	diff "$SCRATCH/list.there" "$SCRATCH/list.here" >"$SCRATCH/differ" || { tail -n 8 "$SCRATCH/differ"; return 1; }
	du -s "$MNT/copy" >/dev/null
	rm -r "$MNT/copy"
}
# (A directory gets another mtime when its names are moved: doc/distribution.md, *Risks*.)
list() { (cd "$1" && find . -mindepth 1 \( -type d -printf "%P %y %m %U %G ${DIRECTORY_TIME}\n" -o -printf '%P %y %m %U %G %s %T@ %l\n' \) | sort); }

part_git() {
	local git="git -c user.name=T -c user.email=t@example.org -c init.defaultBranch=main -c gc.auto=0 -c maintenance.auto=false"
	export GIT_CONFIG_NOSYSTEM=1 HOME=$SCRATCH
	# A file that is moved gets another ctime (doc/distribution.md), also between the two looks of `git status`, which then calls it modified.
	[ -z "${SHUFFLING-}${MOVING-}" ] || git="$git -c core.trustctime=false"
	$git config --global --add safe.directory '*'
	$git init -q "$MNT/repository"
	cp -a "$PART/." "$MNT/repository/"
	(
		cd "$MNT/repository"
		$git add -A
		$git commit -qm first
		$git checkout -qb other
		find . -name '*.h' -not -path './.git/*' | sort | sed -n '1~7p' | while read -r f; do echo "/* more */" >>"$f"; done
		$git commit -qam second
		$git checkout -q main
		$git merge -q other
		$git gc -q
		$git fsck --full --strict
		$git status --porcelain | tee "$SCRATCH/status"
		test ! -s "$SCRATCH/status" || { echo "git finds changes that nobody made"; return 1; }
	)
	$git clone -q --no-hardlinks "$MNT/repository" "$MNT/clone"
	$git -C "$MNT/clone" fsck --full
	test "$($git -C "$MNT/clone" rev-parse HEAD)" = "$($git -C "$MNT/repository" rev-parse HEAD)" || { echo "the clone has another commit"; return 1; }
	rm -rf "$MNT/repository" "$MNT/clone"
}

database() { # JOURNAL_MODE
	sqlite3 "$MNT/database" "pragma journal_mode=$1; create table t(a integer primary key, b text, c blob);" |
		grep -qx "$1" || { echo "sqlite3 refuses journal mode $1"; return 1; }
	python3 - "$MNT/database" <<'END'
import multiprocessing, sqlite3, sys
def writer(number):
    db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
    for i in range(60):
        db.execute("begin immediate")
        for j in range(20):
            db.execute("insert into t(b, c) values(?, zeroblob(500))", (f"{number} {i} {j}",))
        db.execute("commit")
    db.close()
workers = [multiprocessing.Process(target=writer, args=(n,)) for n in range(3)]
[w.start() for w in workers]
[w.join() for w in workers]
sys.exit(any(w.exitcode for w in workers))
END
	test "$(sqlite3 "$MNT/database" 'pragma integrity_check')" = ok
	test "$(sqlite3 "$MNT/database" 'select count(*) from t')" = 3600
	rm -f "$MNT"/database*
}
part_sqlite() { database delete; database truncate; }
part_sqlite_wal() { database wal; } # its index is a shared mapping

part_tar() {
	tar -cf "$MNT/tree.tar" -C "$PART" .
	mkdir "$MNT/untarred"
	tar -xpf "$MNT/tree.tar" -C "$MNT/untarred"
	diff -r --no-dereference "$PART" "$MNT/untarred"
	rm -r "$MNT/untarred" "$MNT/tree.tar"
}

part_rsync() {
	rsync -aH "$PART/" "$MNT/synced/"
	rsync -aH "$PART/" "$MNT/synced/" # changes nothing
	test -z "$(rsync -aH --checksum --itemize-changes "$PART/" "$MNT/synced/")"
	rm -r "$MNT/synced"
}

# A package with a configure script in autoconf's manner (many small probes), a library of 60 files and a self-test.
make_package() {
	local i
	mkdir "$1"
	for i in $(seq 60); do
		printf '#include "config.h"\nint f%d(int x);\nint f%d(int x)\n{\n\treturn x + %d;\n}\n' "$i" "$i" "$i" >"$1/f$i.c"
	done
	{
		printf '#include <stdio.h>\n'
		for i in $(seq 60); do printf 'int f%d(int x);\n' "$i"; done
		printf 'int main(void)\n{\n\tint x = 0;\n'
		for i in $(seq 60); do printf '\tx = f%d(x);\n' "$i"; done
		printf '\tprintf("%%d\\n", x);\n\treturn x != 1830;\n}\n'
	} >"$1/main.c"
	cat >"$1/configure" <<-'END'
	#!/bin/sh
	: >config.h
	for header in stdio.h stdlib.h string.h unistd.h sys/acl.h sys/nothing.h; do
		printf '#include <%s>\nint main(void) { return 0; }\n' $header >conftest.c
		name=$(echo $header | tr 'a-z/.' 'A-Z__')
		if cc -o conftest conftest.c 2>/dev/null && ./conftest; then echo "#define HAVE_$name 1" >>config.h; fi
		rm -f conftest conftest.c
	done
	END
	cat >"$1/Makefile" <<-'END'
	.RECIPEPREFIX = >
	OBJECTS = $(patsubst %.c,%.o,$(filter-out main.c,$(wildcard *.c)))
	all: program
	libf.a: $(OBJECTS)
	> ar rcs $@ $^
	program: main.o libf.a
	> cc -o $@ $^
	%.o: %.c config.h
	> cc -g -c -o $@ $<
	check: program
	> ./program
	clean:
	> rm -f program libf.a *.o
	END
}
part_build() {
	make_package "$MNT/package"
	(
		cd "$MNT/package"
		sh ./configure
		make -s -j4
		make -s check
		# Nothing is made again: times are kept as set.
		test -z "$(make -n program)" || make -q program
		make -s clean
		test ! -e program
	) >"$SCRATCH/build.out" 2>&1
	rm -r "$MNT/package"
}

part_fio() {
	fio --verify_state_save=0 --name=verify --directory="$MNT" --size=16m --nrfiles=4 --rw=randrw --bsrange=512-128k --ioengine=psync \
		--verify=crc32c --verify_fatal=1 --do_verify=1 --end_fsync=1 --randseed="$SEED" --output="$SCRATCH/fio.out"
	fio --verify_state_save=0 --name=direct --directory="$MNT" --size=16m --rw=randwrite --bs=4k --direct=1 --ioengine=psync --numjobs=2 \
		--verify=crc32c --verify_fatal=1 --randseed="$SEED" --output="$SCRATCH/fio-direct.out"
	fio --verify_state_save=0 --name=mapped --directory="$MNT" --size=8m --rw=randwrite --bs=4k --ioengine=mmap --verify=crc32c \
		--verify_fatal=1 --end_fsync=1 --randseed="$SEED" --output="$SCRATCH/fio-mmap.out"
	rm -f "$MNT"/verify.* "$MNT"/direct.* "$MNT"/mapped.*
}

# What one mount finished writing, the other reads: contents, sizes, names.
part_two_mounts() {
	[ -z "${PROGRAMS_DIR:-}" ] || return 0
	start_mount "$SCRATCH/other"
	local other=$LAST_PID
	python3 - "$MNT" "$SCRATCH/other" "$SEED" <<'END'
import os, random, sys
a, b, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(seed)
for i in range(400):
    data = random.randbytes(random.randrange(1, 70000))
    writer, reader = (a, b) if i % 2 else (b, a)
    at = random.randrange(0, 100000)
    with open(f"{writer}/shared", "r+b" if i else "wb") as f:
        f.seek(at)
        f.write(data)
        if i % 5 == 0:
            f.truncate(at + len(data))
    with open(f"{reader}/shared", "rb") as f:
        f.seek(at)
        got = f.read(len(data))
    if got != data:
        sys.exit(f"round {i} (seed {seed}): {reader} doesn't read what {writer} wrote at {at}")
    if os.stat(f"{a}/shared").st_size != os.stat(f"{b}/shared").st_size:
        sys.exit(f"round {i} (seed {seed}): sizes differ")
    os.rename(f"{reader}/shared", f"{reader}/shared.new")
    if "shared" in os.listdir(writer) or os.path.exists(f"{writer}/shared"):
        sys.exit(f"round {i} (seed {seed}): the old name is still there")
    os.rename(f"{writer}/shared.new", f"{writer}/shared")
END
	rm "$MNT/shared"
	stop_mount "$SCRATCH/other" "$other"
}

scratch
need git sqlite3 tar rsync make cc fio python3 diff
say "seed $SEED"
choose_tree
choose_part
if [ -n "${PROGRAMS_DIR:-}" ]; then MNT=$(mktemp -d "$PROGRAMS_DIR/programs-XXXXXX"); else start_stack "$SCRATCH"; fi
failed=()
for part in "${@:-${PARTS[@]}}"; do
	begin=$(now_ms)
	# In a shell of its own with -e, which an `if` would switch off.
	set +e
	(set -e; "part_$part") >"$SCRATCH/$part.out" 2>&1
	status=$?
	set -e
	say "$part: $([ $status -eq 0 ] && echo ok || echo "FAILED ($status)"), $(( ($(now_ms) - begin) / 1000 )) s"
	[ $status -eq 0 ] || { failed+=("$part"); tail -n 8 "$SCRATCH/$part.out"; }
done
[ -z "${PROGRAMS_DIR:-}" ] || rm -r "$MNT"
[ ${#failed[@]} -eq 0 ] || fail "${failed[*]}"
[ -n "${PROGRAMS_DIR:-}" ] || stop_stack
pass
