#!/usr/bin/env bash
# certmanager.sh DIR HELM: builds cert-manager and packages its chart, both from its Go module, and prints the directory
# where it put them. It creates that directory in DIR, and builds nothing if it already exists. certmanager/go.mod pins
# the version. Progress goes to stderr. The first build takes a few minutes.
set -euo pipefail
helm=$2
cd "$(dirname "$0")/certmanager"
read -r version module < <(go mod download -json github.com/cert-manager/cert-manager | awk -F'"' '$2 == "Version" { v = $4 } $2 == "Dir" { print v, $4 }')
done=$1/cert-manager-${version#v}-$({ grep -v "^#" ../certmanager.sh; cat go.mod go.sum ./*.go; } | sha256sum | cut -c1-8)
if [ ! -d "$done" ]; then
	echo "  cert-manager $version (${SECONDS}s)" >&2
	new=$(mktemp -d "$1/cert-manager.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	CGO_ENABLED=0 nice go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$new/cert-manager" .
	"$helm" package "$module/deploy/charts/cert-manager" --version "$version" --app-version "$version" --destination "$new" >&2
	chmod 755 "$new"
	mv -T "$new" "$done"
fi
echo "$done"
