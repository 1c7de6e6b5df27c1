#!/usr/bin/env bash
# Provides etcd, kube-apiserver and kubectl and prints the directory that holds them, for use as KUBEBUILDER_ASSETS.
#
# In this order: KUBEBUILDER_ASSETS where it is set and complete; the cache; setup-envtest's prebuilt programs where they
# can be downloaded within 20 s; a build from the Go modules that hack/kube pins (about 10 minutes on two cores,
# once per version). The cache is outside the clone, by version: ${XDG_CACHE_HOME:-~/.cache}/pgflow-operator/kube.
# Progress goes to standard error.
set -euo pipefail

testenv=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hack=$(dirname "$testenv")
# shellcheck source=hack/testenv/stage.sh
. "$testenv/stage.sh"

programs=(etcd kube-apiserver kubectl)

complete() {
	local program
	for program in "${programs[@]}"; do
		[ -x "$1/$program" ] || return 1
	done
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	if complete "$KUBEBUILDER_ASSETS"; then
		echo "$KUBEBUILDER_ASSETS"
		exit 0
	fi
	echo "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks one of: ${programs[*]}; looking elsewhere" >&2
fi

version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$hack/kube/go.mod")
series=${version#v} series=${series%.*}
pinned=$(cat "$hack/kube/go.mod" "$hack/kube/go.sum" | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pgflow-operator/kube
assets=$cache/$version-$pinned

if complete "$assets"; then
	echo "$assets"
	exit 0
fi

# One at a time: whoever comes second waits and finds the result.
mkdir -p "$cache"
exec 9>"$assets.lock"
flock -n 9 || stage "waiting for another run that provides Kubernetes $version" flock 9
if complete "$assets"; then
	echo "$assets"
	exit 0
fi

# What an earlier run left that was killed; the lock says that nobody works there.
rm -rf "$assets" "$assets".tmp.*
work=$(mktemp -d "$assets.tmp.XXXXXX")
trap 'rm -rf "$work"' EXIT

download() {
	local setup=$work/setup-envtest found
	stage "building setup-envtest" go build -C "$hack/tools/setup-envtest" -o "$setup" \
		sigs.k8s.io/controller-runtime/tools/setup-envtest >&2 || return
	# Any patch release will do: prebuilt programs do not exist for each.
	found=$(stage "looking for prebuilt programs, at most 20 s" \
		timeout --kill-after=2 20 "$setup" use "$series.x" --bin-dir "$work/download" --print path) || return
	complete "$found" || return
	mkdir "$work/bin" && cp "${programs[@]/#/$found/}" "$work/bin/"
}

build() {
	# kubectl cannot compare versions when the programs do not know theirs.
	local flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
	stage "building etcd" \
		go build -C "$hack/kube" -ldflags "$flags" -o "$work/bin/etcd" go.etcd.io/etcd/server/v3 >&2 &&
		stage "building kube-apiserver $version (minutes, once)" \
			go build -C "$hack/kube" -ldflags "$flags" -o "$work/bin/" k8s.io/kubernetes/cmd/kube-apiserver >&2 &&
		stage "building kubectl $version" \
			go build -C "$hack/kube" -ldflags "$flags" -o "$work/bin/" k8s.io/kubernetes/cmd/kubectl >&2
}

if ! download; then
	echo "no prebuilt programs for Kubernetes $series here; building them from source" >&2
	rm -rf "$work/bin"
	build
fi
# Whole or not at all, whatever ends this script.
mv "$work/bin" "$assets"
echo "$assets"
