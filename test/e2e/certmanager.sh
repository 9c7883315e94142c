#!/usr/bin/env bash
# certmanager.sh DIR HELM: builds cert-manager from its module, in the version that certmanager/go.mod
# pins, and packages the chart of the module, into a directory below DIR, unless they are there. Prints
# that directory on stdout, progress on stderr. The first time: minutes.
set -euo pipefail
helm=$2
cd "$(dirname "$0")/certmanager"
read -r version module < <(go mod download -json github.com/cert-manager/cert-manager | awk -F'"' '$2 == "Version" { v = $4 } $2 == "Dir" { print v, $4 }')
done=$1/cert-manager-${version#v}-$(cat ../certmanager.sh go.mod go.sum ./*.go | sha256sum | cut -c1-8)
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
