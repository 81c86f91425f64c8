package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPWebhookConfigSpec are webhooks that the gateway calls for each request.
//
// +kubebuilder:validation:XValidation:rule="(has(self.validating) && size(self.validating) > 0) || (has(self.mutating) && size(self.mutating) > 0)",message="at least one of validating and mutating is required"
type MCPWebhookConfigSpec struct {
	// Validating webhooks permit or refuse a request.
	// +listType=map
	// +listMapKey=name
	Validating []Webhook `json:"validating,omitempty"`
	// Mutating webhooks change a request. They are called first, in order.
	// +listType=map
	// +listMapKey=name
	Mutating []Webhook `json:"mutating,omitempty"`
}

// Webhook is one webhook.
type Webhook struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:Pattern=`^https?://`
	URL string `json:"url"`
	// Timeout is 1s to 30s.
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('30s')",message="must be 1s to 30s"
	// +kubebuilder:default="10s"
	Timeout string `json:"timeout,omitempty"`
	// FailurePolicy is what happens to a request when the webhook does not respond as it
	// should.
	// +kubebuilder:validation:Enum=fail;ignore
	// +kubebuilder:default=fail
	FailurePolicy string      `json:"failurePolicy,omitempty"`
	TLSConfig     *WebhookTLS `json:"tlsConfig,omitempty"`
	// HMACSecretRef is the key that signs requests.
	HMACSecretRef *SecretRef `json:"hmacSecretRef,omitempty"`
}

// WebhookTLS is how a webhook's server is verified.
//
// +kubebuilder:validation:XValidation:rule="has(self.clientCertSecretRef) == has(self.clientKeySecretRef)",message="clientCertSecretRef and clientKeySecretRef belong together"
type WebhookTLS struct {
	CASecretRef         *SecretRef `json:"caSecretRef,omitempty"`
	ClientCertSecretRef *SecretRef `json:"clientCertSecretRef,omitempty"`
	ClientKeySecretRef  *SecretRef `json:"clientKeySecretRef,omitempty"`
	// InsecureSkipVerify accepts any certificate, and plain HTTP.
	// +kubebuilder:default=false
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// MCPWebhookConfig are webhooks that the gateway calls for each request.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mwc,categories=toolhaven
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="References",type=integer,JSONPath=`.status.referenceCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPWebhookConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPWebhookConfigSpec `json:"spec"`
	Status ConfigStatus         `json:"status,omitzero"`
}

// MCPWebhookConfigList is a list.
//
// +kubebuilder:object:root=true
type MCPWebhookConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPWebhookConfig `json:"items"`
}
