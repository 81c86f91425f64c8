package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPOIDCConfigSpec is who issues the tokens of clients.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'inline') == has(self.inline)",message="inline is required when type is inline, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="self.type == 'kubernetesServiceAccount' || !has(self.kubernetesServiceAccount)",message="kubernetesServiceAccount must be absent when type is inline"
type MCPOIDCConfigSpec struct {
	// +kubebuilder:validation:Enum=kubernetesServiceAccount;inline
	Type                     string              `json:"type"`
	KubernetesServiceAccount *ServiceAccountOIDC `json:"kubernetesServiceAccount,omitempty"`
	Inline                   *InlineOIDC         `json:"inline,omitempty"`
}

// Values of MCPOIDCConfigSpec.Type.
const (
	OIDCServiceAccountType = "kubernetesServiceAccount"
	OIDCInlineType         = "inline"
)

// ServiceAccountOIDC accepts tokens of service accounts of this cluster.
type ServiceAccountOIDC struct {
	// +kubebuilder:default="https://kubernetes.default.svc"
	Issuer string `json:"issuer,omitempty"`
	// JWKSURL is where the issuer's keys are; found by discovery.
	JWKSURL string `json:"jwksUrl,omitempty"`
	// IntrospectionURL accepts opaque tokens (RFC 7662).
	IntrospectionURL string `json:"introspectionUrl,omitempty"`
	// UseClusterAuth verifies the API server by the cluster's authority, and authenticates
	// there by a token of the pod; true by default.
	UseClusterAuth *bool `json:"useClusterAuth,omitempty"`
}

// DefaultServiceAccountIssuer is the issuer of a cluster that has no other one.
const DefaultServiceAccountIssuer = "https://kubernetes.default.svc"

// InlineOIDC is any issuer.
type InlineOIDC struct {
	// +kubebuilder:validation:Pattern=`^https?://`
	Issuer string `json:"issuer"`
	// JWKSURL is where the issuer's keys are; found by discovery.
	JWKSURL string `json:"jwksUrl,omitempty"`
	// IntrospectionURL accepts opaque tokens (RFC 7662). ClientID and ClientSecretRef
	// authenticate there.
	IntrospectionURL string     `json:"introspectionUrl,omitempty"`
	ClientID         string     `json:"clientId,omitempty"`
	ClientSecretRef  *SecretRef `json:"clientSecretRef,omitempty"`
	// CABundleRef has authorities for requests to the issuer.
	CABundleRef *CABundleRef `json:"caBundleRef,omitempty"`
	// JWKSAllowPrivateIP permits private addresses of the issuer.
	// +kubebuilder:default=false
	JWKSAllowPrivateIP bool `json:"jwksAllowPrivateIP,omitempty"`
	// InsecureAllowHTTP permits an issuer at http://.
	// +kubebuilder:default=false
	InsecureAllowHTTP bool `json:"insecureAllowHTTP,omitempty"`
}

// MCPOIDCConfig is who issues the tokens of clients.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcpoidc,categories=toolhaven
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="References",type=integer,JSONPath=`.status.referenceCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPOIDCConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPOIDCConfigSpec `json:"spec"`
	Status ConfigStatus      `json:"status,omitzero"`
}

// MCPOIDCConfigList is a list.
//
// +kubebuilder:object:root=true
type MCPOIDCConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPOIDCConfig `json:"items"`
}
