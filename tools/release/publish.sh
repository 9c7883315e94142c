#!/bin/sh
# Signs the release @VERSION@ in this directory, and pushes its images and charts: see --help.
set -eu
version=@VERSION@
tag=$(printf %s "$version" | tr + _)
registry=${REGISTRY:-@REGISTRY@}

usage() {
	cat <<END
usage: REGISTRY=registry.example.com/fpga COSIGN_KEY=cosign.key ./publish.sh [--dry-run]

Checks SHA256SUMS, then pushes the images of $version to REGISTRY/NAME and the charts to
REGISTRY/charts/NAME, each with its bills of materials and its provenance, and signs them, the
provenance, and SHA256SUMS (as SHA256SUMS.sigstore.json, to be published with the other files).

What was pushed or signed before is not pushed or signed again, so the script can be repeated after
a failure. A tag with other contents is never replaced. --dry-run only prints what would be done.

  REGISTRY             registry and path; default: ${registry:-none}
  COSIGN_KEY           private key, a file or the address of a key service; not set: nothing is signed.
                       cosign reads the password of a file from COSIGN_PASSWORD, or asks for it
  COSIGN_SIGN_FLAGS    further arguments of cosign sign, attest and sign-blob
  COSIGN_VERIFY_FLAGS  further arguments of cosign verify, verify-attestation and verify-blob

It needs oras 1.3 (go install oras.land/oras/cmd/oras@v1.3.6) and, for signatures, cosign 3
(go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3). Log in with oras login before.
END
}

dry=
case "$#${1:-}" in
0) ;;
1--dry-run) dry=1 ;;
1-h | 1--help)
	usage
	exit
	;;
*)
	usage >&2
	exit 2
	;;
esac
fail() {
	echo "publish.sh: $*" >&2
	exit 1
}
act() {
	echo "+ $*"
	[ -n "$dry" ] || "$@"
}

# The key may be a file, relative to where the script is run.
[ ! -f "${COSIGN_KEY:-}" ] || COSIGN_KEY=$(realpath "$COSIGN_KEY")
cd "$(dirname "$0")"
[ -n "$registry" ] || fail "REGISTRY: found none, want a registry and a path, such as registry.example.com/fpga"
for program in oras ${COSIGN_KEY:+cosign}; do
	command -v "$program" >/dev/null || fail "$program is not in PATH; --help says how to install it"
done
sha256sum --check --quiet SHA256SUMS || fail "SHA256SUMS: found other files than those of the release: download them again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${COSIGN_KEY:-}" ]; then
	cosign public-key --key "$COSIGN_KEY" >"$work/cosign.pub"
else
	echo "COSIGN_KEY is not set: nothing is signed"
fi
# verified COMMAND ARGUMENT…: runs a command of cosign that verifies.
verified() {
	what=$1
	shift
	# shellcheck disable=SC2086 # words
	cosign "$what" --key "$work/cosign.pub" ${COSIGN_VERIFY_FLAGS:-} "$@" >/dev/null 2>&1
}

for file in *_"$version"_image.tar *_"$version"_chart.tar; do
	name=${file%%_*}
	case $file in
	*_chart.tar) repository=$registry/charts/$name ;;
	*) repository=$registry/$name ;;
	esac
	want=$(oras resolve --oci-layout "$file:$tag")
	if found=$(oras resolve "$repository:$tag" 2>"$work/error"); then
		[ "$found" = "$want" ] || fail "$repository:$tag: found $found, want $want: a published version is never replaced"
	elif ! grep -q 'not found' "$work/error"; then
		fail "$repository:$tag: $(cat "$work/error")"
	fi
	act oras cp --no-tty --recursive --from-oci-layout "$file:$tag" "$repository:$tag"
	[ -n "${COSIGN_KEY:-}" ] || continue
	if verified verify "$repository@$want"; then
		echo "$repository@$want is signed already"
	else
		# shellcheck disable=SC2086 # words
		act cosign sign --yes --recursive --key "$COSIGN_KEY" ${COSIGN_SIGN_FLAGS:-} "$repository@$want"
	fi
	if verified verify-attestation --type slsaprovenance1 "$repository@$want"; then
		echo "the provenance of $repository@$want is signed already"
	else
		# shellcheck disable=SC2086 # words
		act cosign attest --yes --type slsaprovenance1 --predicate provenance.json --key "$COSIGN_KEY" ${COSIGN_SIGN_FLAGS:-} "$repository@$want"
	fi
done

if [ -n "${COSIGN_KEY:-}" ]; then
	if [ -e SHA256SUMS.sigstore.json ] && verified verify-blob --bundle SHA256SUMS.sigstore.json SHA256SUMS; then
		echo "SHA256SUMS is signed already"
	else
		# shellcheck disable=SC2086 # words
		act cosign sign-blob --yes --key "$COSIGN_KEY" --bundle SHA256SUMS.sigstore.json ${COSIGN_SIGN_FLAGS:-} SHA256SUMS
	fi
fi
echo "done: publish the files of this directory, with the tag v$version of the source"
