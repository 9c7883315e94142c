#!/usr/bin/env bash
# Checks the allowed imports of packages, and prints each violation.
set -euo pipefail

module=b-com.com/accelerator-device-plugin
violations=0

# refuse TEXT LINES: reports the lines as violations, if there are any.
refuse() {
	[ -n "$2" ] || return 0
	echo "$1:"
	sed 's/^/  /' <<<"$2"
	violations=1
}

# Each folder and the folders that it may import; internal may be imported by all, cmd may import all.
layers='
internal:
watcher:
cdi:
programming:
inventory:
offer: inventory
kubelet: inventory offer
server: inventory offer kubelet cdi
daemon: inventory offer kubelet watcher
sim: kubelet
'
imports=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}' ./...)
refuse 'imports that point upward (importer import)' "$(awk -v prefix="$module/" '
	NR == FNR { if (sub(/:/, "", $1)) for (i = 1; i <= NF; i++) allowed[$1, $i] = 1; next }
	index($1, prefix) == 1 && index($2, prefix) == 1 {
		split(substr($1, length(prefix) + 1), from, "/"); split(substr($2, length(prefix) + 1), to, "/")
		if (from[1] !~ /^(cmd|test)$/ && to[1] != "internal" && !((from[1], to[1]) in allowed)) print $1, $2
	}' <(echo "$layers") <(echo "$imports"))"
refuse 'only tests and the commands demo and simulate may import sim' "$(grep " $module/sim" <<<"$imports" |
	grep -vE "^$module/(sim/|test/|cmd/accelerator-device-plugin )" || true)"

# only IMPORT-REGEX IMPORTER-REGEX: reports all other packages that import a package matching IMPORT-REGEX.
only() {
	refuse "only $2 may import $1" "$(awk -v import="$1" -v importer="^$module/($2)(/|\$)" '$2 ~ import && $1 !~ importer' <<<"$imports")"
}
only '^golang.org/x/sys' 'watcher|cmd/internal/procusers'
only '^github.com/fsnotify/fsnotify' 'watcher|server|internal/notify|internal/dirwatch'
only '^google.golang.org/grpc' 'server|kubelet|sim/simkubelet|internal/grpclog'
only '^github.com/prometheus/' 'internal/metrics'
only '^k8s.io/kubelet' 'server|kubelet|sim/simkubelet'
only '^tags.cncf.io/container-device-interface|^github.com/opencontainers/runtime-spec' 'cdi'
only '^github.com/spf13/cobra' 'cmd|test/doccmd'
only '^k8s.io/(client-go|apimachinery|klog)|^github.com/go-logr' 'daemon/apiserver'
only "^$module/offer/names" 'offer|daemon/config'
only "^$module/test/" 'test'

# Only one file may import go-udev, which is under the GPL. accelerator-fpga is distributed under Apache-2.0 (NOTICE),
# so it may not link go-udev through any package.
files=$(grep -rl --include='*.go' 'pilebones/go-udev' . | grep -v _test.go || true)
[ "$(wc -l <<<"$files")" -eq 1 ] || refuse 'only one file may import go-udev' "$files"
refuse 'accelerator-fpga may not link go-udev' "$(go list -deps ./cmd/accelerator-fpga | grep 'pilebones/go-udev' || true)"

# A binary that calls methods of text/template keeps every exported method, which costs 2.6 MB of the binary and 1.5 MiB
# of memory.
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
for command in accelerator-device-plugin accelerator-fpga; do
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags -w -o "$binary" "./cmd/$command"
	if go tool nm "$binary" | grep ' text/template\.(\*Template)\.Execute$' >/dev/null; then
		echo "$command may not link text/template; to find the caller: go build -tags grpcnotrace -ldflags -dumpdep ./cmd/$command 2>&1 | grep -- '-> text/template'"
		violations=1
	fi
done

[ $violations -eq 0 ] && echo "imports: ok"
exit $violations
