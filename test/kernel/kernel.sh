#!/usr/bin/env bash
# kernel.sh CACHE: the kernel that the stories run on, from Debian packages alone.
# Prints its directory, below CACHE and named after the kernel's ABI and version:
#   vmlinux        the stock kernel, unpacked for PVH boot
#   modules/*.ko   drivers/fpga of its source package, unmodified, built for it
# Nothing is installed: what is missing is named, with its package.
set -euo pipefail
cache=$1
say() { printf '  %s\n' "$*" >&2; }

# The meta package names the current kernel. Without apt's lists, the newest of the
# cache will do.
image=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
if [ -z "$image" ]; then
	ready=$(ls -td "$cache"/*/ready 2>/dev/null | head -n 1)
	[ -n "$ready" ] || { say "no kernel package is known: apt-get update"; exit 1; }
	dirname "$ready"
	exit
fi
abi=${image#linux-image-}                        # 6.1.0-56-amd64
series=$(cut -d. -f1,2 <<<"$abi")                # 6.1
version=$(apt-cache show "$image" | awk '/^Version:/ {print $2; exit}')
dir=$cache/${abi}_$version
if [ -e "$dir/ready" ]; then
	echo "$dir"
	exit
fi

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need make make
need gcc gcc
need xz xz-utils
need dpkg-deb dpkg
[ -d "/lib/modules/$abi/build" ] || missing+=("linux-headers-$abi")
if [ ${#missing[@]} -gt 0 ]; then
	say "to build the modules of $abi, missing: ${missing[*]}"
	say "  apt-get install --no-install-recommends ${missing[*]}"
	exit 1
fi

rm -rf "$dir"
mkdir -p "$dir/src" "$dir/modules"
cd "$dir"
say "downloading $image and linux-source-$series ($version), about 200 MB"
apt-get download -q -o APT::Sandbox::User=root "$image=$version" "linux-source-$series=$version" >&2

say "unpacking the kernel"
dpkg-deb --fsys-tarfile "$image"_*.deb | tar xO "./boot/vmlinuz-$abi" >vmlinuz
# The boot protocol (Documentation/arch/x86/boot.rst): payload_offset, at 0x248, counts
# from the end of the setup sectors; the payload ends with its unpacked size.
number() { od -An -t"u$2" -j"$1" -N"$2" vmlinuz | tr -d ' '; }
offset=$(((($(number 497 1) + 1)) * 512 + $(number 584 4)))
length=$(number 588 4)
head -c $((offset + length - 4)) vmlinuz | tail -c +$((offset + 1)) | xz -dc --single-stream >vmlinux

say "unpacking drivers/fpga"
dpkg-deb --fsys-tarfile "linux-source-${series}"_*.deb | tar xO "./usr/src/linux-source-$series.tar.xz" |
	tar xJ --strip-components=3 -C src "linux-source-$series/drivers/fpga"

# Debian does not build these drivers: only the list of modules is ours.
cat >src/Makefile <<'K'
obj-m := fpga-mgr.o fpga-bridge.o fpga-region.o dfl.o dfl-fme.o dfl-fme-mgr.o dfl-fme-br.o dfl-fme-region.o dfl-afu.o dfl-pci.o
dfl-fme-objs := dfl-fme-main.o dfl-fme-pr.o dfl-fme-error.o dfl-fme-perf.o
dfl-afu-objs := dfl-afu-main.o dfl-afu-region.o dfl-afu-dma-region.o dfl-afu-error.o
K
say "building the modules"
if ! make -s -j2 -C "/lib/modules/$abi/build" M="$dir/src" modules >build.log 2>&1; then
	cat build.log >&2
	exit 1
fi
for module in src/*.ko; do
	strip -g -o "modules/$(basename "$module")" "$module"
done
rm -rf ./*.deb vmlinuz src
touch ready
echo "$dir"
