#!/usr/bin/env bash
# cluster.sh DIR: builds a cluster's programs from Go modules, and prints the directory where it put them. It creates
# that directory in DIR, and builds nothing if it already exists. build/*/go.mod and tools/go.mod (helm) pin the
# versions. KUBERNETES=1.36 builds Kubernetes from build/kube/kubernetes-1.36.mod. Progress goes to stderr. Nothing is
# installed. The first build takes half an hour on two processors, and 6 GB of build cache.
set -euo pipefail
cd "$(dirname "$0")"
fail() {
	echo "e2e cannot run: $*" >&2
	exit 1
}

kube=go.mod
if [ -n "${KUBERNETES:-}" ]; then
	kube=kubernetes-$KUBERNETES.mod
	[ -f "build/kube/$kube" ] || fail "KUBERNETES is \"$KUBERNETES\", want nothing, or one of: $(cd build/kube && printf '%s ' kubernetes-*.mod | sed 's/kubernetes-//g; s/\.mod//g')"
fi

# Each set of versions gets its own directory.
helm=$(go -C ../../tools list -m helm.sh/helm/v4)
sum=$({ echo "$helm"; grep -v "^#" cluster.sh; cat build/*/go.mod build/*/go.sum "build/kube/$kube" "build/kube/${kube%mod}sum"; } | sha256sum | cut -c1-8)
kubernetes=$(go -C build/kube list -modfile="$kube" -m -f '{{.Version}}' k8s.io/kubernetes)
done=$1/cluster-${kubernetes#v}-$sum
if [ -d "$done" ]; then
	echo "$done"
	exit
fi

missing=()
command -v gcc >/dev/null || missing+=("gcc (runc needs a C compiler)")
command -v apt-get >/dev/null || missing+=("apt-get (libseccomp, for runc, comes from a Debian package)")
command -v dpkg >/dev/null || missing+=("dpkg")
[ ${#missing[@]} -eq 0 ] || fail "missing: $(printf '%s; ' "${missing[@]}")"

mkdir -p "$1"
bin=$(mktemp -d "$1/cluster.XXXXXX")
trap 'rm -rf "$bin"' EXIT
mkdir "$bin/cni"
export GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0

# build MODULE NAME PACKAGE [FLAG…]: builds one program. It prints the name of every 50th package.
build() {
	local module=$1 name=$2 package=$3
	shift 3
	echo "  $name (${SECONDS}s)" >&2
	if ! nice go -C "$module" build -v "$@" -o "$bin/$name" "$package" 2>&1 | tee "$bin/log" |
		awk 'NR % 50 == 0 { print "    " NR " packages, now " $1; fflush() }' >&2; then
		tail -n 20 "$bin/log" >&2
		exit 1
	fi
	rm "$bin/log"
}

# What the programs print as their version.
version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitTreeState=clean"
for name in kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build build/kube $name k8s.io/kubernetes/cmd/$name -modfile="$kube" -ldflags "-s -w $version"
done
for name in containerd containerd-shim-runc-v2 ctr; do
	build build/containerd $name github.com/containerd/containerd/v2/cmd/$name -tags no_btrfs,no_devmapper,no_zfs,no_aufs -ldflags '-s -w'
done
build build/etcd etcd go.etcd.io/etcd/server/v3 -ldflags '-s -w'
for plugin in main/bridge main/loopback ipam/host-local; do
	build build/cni "cni/${plugin#*/}" github.com/containernetworking/plugins/plugins/$plugin -ldflags '-s -w'
done
# The helm that `make chart` has just built.
echo "  helm (${SECONDS}s)" >&2
cp "$(env -u CGO_ENABLED GOFLAGS=-trimpath go -C ../../tools tool -n helm)" "$bin/helm"

# Without seccomp, runc doesn't start our pods, because they request it.
deb=$(mktemp -d)
trap 'rm -rf "$bin" "$deb"' EXIT
chmod 755 "$deb" # apt-get downloads as another user
(cd "$deb" && apt-get download -q libseccomp-dev && dpkg -x ./*.deb .) >&2
lib=$(dirname "$(find "$deb" -name libseccomp.a)")
CGO_ENABLED=1 CGO_CFLAGS="-I$deb/usr/include" CGO_LDFLAGS="-L$lib" PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$deb \
	build build/runc runc github.com/opencontainers/runc -tags netgo,osusergo,seccomp -ldflags '-s -w -extldflags -static'

mv -T "$bin" "$done"
chmod 755 "$done"
echo "$done"
