#!/usr/bin/env bash
# run.sh BIN KUBECTL: runs the arm64 programs in the directories BIN and KUBECTL under qemu-user, and then the tests of
# three packages, compiled for arm64. Nothing is installed.
#
# qemu-user emulates the processor and translates system calls, but uses the kernel of this machine. So tests cannot run
# if they start their own binary again, or need seccomp. Only some scenarios of each family of the inventory run,
# because all tests of the inventory take minutes.
set -euo pipefail
bin=$(realpath "$1") kubectl=$(realpath "$2")
cd "$(dirname "$0")/../.."
step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || {
	echo "test-arm64 cannot run: found no qemu-aarch64 in PATH, want Debian's package qemu-user" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step "versions and help"
for program in "$bin"/accelerator-* "$kubectl"/kubectl-accelerator; do
	version=version
	case ${program##*/} in accelerator-operator | accelerator-dra-driver) version=--version ;; esac
	# qemu refuses a program for another processor.
	echo "  ${program##*/}: $("$qemu" "$program" "$version")"
	"$qemu" "$program" --help 2>&1 | grep -i usage >/dev/null || {
		echo "${program##*/} --help: found no usage" >&2
		exit 1
	}
done

step "accelerator-fpga info"
metadata='{"version": 1, "platform-name": "DCP", "afu-image": {"magic-no": 488605312, "power": 0, "interface-uuid":
"ce48969398f05f33946d560708be108a", "accelerator-clusters": [{"total-contexts": 1, "name": "nlb_400",
"accelerator-type-uuid": "d8424dc4a4a3c413f89e433683f9040b"}]}}'
length=$(printf '\\x%02x\\x%02x\\0\\0' $((${#metadata} % 256)) $((${#metadata} / 256)))
{
	printf 'XeonFPGA\xb7GBSv001%b%s' "$length" "$metadata"
	head -c 100000 /dev/zero
} >"$work/sample.gbs"
cat >"$work/want" <<'END'
File       sample.gbs
Format     gbs
Interface  ce48969398f05f33946d560708be108a
AFU        d8424dc4a4a3c413f89e433683f9040b
Size       100000 (97.7 KiB)
END
(cd "$work" && "$qemu" "$bin/accelerator-fpga" info sample.gbs) | diff "$work/want" -

step "demo"
"$qemu" "$bin/accelerator-device-plugin" demo | sed 's/^/  /'

step "tests of watcher and programming, some scenarios of inventory"
export GOARCH=arm64 CGO_ENABLED=0
go test -trimpath -exec "$qemu" -skip '^(TestRefused|TestTreeIsWatchedCompletelyOrLost)$' ./watcher ./programming
go test -trimpath -exec "$qemu" -run '^TestScenarios$/^(new-card|first|fme|aws|vfio|xrt|cordon)' ./inventory

step "done"
