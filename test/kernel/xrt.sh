#!/usr/bin/env bash
# xrt.sh KERNEL XRT: builds the driver xocl, unmodified, for a kernel that kernel.sh has prepared.
# XRT is a checkout of github.com/Xilinx/XRT with its submodule libqdma. Prints the directory of the
# modules, which is below KERNEL and named after the content of the driver's source. The modules are
# those of the kernel, those that xocl needs, and xocl.
# The source is under the GPL, so it is not part of this project. XRT is not changed, and nothing is installed.
set -euo pipefail
kernel=$(realpath "$1")
xrt=$2
. "$(dirname "$0")/headers.sh"
core=src/runtime_src/core
driver=$core/pcie/driver/linux
qdma=$driver/xocl/lib/libqdma

for file in "$driver/xocl/userpf/Makefile" "$core/common/drv/kds_core.c" "$qdma/QDMA/linux-kernel/driver/libqdma/libqdma_export.c"; do
	if [ ! -e "$xrt/$file" ]; then
		say "XRT=$xrt: found no $file, want a checkout of https://github.com/Xilinx/XRT:"
		say "  git clone https://github.com/Xilinx/XRT && git -C XRT checkout 963c58ee"
		say "  git -C XRT submodule update --init $qdma"
		exit 2
	fi
done
source=$(cd "$xrt" && find "$driver" "$core/include" "$core/common/drv" -type f ! -name '*.o' ! -name '.*.cmd' -print0 |
	sort -z | xargs -0 sha256sum | sha256sum | head -c 12)
dir=$kernel/xrt-$source
if [ -d "$dir" ]; then
	echo "$dir"
	exit
fi

name=$(basename "$kernel")                       # 6.12.117+deb12-amd64_6.12.117-1~deb12u1
abi=${name%_*} version=${name##*_}
find_headers "$abi"
if [ -z "$common" ] || [ -z "$kbuild" ]; then
	say "building xocl for $abi: found no package of these names, want both: $headers and those that it depends on"
	exit 1
fi
need make make
need "$compiler" "$compiler"
need xz xz-utils
need dpkg-deb dpkg
need_end "building xocl for $abi"

work=$kernel/xrt.build
rm -rf "$work"
mkdir -p "$work/xrt" "$work/modules"
(cd "$xrt" && cp -r --parents "$driver" "$core/include" "$core/common/drv" "$work/xrt")
cd "$work"
say "downloading linux-image-$abi and its headers ($version), about 120 MB"
apt-get download -q -o APT::Sandbox::User=root "linux-image-$abi=$version" \
	"$headers=$version" "$common=$version" "$kbuild=$version" $libelf >&2
unpack_headers "$work"
dpkg-deb --fsys-tarfile "linux-image-$abi"_*.deb >image.tar
tar tf image.tar | grep -E '/(crc32c_generic|libcrc32c|drm_panel_orientation_quirks|drm)\.ko(\.xz)?$' | tar x -C root -f image.tar -T -
find root/lib -name '*.ko.xz' -exec xz -d {} +
find root/lib -name '*.ko' -exec mv -t modules {} +

# The build of XRT generates this header. It is used only for the version of the module.
cat >"xrt/$driver/include/version.h" <<'C'
static const char xrt_build_version[] __maybe_unused = "0.0.0";
static const char xrt_build_version_date[] __maybe_unused = "2000-01-01 ";
#define XRT_DRIVER_VERSION "0.0.0"
C
say "building xocl"
build_modules "$work" "$work/xrt/$driver/xocl/userpf" module_path="$work/xrt/$driver/xocl/userpf"
strip -g -o modules/xocl.ko "xrt/$driver/xocl/userpf/xocl.ko"
ln "$kernel"/modules/*.ko modules
mv modules "$dir"
cd ..
rm -rf "$work"
echo "$dir"
