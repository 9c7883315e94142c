#!/usr/bin/env bash
# releases.sh DIR: builds what the `release` story needs, and prints the directory where it put it: VERSION/image.tar and
# VERSION/chart.tgz of the earlier releases, built from their commits, and bin/ with oras, cosign and krew. It creates
# that directory in DIR, and builds nothing if it already exists. Progress goes to stderr. The first build takes a few
# minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

# These releases have no tags. Each commit is the last one of the day on which CHANGELOG.md dates the release.
releases=(
	0.1.0:80048387e5499e517c8683d95fded25ae39fa7f2
	0.2.0:ae8e6bc9b745dbd80f3b2c2b90bdbd015e1bd46b
)
cosign=$(sed -n 's/^COSIGN_VERSION := //p' Makefile)
krew=$(sed -n 's/^KREW_VALIDATE := .*@//p' Makefile)
oras=$(go -C tools list -m -f '{{.Version}}' oras.land/oras)
sum=$({ grep -v "^#" test/e2e/releases.sh; echo "$cosign $krew $oras"; } | sha256sum | cut -c1-8)
done=$1/releases-$sum
if [ -d "$done" ]; then
	echo "$done"
	exit
fi

mkdir -p "$1"
new=$(mktemp -d "$1/releases.XXXXXX")
trap 'rm -rf "$new"' EXIT
export GOFLAGS=-buildvcs=false
for release in "${releases[@]}"; do
	version=${release%:*} commit=${release#*:}
	echo "  $version, commit $commit (${SECONDS}s)" >&2
	git cat-file -e "$commit^{commit}" 2>/dev/null || {
		echo "e2e cannot run: found no commit $commit, which is $version, want a clone with the whole history" >&2
		exit 1
	}
	git clone -q --shared . "$new/tree" >&2
	git -C "$new/tree" checkout -q --detach "$commit"
	nice make -C "$new/tree" "image-$(go env GOARCH)" chart VERSION="$version" >"$new/log" 2>&1 || {
		tail -n 20 "$new/log" >&2
		exit 1
	}
	mkdir "$new/$version"
	mv "$new/tree/dist/accelerator-device-plugin_${version}_$(go env GOARCH).tar" "$new/$version/image.tar"
	mv "$new/tree/dist/accelerator-device-plugin-$version.tgz" "$new/$version/chart.tgz"
	rm -rf "$new/tree" "$new/log"
done
echo "  oras, cosign, krew (${SECONDS}s)" >&2
mkdir "$new/bin"
export CGO_ENABLED=0 GOBIN=$new/bin
nice go -C tools build -trimpath -o "$new/bin/oras" oras.land/oras/cmd/oras
nice go install -trimpath "github.com/sigstore/cosign/v3/cmd/cosign@$cosign"
nice go install -trimpath "sigs.k8s.io/krew/cmd/krew@$krew"
mv "$new" "$done"
trap - EXIT
echo "$done"
