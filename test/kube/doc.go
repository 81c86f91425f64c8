// Package kube starts etcd and an API server of Kubernetes for tests, with the definitions of
// deploy/crds. No kubelet and no controller runs there: objects are stored, checked and
// watched, and pods do not start. test/setup/kubernetes.sh installs the programs.
//
//	func TestMain(m *testing.M) { kube.Main(m) }
//
//	func TestX(t *testing.T) {
//		cluster := kube.Start(t)
//		c := cluster.Client(t)
//		namespace := cluster.Namespace(t)
package kube
