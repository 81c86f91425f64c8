package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPGroupSpec is a group of servers.
type MCPGroupSpec struct {
	Description string `json:"description,omitempty"`
}

// MCPGroupStatus are the members of a group.
type MCPGroupStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +kubebuilder:validation:Enum=Ready;Pending;Failed
	Phase              Phase `json:"phase,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Servers, RemoteProxies and Entries are names, sorted.
	// +listType=set
	Servers     []string `json:"servers,omitempty"`
	ServerCount int32    `json:"serverCount,omitempty"`
	// +listType=set
	RemoteProxies    []string `json:"remoteProxies,omitempty"`
	RemoteProxyCount int32    `json:"remoteProxyCount,omitempty"`
	// +listType=set
	Entries    []string `json:"entries,omitempty"`
	EntryCount int32    `json:"entryCount,omitempty"`
}

// MCPGroup is a group of servers.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcpg;mcpgroup,categories=toolhaven
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Servers",type=integer,JSONPath=`.status.serverCount`
// +kubebuilder:printcolumn:name="Remote proxies",type=integer,JSONPath=`.status.remoteProxyCount`
// +kubebuilder:printcolumn:name="Entries",type=integer,JSONPath=`.status.entryCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPGroupSpec   `json:"spec,omitzero"`
	Status MCPGroupStatus `json:"status,omitzero"`
}

// MCPGroupList is a list.
//
// +kubebuilder:object:root=true
type MCPGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPGroup `json:"items"`
}
