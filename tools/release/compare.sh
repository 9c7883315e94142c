#!/bin/sh
# compare.sh SHA256SUMS ARGUMENT…: builds the release of HEAD in a new clone with the arguments of make release, and compares its
# checksums with a file.
set -eu
sums=$(realpath "$1")
shift
cd "$(dirname "$0")/../.."
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone -q . "$clone/tree"
git -C "$clone/tree" checkout -q --detach "$(git rev-parse HEAD)"
make -C "$clone/tree" --no-print-directory release "$@"
diff -u "$sums" "$clone/tree/dist/release/SHA256SUMS" || {
	echo "found other files than those of $sums, want the same: compare the version of Go, REGISTRY and URL with provenance.json" >&2
	exit 1
}
echo "identical: $(wc -l <"$sums") files"
