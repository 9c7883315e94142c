#!/usr/bin/env bash
# kernel.sh CACHE [SERIES]: prepares the kernel for the stories from Debian packages: a
# kernel of this series (6.12), or the one that linux-image-amd64 depends on. Prints its
# directory, which is below CACHE and named after the kernel's ABI and version:
#   vmlinux        the stock kernel, unpacked for PVH boot
#   modules/*.ko   drivers/fpga of its source package, unmodified, built for it; vfio, pci-pf-stub
#                  and aer_inject, as Debian has built them; and board-sensors of this directory
#   cdev/*.ko      of 6.12 only: the same, with vfio built from the source package with character
#                  devices of functions, and iommufd. Debian's kernels have neither
# Nothing is installed: the kernel's headers are unpacked, and deleted after the build. If a
# program is missing, the script prints its package and fails.
set -euo pipefail
cache=$1
series=${2:-}
stamp=ready-3   # the number counts what this script puts into the directory
here=$(realpath "$(dirname "$0")")
. "$here/headers.sh"

# A meta package depends on the current kernel, of this series or Debian's default. If apt
# has no package lists, the newest kernel of the cache is used.
current() { { apt-cache depends "$1" 2>/dev/null || true; } | awk -v like="^linux-image-$series" '/Depends:/ && $2 ~ like {print $2; exit}'; }
series=${series:+$series.}                       # 6.1. is not the beginning of 6.12
image=
[ -z "$series" ] || image=$(current "linux-image-${series%.}-amd64")
[ -n "$image" ] || image=$(current linux-image-amd64)
if [ -z "$image" ]; then
	ready=$({ ls -td "$cache/$series"*/$stamp 2>/dev/null || true; } | head -n 1)
	[ -n "$ready" ] || { say "kernel ${series%.}: found no package, want linux-image-*: run apt-get update, or choose another series"; exit 1; }
	dirname "$ready"
	exit
fi
abi=${image#linux-image-}                        # 6.1.0-56-amd64, 6.12.117+deb12-amd64
series=$(cut -d. -f1,2 <<<"$abi")                # 6.1
version=$(apt-cache show "$image" | awk '/^Version:/ {print $2; exit}')
dir=$cache/${abi}_$version
if [ -e "$dir/$stamp" ]; then
	echo "$dir"
	exit
fi

find_headers "$abi"
if [ -z "$common" ] || [ -z "$kbuild" ] || [ -z "$compiler" ] || ! apt-cache show "linux-source-$series" >/dev/null 2>&1; then
	say "building the modules of $abi: found no package of one of these names, want all: $headers, ${common:-linux-headers-…-common}, ${kbuild:-linux-kbuild-$series}, linux-source-$series"
	exit 1
fi

need make make
need "$compiler" "$compiler"
need xz xz-utils
need zstd zstd
need dpkg-deb dpkg
need_end "building the modules of $abi"

rm -rf "$dir"
mkdir -p "$dir/src" "$dir/modules" "$dir/root"
cd "$dir"
say "downloading $image and linux-source-$series ($version), headers and tools, about 300 MB"
apt-get download -q -o APT::Sandbox::User=root "$image=$version" "linux-source-$series=$version" \
	"$headers=$version" "$common=$version" "$kbuild=$version" $libelf >&2

say "unpacking the kernel"
dpkg-deb --fsys-tarfile "$image"_*.deb >image.tar
tar xOf image.tar "./boot/vmlinuz-$abi" >vmlinuz
# The kernel's boot protocol (Documentation/arch/x86/boot.rst): payload_offset, at 0x248, counts
# from the end of the setup sectors. The last 4 bytes of the payload are its unpacked size.
number() { od -An -t"u$2" -j"$1" -N"$2" vmlinuz | tr -d ' '; }
offset=$(((($(number 497 1) + 1)) * 512 + $(number 584 4)))
length=$(number 588 4)
head -c $((offset + length - 4)) vmlinuz | tail -c +$((offset + 1)) >payload
case $(od -An -tx1 -N4 payload) in
" fd 37 7a 58") xz -dc --single-stream <payload >vmlinux ;;   # 6.1
" 28 b5 2f fd") zstd -q -dc <payload >vmlinux ;;              # 6.12
*) say "$image: compression: found $(od -An -tx1 -N4 payload), want xz or zstd"; exit 1 ;;
esac

# vfio_virqfd exists in 6.1 only.
modules='irqbypass|vfio_virqfd|vfio|vfio_iommu_type1|vfio-pci-core|vfio-pci|pci-pf-stub|aer_inject'
tar tf image.tar | grep -E "/($modules)\.ko(\.xz)?\$" | tar x -C root -f image.tar -T -
find root -name '*.ko.xz' -exec xz -d {} +
find root -name '*.ko' -exec mv -t modules {} +

say "unpacking drivers/fpga, headers and build tools"
dpkg-deb --fsys-tarfile "linux-source-${series}"_*.deb | tar xO "./usr/src/linux-source-$series.tar.xz" |
	tar xJ --strip-components=3 -C src "linux-source-$series/drivers/fpga"
unpack_headers "$dir"

# Debian does not build these drivers. Only this Makefile is ours.
cat >src/Makefile <<'K'
obj-m := board-sensors.o fpga-mgr.o fpga-bridge.o fpga-region.o dfl.o dfl-fme.o dfl-fme-mgr.o dfl-fme-br.o dfl-fme-region.o dfl-afu.o dfl-pci.o
dfl-fme-objs := dfl-fme-main.o dfl-fme-pr.o dfl-fme-error.o dfl-fme-perf.o
dfl-afu-objs := dfl-afu-main.o dfl-afu-region.o dfl-afu-dma-region.o dfl-afu-error.o
K
cp "$here/board-sensors.c" src
say "building the modules"
build_modules "$dir" "$dir/src"
for module in src/*.ko; do
	strip -g -o "modules/$(basename "$module")" "$module"
done
if [ "$series" = 6.12 ]; then
	say "building vfio with character devices"
	mkdir -p cdevsrc cdev
	dpkg-deb --fsys-tarfile "linux-source-${series}"_*.deb | tar xO "./usr/src/linux-source-$series.tar.xz" |
		tar xJ --strip-components=2 -C cdevsrc --wildcards "linux-source-$series/drivers/iommu/iommu-priv.h" \
			"linux-source-$series/drivers/iommu/iommufd/*" "linux-source-$series/drivers/vfio/*" "linux-source-$series/lib/interval_tree.c"
	# The kernel lacks the part of interval_tree.c that iommufd needs.
	{
		echo '#include <linux/interval_tree.h>'
		sed -n '/#ifdef CONFIG_INTERVAL_TREE_SPAN_ITER/,$p' cdevsrc/interval_tree.c | sed /EXPORT_SYMBOL/d
	} >cdevsrc/iommu/iommufd/span.c
	echo 'obj-m := iommu/iommufd/ vfio/' >cdevsrc/Makefile
	echo 'iommufd-y += span.o' >>cdevsrc/iommu/iommufd/Makefile
	sed -i '/iova_bitmap/d' cdevsrc/iommu/iommufd/Makefile
	sed -i '/pci\/$/!{/\/$/d}' cdevsrc/vfio/Makefile            # of the drivers of other buses
	sed -i '/\/$/d' cdevsrc/vfio/pci/Makefile                   # of single devices
	options=(CONFIG_IOMMUFD=m CONFIG_VFIO_DEVICE_CDEV=y CONFIG_INTERVAL_TREE_SPAN_ITER=y)
	build_modules "$dir" "$dir/cdevsrc" "${options[@]}" \
		KCFLAGS="-DCONFIG_IOMMUFD_MODULE=1 -DCONFIG_VFIO_DEVICE_CDEV=1 -DCONFIG_INTERVAL_TREE_SPAN_ITER=1"
	ln modules/*.ko cdev
	find cdevsrc -name '*.ko' | while read -r module; do
		strip -g -o "cdev/$(basename "$module").new" "$module"
		mv -f "cdev/$(basename "$module").new" "cdev/$(basename "$module")"
	done
	rm -rf cdevsrc
fi
rm -rf ./*.deb image.tar vmlinuz payload src root
touch "$stamp"
echo "$dir"
