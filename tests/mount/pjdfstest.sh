#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every pjdfstest that passes on the brick's own ext4 passes on the mount.
#
# The suite is the crate pjdfstest. It comes from $PJDFSTEST, or is built by cargo into $CARGO_TOOLS (a cache). It runs
# twice: in a directory beside the brick, then on the mount. Brick and reference lie on an ext4 image of their own where
# loop devices are allowed, so that the tests that remount read-only (EROFS) can run too.
# Arguments are patterns of test names, for a part of the suite.
# limit: 900 s
. "$(dirname "$0")/lib.sh"
VERSION=0.2.2

install_crate() {
	local cache=${CARGO_TOOLS:-$TOP/build/cargo-tools}
	PJDFSTEST=${PJDFSTEST:-$cache/bin/pjdfstest}
	[ ! -x "$PJDFSTEST" ] || return 0
	PATH=$PATH:${HOME:-/root}/.cargo/bin
	need cargo
	# Debian 12's own cargo (1.63) is too old for it; its package cargo-web (security updates) is not.
	cargo install --quiet pjdfstest --version "$VERSION" --locked --root "$cache" ||
		fail "cargo can't build pjdfstest $VERSION (it needs Rust 1.85: rustup, or Debian's package cargo-web)"
}
entry() { printf '["%s", "%s"]' "$1" "$(id -gn "$1")"; }
write_config() { # FILE REMOUNT
	cat >"$1" <<-END
	[features]
	posix_fallocate = {}
	rename_ctime = {}
	utime_now = {}
	utimensat = {}
	[settings]
	naptime = 0.02
	allow_remount = $2
	[dummy_auth]
	entries = [$(entry nobody), $(entry daemon)]
	END
}
# Names are short because the paths of sockets must be.
make_home() { # sets $HOME_FS and $REMOUNT
	HOME_FS=$SCRATCH/e REMOUNT=false
	mkdir "$HOME_FS"
	truncate -s 1G "$SCRATCH/image"
	if mkfs.ext4 -q -F "$SCRATCH/image" && mount -o loop "$SCRATCH/image" "$HOME_FS" 2>/dev/null; then
		REMOUNT=true
		MOUNTS=("$HOME_FS" "${MOUNTS[@]}")
	else
		leave_out "no loop device: the tests that remount"
	fi
}
# mount(8) asks a helper to remount FUSE, which can't; -i leaves helpers out. A file that was just closed keeps the file
# system busy for a moment.
make_shim() {
	mkdir "$SCRATCH/shim"
	cat >"$SCRATCH/shim/mount" <<-END
	#!/bin/sh
	for try in 1 2 3 4 5 6 7 8 9; do
		$(command -v mount) -i "\$@" 2>/dev/null && exit
		sleep 0.05
	done
	exec $(command -v mount) -i "\$@"
	END
	chmod 755 "$SCRATCH/shim/mount"
}
suite() { # OUTPUT DIR ARGUMENTS...: tolerates failed tests, but not a suite that breaks off
	local output=$1 dir=$2
	shift 2
	PATH=$SCRATCH/shim:$PATH timeout 1800 "$PJDFSTEST" -c "$SCRATCH/pjdfstest.toml" -p "$dir" -s "$SCRATCH/second" \
		"$@" 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$output" || true
	grep -q '^Summary: ' "$output" || fail "pjdfstest broke off: $(tail -n 3 "$output")"
}
with_result() { awk -v result="$1" 'NF == 2 && $2 == result {print $1}' "$2"; }
# A test that fails runs once more, alone: some leave files open that keep later ones from remounting.
run() { # NAME DIR PATTERNS...
	local name=$1 dir=$2 test
	shift 2
	chmod 755 "$dir"
	suite "$SCRATCH/$name.txt" "$dir" "$@"
	for test in $(with_result FAILED "$SCRATCH/$name.txt"); do
		suite "$SCRATCH/again" "$dir" -e "pjdfstest::tests::$test"
		cat "$SCRATCH/again" >>"$SCRATCH/$name.alone"
	done
	touch "$SCRATCH/$name.alone"
	cat "$SCRATCH/$name.txt" "$SCRATCH/$name.alone" | with_result ok - | sort -u >"$SCRATCH/$name.passed"
	say "$name: $(sed -n 's/^Summary: //p' "$SCRATCH/$name.txt"); $(wc -l <"$SCRATCH/$name.passed") pass with those repeated alone"
}

# pjdfstest leaves link_count_max out on FUSE, whose limit glibc doesn't know. So: as many links as ext4 allows, then EMLINK.
link_limit() {
	python3 - "$MNT" "$([ "$LONG" = 1 ] && echo 65000 || echo 1000)" <<-'END'
	import errno, os, sys
	top, wanted = sys.argv[1] + "/links", int(sys.argv[2])
	os.mkdir(top)
	open(top + "/0", "w").close()
	for i in range(1, wanted):
	    os.link(top + "/0", f"{top}/{i}")
	if os.stat(top + "/0").st_nlink != wanted:
	    sys.exit("the link count is wrong")
	if wanted == 65000:
	    try:
	        os.link(top + "/0", top + "/more")
	        sys.exit("one link more than ext4 allows")
	    except OSError as e:
	        if e.errno != errno.EMLINK:
	            raise
	END
}

[ "${1-}" != install ] || { install_crate; exit 0; }
need_root
[ "${REFERENCE_ONLY:-0}" = 1 ] || need_stack
scratch
install_crate
make_home
make_shim
write_config "$SCRATCH/pjdfstest.toml" $REMOUNT
mkdir "$HOME_FS/r" "$SCRATCH/second"
mount -t tmpfs -o size=16m none "$SCRATCH/second" && MOUNTS+=("$SCRATCH/second")
run ext4 "$HOME_FS/r" "$@"
[ -s "$SCRATCH/ext4.passed" ] || fail "nothing passes on ext4"
[ "${REFERENCE_ONLY:-0}" != 1 ] || { grep -A1 FAILED "$SCRATCH/ext4.alone" || true; pass; }

mkdir "$HOME_FS/s"
start_stack "$HOME_FS/s"
run mount "$MNT" "$@"
comm -23 "$SCRATCH/ext4.passed" "$SCRATCH/mount.passed" | grep -vx link::link_count_max >"$SCRATCH/missing" || true
if [ -s "$SCRATCH/missing" ]; then
	while read -r name; do
		cat "$SCRATCH/mount.alone" "$SCRATCH/mount.txt" 2>/dev/null | grep -F -m1 -A2 "$name " | sed -n '1p;2,3{/^[\t ]/p}'
	done <"$SCRATCH/missing"
	fail "$(wc -l <"$SCRATCH/missing") tests pass on ext4 but not on the mount"
fi
link_limit || fail "link(2) does not go on to the limit of the brick's file system, or says something else than EMLINK there"
stop_stack
pass
