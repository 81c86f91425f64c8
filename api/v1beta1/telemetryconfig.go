package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPTelemetryConfigSpec is where measurements go.
type MCPTelemetryConfigSpec struct {
	OpenTelemetry *OpenTelemetry `json:"openTelemetry,omitempty"`
	Prometheus    *Prometheus    `json:"prometheus,omitempty"`
}

// OpenTelemetry sends spans and metrics to a collector.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || !self.enabled || (has(self.endpoint) && size(self.endpoint) > 0)",message="endpoint is required when enabled"
type OpenTelemetry struct {
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
	// Endpoint is a URL, or host and port.
	Endpoint string `json:"endpoint,omitempty"`
	// Insecure sends plain HTTP.
	// +kubebuilder:default=false
	Insecure bool `json:"insecure,omitempty"`
	// SensitiveHeaders are sent with every export.
	// +listType=map
	// +listMapKey=name
	SensitiveHeaders []SensitiveHeader `json:"sensitiveHeaders,omitempty"`
	// ResourceAttributes are attributes of the resource.
	ResourceAttributes map[string]string `json:"resourceAttributes,omitempty"`
	Tracing            *Tracing          `json:"tracing,omitempty"`
	Metrics            *Metrics          `json:"metrics,omitempty"`
	CABundleRef        *CABundleRef      `json:"caBundleRef,omitempty"`
	// UseLegacyAttributes adds the earlier names of attributes to spans.
	// +kubebuilder:default=true
	UseLegacyAttributes *bool `json:"useLegacyAttributes,omitempty"`
}

// SensitiveHeader is a header whose value is a key of a Secret.
type SensitiveHeader struct {
	// +kubebuilder:validation:MinLength=1
	Name         string     `json:"name"`
	SecretKeyRef *SecretRef `json:"secretKeyRef"`
}

// Tracing sends spans.
type Tracing struct {
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
	// SamplingRate is the share of traces that are sampled, 0 to 1.
	// +kubebuilder:validation:Pattern=`^(0(\.\d+)?|1(\.0+)?)$`
	// +kubebuilder:default="0.05"
	SamplingRate string `json:"samplingRate,omitempty"`
}

// Metrics sends metrics.
type Metrics struct {
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
}

// Prometheus serves /metrics on the gateway's port.
type Prometheus struct {
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
}

// MCPTelemetryConfig is where measurements go.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mcpotel,categories=toolhaven
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="References",type=integer,JSONPath=`.status.referenceCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MCPTelemetryConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MCPTelemetryConfigSpec `json:"spec"`
	Status ConfigStatus           `json:"status,omitzero"`
}

// MCPTelemetryConfigList is a list.
//
// +kubebuilder:object:root=true
type MCPTelemetryConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPTelemetryConfig `json:"items"`
}
