// Package kubetest gives tests and the demo a real Kubernetes API server: etcd and kube-apiserver as child processes, on
// loopback, on free ports, in a directory of their own. There are no controllers: no garbage collection, no namespace
// deletion, no pods.
//
// The API server can be stopped and started again; certificates, tokens and address stay valid. Nothing stays behind:
// Stop removes processes and directory, and package guardian does when the caller dies without it.
//
// The programs come from KUBEBUILDER_ASSETS, else from hack/testenv/kube-assets.sh, which builds them the first time: set
// the variable where minutes of silence would be a problem (make test does).
package kubetest
