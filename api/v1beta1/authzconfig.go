package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MCPAuthzConfigSpec are policies that authorize requests.
type MCPAuthzConfigSpec struct {
	// Type is the language of the policies.
	// +kubebuilder:validation:Enum=cedarv1
	Type string `json:"type"`
	// Config are the policies, and what belongs to them: the member cedar of an authorization
	// file of `thv run`.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Config *runtime.RawExtension `json:"config"`
}

// MCPAuthzConfig are policies that authorize requests.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=authzcfg,categories=toolhaven
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="References",type=integer,JSONPath=`.status.referenceCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPAuthzConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPAuthzConfigSpec `json:"spec"`
	Status ConfigStatus       `json:"status,omitzero"`
}

// MCPAuthzConfigList is a list.
//
// +kubebuilder:object:root=true
type MCPAuthzConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPAuthzConfig `json:"items"`
}
