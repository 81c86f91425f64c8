package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// VirtualMCPServerSpec is one server made of those of a group. Nothing runs for it yet.
type VirtualMCPServerSpec struct {
	// GroupRef refers to the MCPGroup with its servers.
	GroupRef *NameRef `json:"groupRef"`
	// IncomingAuth is how clients are authenticated.
	IncomingAuth *IncomingAuth `json:"incomingAuth"`
	// OutgoingAuth is how the gateway authenticates at the servers.
	OutgoingAuth *OutgoingAuth `json:"outgoingAuth,omitempty"`
	// AuthServerConfig is an authorization server of its own.
	AuthServerConfig *externalauth.EmbeddedAuthServer `json:"authServerConfig,omitempty"`
	// Config is kept as it is.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Config *runtime.RawExtension `json:"config,omitempty"`
	// PassthroughHeaders are headers of clients that the servers get.
	PassthroughHeaders []string            `json:"passthroughHeaders,omitempty"`
	TelemetryConfigRef *TelemetryConfigRef `json:"telemetryConfigRef,omitempty"`
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	// +kubebuilder:default=ClusterIP
	ServiceType string `json:"serviceType,omitempty"`
	// +kubebuilder:validation:Enum=ClientIP;None
	// +kubebuilder:default=None
	SessionAffinity string `json:"sessionAffinity,omitempty"`
	ServiceAccount  string `json:"serviceAccount,omitempty"`
	// ImagePullSecrets are for the images of its pods.
	ImagePullSecrets []NameRef `json:"imagePullSecrets,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	PodTemplateSpec *runtime.RawExtension `json:"podTemplateSpec,omitempty"`
}

// IncomingAuth is how clients are authenticated.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'oidc') == has(self.oidcConfigRef)",message="oidcConfigRef is required when type is oidc, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.authzConfig) || !has(self.authzConfigRef)",message="authzConfig and authzConfigRef exclude each other"
type IncomingAuth struct {
	// +kubebuilder:validation:Enum=anonymous;oidc
	Type           string         `json:"type"`
	OIDCConfigRef  *OIDCConfigRef `json:"oidcConfigRef,omitempty"`
	AuthzConfig    *AuthzConfig   `json:"authzConfig,omitempty"`
	AuthzConfigRef *NameRef       `json:"authzConfigRef,omitempty"`
}

// OutgoingAuth is how the gateway authenticates at the servers.
type OutgoingAuth struct {
	// Source is discovered for what each server's resource has, or inline for what is here
	// alone.
	// +kubebuilder:validation:Enum=discovered;inline
	// +kubebuilder:default=discovered
	Source  string       `json:"source,omitempty"`
	Default *BackendAuth `json:"default,omitempty"`
	// Backends are by the name of the server's resource.
	Backends map[string]BackendAuth `json:"backends,omitempty"`
}

// BackendAuth is how the gateway authenticates at one server.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'externalAuthConfigRef') == has(self.externalAuthConfigRef)",message="externalAuthConfigRef is required when type is externalAuthConfigRef, and must be absent otherwise"
type BackendAuth struct {
	// +kubebuilder:validation:Enum=discovered;externalAuthConfigRef
	Type                  string   `json:"type"`
	ExternalAuthConfigRef *NameRef `json:"externalAuthConfigRef,omitempty"`
}

// VirtualMCPServerStatus is the status of a virtual server.
type VirtualMCPServerStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +kubebuilder:validation:Enum=Pending;Ready;Degraded;Failed
	Phase              Phase  `json:"phase,omitempty"`
	URL                string `json:"url,omitempty"`
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	BackendCount       int32  `json:"backendCount,omitempty"`
	// +listType=map
	// +listMapKey=name
	DiscoveredBackends []DiscoveredBackend `json:"discoveredBackends,omitempty"`
}

// DiscoveredBackend is one server of the group.
type DiscoveredBackend struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
	// Status is ready, unavailable, degraded, unknown or unauthenticated.
	Status string `json:"status,omitempty"`
	// AuthConfigRef is the name of an MCPExternalAuthConfig.
	AuthConfigRef   string       `json:"authConfigRef,omitempty"`
	AuthType        string       `json:"authType,omitempty"`
	Message         string       `json:"message,omitempty"`
	LastHealthCheck *metav1.Time `json:"lastHealthCheck,omitempty"`
}

// VirtualMCPServer is one server made of those of a group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmcp;virtualmcp,categories=toolhaven
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Backends",type=integer,JSONPath=`.status.backendCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMCPServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMCPServerSpec   `json:"spec"`
	Status VirtualMCPServerStatus `json:"status,omitzero"`
}

// VirtualMCPServerList is a list.
//
// +kubebuilder:object:root=true
type VirtualMCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMCPServer `json:"items"`
}
