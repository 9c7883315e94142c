#!/usr/bin/env bash
# Checks the allowed imports of packages, and prints each violation.
set -euo pipefail

module=b-com.com/accelerator-device-plugin
violations=0

# Lines "importer import", direct imports only, tests included.
imports=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}{{range .TestImports}}{{$p}} {{.}}
{{end}}{{range .XTestImports}}{{$p}} {{.}}
{{end}}' ./... | sort -u)

# only IMPORT-REGEX IMPORTER-REGEX: no other package may import it.
only() {
	local bad
	bad=$(awk -v import="$1" -v importer="^$module/($2)(/|\$)" '$2 ~ import && $1 !~ importer' <<<"$imports")
	if [ -n "$bad" ]; then
		echo "only $2 may import $1:"
		sed 's/^/  /' <<<"$bad"
		violations=1
	fi
}

# never IMPORTER-REGEX IMPORT-REGEX: the importer may not import it.
never() {
	local bad
	bad=$(awk -v importer="^$module/($1)(/|\$)" -v import="^$module/($2)(/|\$)" '$1 ~ importer && $2 ~ import' <<<"$imports")
	if [ -n "$bad" ]; then
		echo "$1 may not import $2:"
		sed 's/^/  /' <<<"$bad"
		violations=1
	fi
}

only '^github.com/pilebones/go-udev' 'watcher'
only '^golang.org/x/sys' 'watcher|internal/opened'
only '^github.com/fsnotify/fsnotify' 'watcher|server|internal/(notify|filewatch)'
only '^google.golang.org/grpc' 'server|kubelet|internal/sim/simkubelet'
only '^github.com/prometheus/' 'internal/metrics'
only '^k8s.io/kubelet' 'server|kubelet|internal/sim/simkubelet'
only '^tags.cncf.io/container-device-interface|^github.com/opencontainers/runtime-spec' 'server/cdi'
only '^github.com/spf13/cobra' 'cmd'
only '^k8s.io/(client-go|apimachinery|klog)|^github.com/go-logr' 'internal/apiserver'
never 'watcher' 'inventory|server|cmd|internal/(apiserver|recorder)'
never 'inventory' 'watcher|server|kubelet|cmd|internal/(apiserver|recorder)'
never 'server' 'watcher|cmd|internal/(apiserver|recorder)'
never 'kubelet' 'watcher|server|cmd|internal/(apiserver|recorder)'
never 'kubelet/(podresources|checkpoint)' 'inventory|internal'
never 'server/cdi' 'inventory|internal'
never 'server/peers' 'inventory|kubelet|server/(cdi|offer|prefer)'
never 'server/names' 'watcher|inventory|programming|internal|server/[^n].*'
never 'programming' 'watcher|inventory|server|cmd|internal/(apiserver|recorder)'
never 'cmd/accelerator-fpga' 'watcher|inventory|server|internal/(apiserver|recorder)'
never 'internal/(latest|event|sysfs|view|terminal|trust|cordon|owner|httpd|control|sim/board|sim/simnode|notify|filewatch|backoff|throttle|apiserver|recorder|metrics|pulse)' 'watcher|server|cmd'
never 'internal/opened' 'watcher|inventory|server|cmd'
never 'internal/canpull' 'watcher|server|cmd|internal/control'
never 'internal/timeline' 'watcher|inventory|server|cmd|internal/view'
never 'internal/(latest|sysfs|terminal|trust|cordon|owner|notify|filewatch|backoff|throttle|apiserver|metrics|pulse)' 'inventory'
never 'internal/daemon' 'cmd|internal/sim'
never 'watcher|inventory|kubelet|server|internal/[^d].*' 'internal/daemon'
never 'internal/config' 'watcher|inventory|kubelet|cmd'

# Except tests, only the commands `demo` and `simulate` may import the simulated node, kubelet and API server.
bad=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}
{{end}}' ./cmd/... ./watcher/... ./inventory/... ./kubelet/... ./server/... ./programming/... ./internal/... |
	awk -v sim="^$module/internal/sim/" '$2 ~ sim && $1 !~ sim && $1 !~ /cmd\/accelerator-device-plugin$/')
if [ -n "$bad" ]; then
	echo "only tests and cmd/accelerator-device-plugin may import internal/sim:"
	sed 's/^/  /' <<<"$bad"
	violations=1
fi

# Only one file may import go-udev, which is under the GPL.
files=$(grep -rl --include='*.go' 'pilebones/go-udev' . | grep -v _test.go || true)
if [ "$(wc -l <<<"$files")" -ne 1 ]; then
	echo "only one file may import go-udev:"
	sed 's/^/  /' <<<"$files"
	violations=1
fi

# accelerator-fpga is distributed under Apache-2.0 (NOTICE): it must not link go-udev through any package.
if go list -deps ./cmd/accelerator-fpga | grep 'pilebones/go-udev'; then
	echo "accelerator-fpga may not link go-udev, which is under the GPL"
	violations=1
fi

# A binary that calls methods of text/template keeps every exported method: 2.6 MB, and 1.5 MiB of memory.
binary=$(mktemp)
trap 'rm -f "$binary"' EXIT
for command in accelerator-device-plugin accelerator-fpga; do
	CGO_ENABLED=0 go build -tags grpcnotrace -o "$binary" "./cmd/$command"
	if go tool nm "$binary" | grep ' text/template\.(\*Template)\.Execute$' >/dev/null; then
		echo "$command may not link text/template; to find the caller: go build -tags grpcnotrace -ldflags -dumpdep ./cmd/$command 2>&1 | grep -- '-> text/template'"
		violations=1
	fi
done

[ $violations -eq 0 ] && echo "imports: ok"
exit $violations
