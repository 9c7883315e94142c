# headers.sh: functions of kernel.sh and xrt.sh, which build modules with Debian's kernel headers.
say() { printf '  %s\n' "$*" >&2; }

depends() { { apt-cache depends "$1" 2>/dev/null || true; } | awk -v like="^$2" '/ Depends:/ && $2 ~ like {print $2; exit}'; }

# find_headers ABI: sets the names of the packages for a build: the headers, the headers common to
# all flavours, the kernel's build tools, and a library that these tools are linked with; and the
# compiler. Those that are not found are empty.
find_headers() {
	headers=linux-headers-$1
	common=$(depends "$headers" linux-headers)
	kbuild=$(depends "$headers" linux-kbuild)
	libelf=$(depends "$kbuild" libelf)
	compiler=$({ apt-cache depends "$headers" 2>/dev/null | grep -o 'gcc-[0-9]*' || true; } | head -n 1)
}

# need PROGRAM PACKAGE; need_end SUBJECT: ends the script if a program was missing.
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need_end() {
	[ ${#missing[@]} -gt 0 ] || return 0
	say "$1: programs are missing: ${missing[*]}"
	say "  apt-get install --no-install-recommends ${missing[*]}"
	exit 1
}

# unpack_headers DIRECTORY: unpacks the downloaded packages of find_headers into DIRECTORY/root.
unpack_headers() {
	local package
	for package in "$headers" "$common" "$kbuild" $libelf; do
		dpkg-deb -x "$package"_*.deb "$1/root"
	done
	# The only absolute path in the headers; links are relative.
	sed -i "s|^include /usr/src|include $1/root/usr/src|" "$1/root/usr/src/$headers/Makefile"
}

# build_modules DIRECTORY SOURCE [OPTION …]: builds the modules of SOURCE with the headers in
# DIRECTORY/root, without BTF type information, which would need pahole.
build_modules() {
	if ! LD_LIBRARY_PATH=$(echo "$1"/root/usr/lib/*-linux-gnu) \
		make -s -j2 -C "$1/root/usr/src/$headers" M="$2" CONFIG_DEBUG_INFO_BTF_MODULES= "${@:3}" modules >"$1/build.log" 2>&1; then
		cat "$1/build.log" >&2
		exit 1
	fi
}
