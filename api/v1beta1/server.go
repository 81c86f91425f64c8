package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MCPServerSpec is a tool server that runs in a pod, with its gateway.
//
// +kubebuilder:validation:XValidation:rule="!has(self.authzConfig) || !has(self.authzConfigRef)",message="authzConfig and authzConfigRef exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.mcpPort) || self.transport != 'stdio'",message="mcpPort is for transport sse or streamable-http"
// +kubebuilder:validation:XValidation:rule="!has(self.mcpPort) || self.mcpPort != 8081",message="mcpPort 8081 is the port of the gateway; choose another one"
type MCPServerSpec struct {
	// Image is that of the server.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Command replaces the entry point of the image. Without it, that of a stdio server is read
	// from the image's registry: by the operator, or with imagePullSecrets by the pod.
	Command []string `json:"command,omitempty"`
	// Args follow the entry point.
	Args []string `json:"args,omitempty"`
	// Transport is the server's.
	// +kubebuilder:validation:Enum=stdio;streamable-http;sse
	// +kubebuilder:default=stdio
	Transport string `json:"transport,omitempty"`
	// ProxyMode is the transport that clients of a stdio server use.
	// +kubebuilder:validation:Enum=sse;streamable-http
	// +kubebuilder:default=streamable-http
	ProxyMode string `json:"proxyMode,omitempty"`
	// MCPPort is where an HTTP server listens in the pod; by default 8080, and not 8081, which is
	// the gateway's own. The variables MCP_PORT and FASTMCP_PORT give it to the server. The
	// gateway listens on another port when it is proxyPort, behind the same Service.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	MCPPort *int32 `json:"mcpPort,omitempty"`
	// Env are variables of the server with plain values.
	// +listType=map
	// +listMapKey=name
	Env []EnvVar `json:"env,omitempty"`
	// Secrets are variables of the server whose values are keys of Secrets.
	// +listType=map
	// +listMapKey=name
	// +listMapKey=key
	Secrets []SecretEnv `json:"secrets,omitempty"`
	// Volumes are paths of the node in the server's container.
	// +listType=map
	// +listMapKey=name
	Volumes []Volume `json:"volumes,omitempty"`
	// PermissionProfile is where the server may connect to; by default anywhere.
	PermissionProfile *PermissionProfile `json:"permissionProfile,omitempty"`
	// WebhookConfigRef refers to an MCPWebhookConfig.
	WebhookConfigRef *NameRef `json:"webhookConfigRef,omitempty"`

	// Of MCPServer and MCPRemoteProxy:

	ProxySpec `json:",inline"`
}

// ProxySpec is what MCPServer and MCPRemoteProxy have in common: the gateway.
type ProxySpec struct {
	// ProxyPort is where the gateway listens.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	ProxyPort int32 `json:"proxyPort,omitempty"`
	// EndpointPrefix is a path before that of the endpoint in what clients are given, for a
	// reverse proxy that removes it.
	EndpointPrefix string `json:"endpointPrefix,omitempty"`
	// TrustProxyHeaders uses X-Forwarded-* of a reverse proxy.
	// +kubebuilder:default=false
	TrustProxyHeaders bool `json:"trustProxyHeaders,omitempty"`
	// AllowedHosts are values of the Host header that are accepted beside the names of the
	// Service, such as the host of an Ingress.
	AllowedHosts []string `json:"allowedHosts,omitempty"`

	// OIDCConfigRef is who issues the tokens of clients; without it, and without
	// authServerRef, every client is accepted.
	OIDCConfigRef *OIDCConfigRef `json:"oidcConfigRef,omitempty"`
	// AuthServerRef refers to an MCPExternalAuthConfig of type embeddedAuthServer.
	AuthServerRef *AuthServerRef `json:"authServerRef,omitempty"`
	// ExternalAuthConfigRef refers to an MCPExternalAuthConfig: how the gateway authenticates
	// at the server.
	ExternalAuthConfigRef *NameRef `json:"externalAuthConfigRef,omitempty"`
	// AuthzConfig are policies; without any, every request is authorized.
	AuthzConfig *AuthzConfig `json:"authzConfig,omitempty"`
	// AuthzConfigRef refers to an MCPAuthzConfig.
	AuthzConfigRef *NameRef `json:"authzConfigRef,omitempty"`
	// CABundleRef has authorities that the gateway trusts in requests of its own.
	CABundleRef *CABundleRef `json:"caBundleRef,omitempty"`

	Audit *Audit `json:"audit,omitempty"`
	// ToolConfigRef refers to an MCPToolConfig.
	ToolConfigRef      *NameRef            `json:"toolConfigRef,omitempty"`
	TelemetryConfigRef *TelemetryConfigRef `json:"telemetryConfigRef,omitempty"`
	// GroupRef refers to an MCPGroup.
	GroupRef *NameRef `json:"groupRef,omitempty"`

	// Replicas is the number of pods; without it the Deployment's is left alone, for an
	// autoscaler.
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// SessionAffinity is that of the Service. It is not needed: a gateway passes the request
	// of a session on to the one that has it.
	// +kubebuilder:validation:Enum=ClientIP;None
	// +kubebuilder:default=None
	SessionAffinity string `json:"sessionAffinity,omitempty"`
	// Resources are those of the server's container, or of the gateway's for a remote server.
	Resources *Resources `json:"resources,omitempty"`
	// ServiceAccount is the pods' own; by default one without any rights.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// PodTemplateSpec is merged into the template of the pods (strategic merge patch); the
	// containers are named mcp and gateway.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	PodTemplateSpec *runtime.RawExtension `json:"podTemplateSpec,omitempty"`
	// ResourceOverrides add to the objects that are made.
	ResourceOverrides *ResourceOverrides `json:"resourceOverrides,omitempty"`
}

// SecretEnv is an environment variable whose value is a key of a Secret.
type SecretEnv struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
	// TargetEnvName is the variable; by default key.
	TargetEnvName string `json:"targetEnvName,omitempty"`
}

// Variable is the name of the variable.
func (s SecretEnv) Variable() string {
	if s.TargetEnvName != "" {
		return s.TargetEnvName
	}
	return s.Key
}

// Volume is a path of the node.
type Volume struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^/`
	HostPath string `json:"hostPath"`
	// +kubebuilder:validation:Pattern=`^/`
	MountPath string `json:"mountPath"`
	// +kubebuilder:default=false
	ReadOnly bool `json:"readOnly,omitempty"`
}

// PermissionProfile is one of the built-in profiles.
type PermissionProfile struct {
	// +kubebuilder:validation:Enum=builtin
	// +kubebuilder:default=builtin
	Type string `json:"type,omitempty"`
	// Name is none for no connections, or network for any.
	// +kubebuilder:validation:Enum=none;network
	Name string `json:"name"`
}

// MCPServer is a tool server that runs in a pod, with its gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcpserver;mcpservers,categories=toolhaven
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPServerSpec  `json:"spec"`
	Status WorkloadStatus `json:"status,omitzero"`
}

// MCPServerList is a list.
//
// +kubebuilder:object:root=true
type MCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPServer `json:"items"`
}
