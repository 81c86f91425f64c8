package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NameRef refers to a resource of the same namespace.
type NameRef struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// AuthServerRef refers to the resource with the authorization server that signs in clients.
type AuthServerRef struct {
	// +kubebuilder:validation:Enum=MCPExternalAuthConfig
	// +kubebuilder:default=MCPExternalAuthConfig
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// OIDCConfigRef refers to an MCPOIDCConfig, with what is of this server alone.
type OIDCConfigRef struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Audience must be among aud of a token.
	// +kubebuilder:validation:MinLength=1
	Audience string `json:"audience"`
	// Scopes are advertised to clients (RFC 9728). They are not required of a token.
	// +kubebuilder:validation:items:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	Scopes []string `json:"scopes,omitempty"`
	// ResourceURL is the URL at which clients reach the server; by default that of each
	// request.
	ResourceURL string `json:"resourceUrl,omitempty"`
}

// TelemetryConfigRef refers to an MCPTelemetryConfig.
type TelemetryConfigRef struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// ServiceName is service.name of the measurements; by default the name of this resource.
	// +kubebuilder:validation:MaxLength=256
	ServiceName string `json:"serviceName,omitempty"`
}

// ConfigMapKey selects a key of a ConfigMap.
type ConfigMapKey struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// CABundleRef is where PEM certificates of authorities are, which are trusted beside the
// system's.
type CABundleRef struct {
	ConfigMapRef *ConfigMapKey `json:"configMapRef"`
}

// AuthzConfig are the policies that authorize requests.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'configMap') == has(self.configMap)",message="configMap is required when type is configMap, and must be absent otherwise"
// +kubebuilder:validation:XValidation:rule="(self.type == 'inline') == has(self.inline)",message="inline is required when type is inline, and must be absent otherwise"
type AuthzConfig struct {
	// +kubebuilder:validation:Enum=configMap;inline
	// +kubebuilder:default=configMap
	Type      string          `json:"type,omitempty"`
	ConfigMap *AuthzConfigMap `json:"configMap,omitempty"`
	Inline    *InlineAuthz    `json:"inline,omitempty"`
	// GroupClaimName and RoleClaimName name claims whose values are groups of the caller.
	// +kubebuilder:validation:MaxLength=253
	GroupClaimName string `json:"groupClaimName,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	RoleClaimName string `json:"roleClaimName,omitempty"`
	// GroupEntityType is the type of groups in the policies; by default THVGroup.
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=63
	GroupEntityType string `json:"groupEntityType,omitempty"`
}

// Values of AuthzConfig.Type.
const (
	AuthzConfigMapType = "configMap"
	AuthzInlineType    = "inline"
)

// AuthzConfigMap is a ConfigMap with an authorization file, as --authz-config of `thv run`
// reads it.
type AuthzConfigMap struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:default=authz.json
	Key string `json:"key,omitempty"`
}

// InlineAuthz are Cedar policies.
type InlineAuthz struct {
	// Policies are texts of one or more Cedar policies each.
	// +kubebuilder:validation:MinItems=1
	Policies []string `json:"policies"`
	// EntitiesJSON is a JSON array of entities in Cedar's format.
	// +kubebuilder:default="[]"
	EntitiesJSON string `json:"entitiesJson,omitempty"`
}

// Audit is the recording of requests.
type Audit struct {
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
}

// EnvVar is an environment variable with a plain value.
type EnvVar struct {
	// +kubebuilder:validation:MinLength=1
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Resources are requests and limits of a container.
type Resources struct {
	Limits   ResourceList `json:"limits,omitzero"`
	Requests ResourceList `json:"requests,omitzero"`
}

// ResourceList are quantities, such as 500m and 256Mi.
type ResourceList struct {
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// Core returns r as the type of a container.
func (r *Resources) Core() corev1.ResourceRequirements {
	if r == nil {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Limits: r.Limits.core(), Requests: r.Requests.core()}
}

func (l ResourceList) core() corev1.ResourceList {
	var list corev1.ResourceList
	set := func(name corev1.ResourceName, q *resource.Quantity) {
		if q == nil {
			return
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = q.DeepCopy()
	}
	set(corev1.ResourceCPU, l.CPU)
	set(corev1.ResourceMemory, l.Memory)
	return list
}

// ResourceOverrides add to the objects that are made for a server.
type ResourceOverrides struct {
	ProxyDeployment *DeploymentOverrides `json:"proxyDeployment,omitempty"`
	ProxyService    *MetadataOverrides   `json:"proxyService,omitempty"`
}

// MetadataOverrides are labels and annotations beside ours, which prevail.
type MetadataOverrides struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DeploymentOverrides add to a Deployment.
type DeploymentOverrides struct {
	MetadataOverrides `json:",inline"`
	// PodTemplateMetadataOverrides are those of its pods.
	PodTemplateMetadataOverrides *MetadataOverrides `json:"podTemplateMetadataOverrides,omitempty"`
	// ImagePullSecrets are for the images of its pods.
	ImagePullSecrets []NameRef `json:"imagePullSecrets,omitempty"`
}

// HeaderForward are headers of requests to a remote server.
type HeaderForward struct {
	AddPlaintextHeaders map[string]string `json:"addPlaintextHeaders,omitempty"`
	// +listType=map
	// +listMapKey=headerName
	AddHeadersFromSecret []SecretHeader `json:"addHeadersFromSecret,omitempty"`
}

// SecretHeader is a header whose value is a key of a Secret.
type SecretHeader struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	HeaderName     string     `json:"headerName"`
	ValueSecretRef *SecretRef `json:"valueSecretRef"`
}

// Referrer is a workload that refers to a configuration.
type Referrer struct {
	// +kubebuilder:validation:Enum=MCPServer;VirtualMCPServer;MCPRemoteProxy;MCPServerEntry
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// ConfigStatus is the status of a configuration that workloads refer to.
type ConfigStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ConfigHash is the SHA-256 hash of the spec, in hexadecimal.
	ConfigHash string `json:"configHash,omitempty"`
	// ObservedGeneration is the latest generation that was looked at, also an invalid one.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReferencingWorkloads are sorted by kind and name.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	ReferencingWorkloads []Referrer `json:"referencingWorkloads,omitempty"`
	// +optional
	ReferenceCount int32 `json:"referenceCount"`
}

// WorkloadStatus is the status of a server that runs.
type WorkloadStatus struct {
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +kubebuilder:validation:Enum=Pending;Ready;Failed;Terminating;Stopped
	Phase Phase `json:"phase,omitempty"`
	// URL is where clients inside the cluster reach the server.
	URL string `json:"url,omitempty"`
	// Message is that of the condition Ready.
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the latest generation that was looked at, also an invalid one.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32 `json:"readyReplicas,omitempty"`
	// The hashes are those of the configurations that the server runs with.
	ExternalAuthConfigHash string `json:"externalAuthConfigHash,omitempty"`
	AuthServerConfigHash   string `json:"authServerConfigHash,omitempty"`
	OIDCConfigHash         string `json:"oidcConfigHash,omitempty"`
	AuthzConfigHash        string `json:"authzConfigHash,omitempty"`
	ToolConfigHash         string `json:"toolConfigHash,omitempty"`
	TelemetryConfigHash    string `json:"telemetryConfigHash,omitempty"`
	WebhookConfigHash      string `json:"webhookConfigHash,omitempty"`
}

// Phase is the state of a resource in one word, for people.
type Phase string

// The phases. Not every kind has each.
const (
	PhasePending     Phase = "Pending"
	PhaseReady       Phase = "Ready"
	PhaseValid       Phase = "Valid"
	PhaseDegraded    Phase = "Degraded"
	PhaseFailed      Phase = "Failed"
	PhaseTerminating Phase = "Terminating"
	PhaseStopped     Phase = "Stopped"
)

// Types of conditions.
const (
	// ConditionReady of a workload: clients can use it.
	ConditionReady = "Ready"
	// ConditionValid: the spec is valid.
	ConditionValid = "Valid"
	// ConditionAuthReady of a workload: what it refers to for authentication is there, and
	// of a type that it can use.
	ConditionAuthReady = "AuthReady"
	// ConditionReferencesReady of a workload: every other resource that it refers to is there.
	ConditionReferencesReady = "ReferencesReady"
	// ConditionPodTemplateValid of a workload: podTemplateSpec could be merged.
	ConditionPodTemplateValid = "PodTemplateValid"
	// ConditionDeletionBlocked of a configuration: workloads refer to it.
	ConditionDeletionBlocked = "DeletionBlocked"
	// ConditionIdentitySynthesized of an MCPExternalAuthConfig: an upstream provider does not
	// identify persons.
	ConditionIdentitySynthesized = "IdentitySynthesized"
)
