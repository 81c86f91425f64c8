package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPToolConfigSpec selects and renames the tools that clients see.
type MCPToolConfigSpec struct {
	// ToolsFilter are the names that clients see, after toolsOverride; empty is all tools.
	// +listType=set
	ToolsFilter []string `json:"toolsFilter,omitempty"`
	// ToolsOverride is by the server's own name of a tool.
	ToolsOverride map[string]ToolOverride `json:"toolsOverride,omitempty"`
}

// ToolOverride replaces what clients see of a tool.
type ToolOverride struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
}

// MCPToolConfig selects and renames the tools that clients see.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tc;toolconfig,categories=toolhaven
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="References",type=integer,JSONPath=`.status.referenceCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPToolConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPToolConfigSpec `json:"spec"`
	Status ConfigStatus      `json:"status,omitzero"`
}

// MCPToolConfigList is a list.
//
// +kubebuilder:object:root=true
type MCPToolConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPToolConfig `json:"items"`
}
