// Package cluster tests the operator, and the pods that it makes, on a cluster of one node:
// etcd, the API server, controller manager, scheduler, kubelet and kube-proxy of Kubernetes,
// containerd, and CoreDNS. The images come from a registry on the node's address.
//
//	make cluster-test
//
// The test program starts itself again in namespaces of its own for network, mounts and
// processes. The cluster runs in these with its test, so nothing of it touches the machine's
// network, firewall or engine, and all of it ends when the test program does, however that
// ends. Control groups and one directory are removed afterwards.
//
// NetworkPolicies are made and not enforced: the bridge plugin does not know them.
package cluster
