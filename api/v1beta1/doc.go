// Package v1beta1 has the types of the API group toolhaven.dev: tool servers that run on a
// Kubernetes cluster, and how they authenticate. `make generate` makes the deep copies, the
// CustomResourceDefinitions in deploy/crds and docs/kubernetes-api.md from it.
//
// The spec of MCPExternalAuthConfig is that of package internal/externalauth, which the
// command line and the gateway use as well and which imports nothing of Kubernetes. The
// aliases of this package are the names by which other modules reach those types.
//
// Names of fields are those that users of ToolHive have. A field that is not served is not
// here; `thv-operator convert` reports it.
//
// +kubebuilder:object:generate=true
// +groupName=toolhaven.dev
package v1beta1
