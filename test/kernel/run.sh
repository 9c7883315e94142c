#!/usr/bin/env bash
# run.sh DAEMON [PATTERN]: boots a stock Debian kernel with the DFL drivers under qemu, and
# plugs emulated cards into it while DAEMON, a static binary, runs there together with a
# stand-in for the kubelet. Runs the stories with PATTERN in their name; by default all. The
# stories in the directory vfio below them run on a second machine, which has an IOMMU, those in
# the directory cdev on a third, if the kernel has vfio with character devices, and those in the
# directory dra on a fourth, which has the DRA driver's code for claims and a registry of bitstreams.
# If XRT is set, only those in the directory xrt run, on a fifth one, which has the driver xocl.
# accelerator-fpga must be in the directory of DAEMON. runc is built as a static binary, in
# the version of ../e2e/build/runc/go.mod.
# Environment:
#   STORIES_DIR  directory of the stories; default stories
#   KERNEL       kernel series, such as 6.12; default is Debian's current kernel
#   XRT          a checkout of github.com/Xilinx/XRT, to build xocl of: xrt.sh
#   COUNT        if set, the guest's clock counts instructions, one nanosecond each, so that
#                the measured times do not depend on the load of this machine
#   OUT          directory of the output; default bin/test-kernel: the console, and the log of
#                each daemon
# Neither root nor KVM is needed. Nothing is installed.
set -euo pipefail
daemon=$(realpath "$1")
pattern=${2:-}
[ -z "${XRT:-}" ] || XRT=$(realpath -m "$XRT")
cd "$(dirname "$0")"
out=${OUT:-../../bin/test-kernel}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/accelerator-device-plugin/kernel
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

missing=()
command -v go >/dev/null || missing+=("go (golang.org)")
command -v qemu-system-x86_64 >/dev/null || missing+=("qemu-system-x86_64 (apt-get install --no-install-recommends qemu-system-x86)")
command -v apt-get >/dev/null || missing+=("apt-get (the kernel comes from Debian packages)")
command -v gcc >/dev/null || missing+=("gcc (apt-get install gcc libc6-dev: runc needs a C compiler)")
command -v strip >/dev/null || missing+=("strip (apt-get install binutils)")
if [ ${#missing[@]} -gt 0 ]; then
	echo "test-kernel cannot run: programs are missing:"
	printf '  %s\n' "${missing[@]}"
	exit 1
fi
if ! qemu-system-x86_64 -device help 2>/dev/null | grep -q x-pci-proxy-dev; then
	echo "test-kernel cannot run: qemu-system-x86_64: found no device x-pci-proxy-dev, want a build that has it, such as Debian's"
	exit 1
fi

step "kernel"
kernel=$(./kernel.sh "$cache" "${KERNEL:-}")
echo "  $(basename "$kernel")"

if [ -n "${XRT:-}" ]; then
	step "xocl"
	modules=$(./xrt.sh "$kernel" "$XRT")
fi

step "build"
mkdir -p "$out"
go build -o "$out/host" ./host
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/init" ./guest
# The first build takes a minute.
CGO_ENABLED=1 go -C ../e2e/build/runc build -buildvcs=false -trimpath -tags netgo,osusergo -ldflags '-s -w -extldflags -static' \
	-o "$(realpath "$out")/runc" github.com/opencontainers/runc

rm -rf "$out/guest"
status=0
booted=
stories=${STORIES_DIR:-stories}

# boot DIRECTORY OUT MODULES [-iommu] [PROGRAM …]: runs the stories of a directory, if there is one with the pattern.
boot() {
	compgen -G "$1/*$pattern*.txt" >/dev/null || return 0
	booted=yes
	step "boot: $1"
	nice "$out/host" -kernel "$kernel/vmlinux" -modules "$3" -init "$out/init" -daemon "$daemon" \
		-stories "$1" -out "$2" -only "$pattern" ${COUNT:+-count} "${@:4}" \
		"$(dirname "$daemon")/accelerator-fpga" "$out/runc" || status=$?
	if [ -s "$2/guest.tar.gz" ]; then
		mkdir -p "$out/guest"
		tar xzf "$2/guest.tar.gz" -C "$out/guest" --warning=no-timestamp
	fi
	rm -f "$2/initramfs" "$2/guest.tar.gz"
}
if [ -n "${XRT:-}" ]; then
	boot "$stories/xrt" "$out/xrt" "$modules" -xrt
else
	boot "$stories" "$out" "$kernel/modules"
	boot "$stories/vfio" "$out/vfio" "$kernel/modules" -iommu
	[ ! -d "$kernel/cdev" ] || boot "$stories/cdev" "$out/cdev" "$kernel/cdev" -iommu
	# These programs are large, so only these stories have them.
	if compgen -G "$stories/dra/*$pattern*.txt" >/dev/null; then
		step "build: claims, registry"
		static() { CGO_ENABLED=0 go -C "$1" build -tags grpcnotrace -trimpath -ldflags '-s -w' -o "$(realpath "$out")/$2" "$3"; }
		static ../../dra claims ./claims/kernelrig
		static ../../registry accelerator-fpga-registry ./cmd/accelerator-fpga-registry
		static ../registry registry ./registry
	fi
	boot "$stories/dra" "$out/dra" "$kernel/modules" "$out/claims" "$out/accelerator-fpga-registry" "$out/registry"
fi
if [ -z "$booted" ]; then
	echo "STORIES=$pattern: found no story of this kernel with this in its name, want at least one; those of xrt need XRT=DIRECTORY"
	status=2
fi
step "done, status $status; logs in $(realpath --relative-to=../.. "$out")"
exit "$status"
