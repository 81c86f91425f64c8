package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPRemoteProxySpec is a gateway before a tool server that runs elsewhere.
//
// +kubebuilder:validation:XValidation:rule="!has(self.authzConfig) || !has(self.authzConfigRef)",message="authzConfig and authzConfigRef exclude each other"
type MCPRemoteProxySpec struct {
	RemoteServer `json:",inline"`
	// Transport is the server's.
	// +kubebuilder:validation:Enum=sse;streamable-http
	// +kubebuilder:default=streamable-http
	Transport string `json:"transport,omitempty"`
	// WebhookConfigRef refers to an MCPWebhookConfig.
	WebhookConfigRef *NameRef `json:"webhookConfigRef,omitempty"`

	ProxySpec `json:",inline"`
}

// RemoteServer is a server that runs elsewhere.
type RemoteServer struct {
	// RemoteURL is the URL of its MCP endpoint.
	// +kubebuilder:validation:Pattern=`^https?://`
	RemoteURL string `json:"remoteUrl"`
	// AllowPrivateEndpoint permits private addresses, and names of this cluster.
	// +kubebuilder:default=false
	AllowPrivateEndpoint bool `json:"allowPrivateEndpoint,omitempty"`
	// HeaderForward are headers that every request gets.
	HeaderForward *HeaderForward `json:"headerForward,omitempty"`
}

// MCPRemoteProxy is a gateway before a tool server that runs elsewhere.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rp;mcprp,categories=toolhaven
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Remote URL",type=string,JSONPath=`.spec.remoteUrl`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPRemoteProxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPRemoteProxySpec `json:"spec"`
	Status WorkloadStatus     `json:"status,omitzero"`
}

// MCPRemoteProxyList is a list.
//
// +kubebuilder:object:root=true
type MCPRemoteProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPRemoteProxy `json:"items"`
}

// MCPServerEntrySpec is a remote server in the catalog of a group. Nothing runs for it.
type MCPServerEntrySpec struct {
	RemoteServer `json:",inline"`
	// Transport is the server's.
	// +kubebuilder:validation:Enum=sse;streamable-http
	Transport string `json:"transport"`
	// GroupRef refers to an MCPGroup.
	GroupRef *NameRef `json:"groupRef"`
	// ExternalAuthConfigRef refers to an MCPExternalAuthConfig: how a gateway authenticates
	// at the server.
	ExternalAuthConfigRef *NameRef     `json:"externalAuthConfigRef,omitempty"`
	CABundleRef           *CABundleRef `json:"caBundleRef,omitempty"`
}

// MCPServerEntryStatus is the status of an entry.
type MCPServerEntryStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +kubebuilder:validation:Enum=Valid;Pending;Failed
	Phase              Phase `json:"phase,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MCPServerEntry is a remote server in the catalog of a group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcpentry,categories=toolhaven
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Remote URL",type=string,JSONPath=`.spec.remoteUrl`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.groupRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPServerEntry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPServerEntrySpec   `json:"spec"`
	Status MCPServerEntryStatus `json:"status,omitzero"`
}

// MCPServerEntryList is a list.
//
// +kubebuilder:object:root=true
type MCPServerEntryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPServerEntry `json:"items"`
}
