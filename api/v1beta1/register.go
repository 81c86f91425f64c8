package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "toolhaven.dev", Version: "v1beta1"}

// Kinds of the group.
const (
	KindMCPExternalAuthConfig = "MCPExternalAuthConfig"
	KindMCPServer             = "MCPServer"
	KindMCPRemoteProxy        = "MCPRemoteProxy"
	KindMCPServerEntry        = "MCPServerEntry"
	KindVirtualMCPServer      = "VirtualMCPServer"
	KindMCPGroup              = "MCPGroup"
	KindMCPOIDCConfig         = "MCPOIDCConfig"
	KindMCPToolConfig         = "MCPToolConfig"
	KindMCPTelemetryConfig    = "MCPTelemetryConfig"
	KindMCPAuthzConfig        = "MCPAuthzConfig"
	KindMCPWebhookConfig      = "MCPWebhookConfig"
)

// Objects returns an empty object of each kind.
func Objects() []runtime.Object {
	return []runtime.Object{
		&MCPExternalAuthConfig{}, &MCPServer{}, &MCPRemoteProxy{}, &MCPServerEntry{}, &VirtualMCPServer{}, &MCPGroup{},
		&MCPOIDCConfig{}, &MCPToolConfig{}, &MCPTelemetryConfig{}, &MCPAuthzConfig{}, &MCPWebhookConfig{},
	}
}

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, Objects()...)
	scheme.AddKnownTypes(GroupVersion,
		&MCPExternalAuthConfigList{}, &MCPServerList{}, &MCPRemoteProxyList{}, &MCPServerEntryList{}, &VirtualMCPServerList{}, &MCPGroupList{},
		&MCPOIDCConfigList{}, &MCPToolConfigList{}, &MCPTelemetryConfigList{}, &MCPAuthzConfigList{}, &MCPWebhookConfigList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
