// Package render makes the Kubernetes objects of one workload.
//
// [Objects] is a pure function: the same [Workload] gives the same objects, byte for byte. A
// workload is one Deployment whose pods have a gateway and, unless the server runs
// elsewhere, the server beside it; a ConfigMap with the gateway's run configuration
// (workload.Spec); a Service; a ServiceAccount without rights; a NetworkPolicy; and, with
// several replicas, a PodDisruptionBudget. Every object is owned by the resource that
// declares the workload, so that the API server deletes them with it.
//
// A pod is hardened (Pod Security Standards, level "restricted"): it runs as a user other
// than root, with a read-only root file system, no capabilities and the runtime's default
// seccomp profile, and without a token of its ServiceAccount. A podTemplateSpec is merged
// into it. One that undoes the hardening is refused with [Faults].
package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// Labels of every object of a workload.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelApp       = "app.kubernetes.io/name"
	LabelWorkload  = "toolhaven.dev/workload" // the resource's name
	LabelKind      = "toolhaven.dev/kind"     // the resource's kind

	// Manager is the value of LabelManagedBy.
	Manager = "thv-operator"
)

// AnnotationConfigHash is the SHA-256 of the run configuration, on the pods: a changed
// configuration starts new ones.
const AnnotationConfigHash = "toolhaven.dev/config-hash"

// Ports of a pod beside that of the workload's Spec.
const (
	// PeerPort is where the gateways of one workload pass requests on to each other.
	PeerPort = 8081
	// ServerPort is the default port of an HTTP server in its container.
	ServerPort = 8080
)

// Names of the containers.
const (
	GatewayContainer = "gateway"
	ServerContainer  = "mcp"
	guestContainer   = "guest"
	programContainer = "program"
)

// Paths in the gateway's container.
const (
	ConfigPath    = "/etc/thv/config/workload.json"
	SecretsDir    = "/etc/thv/secrets"
	ConfigMapsDir = "/etc/thv/configmaps"
	// ClusterToken and ClusterCA authenticate at, and verify, the cluster's API server.
	ClusterToken = clusterDir + "/token"
	ClusterCA    = clusterDir + "/ca.crt"

	clusterDir = "/var/run/thv/cluster"
	keyPath    = "/etc/thv/key/key"
	pullDir    = "/etc/thv/pull"
	socketPath = "/run/thv/line.sock"
)

// VolumePrefix begins the names of volumes of the node, so that they are none of ours.
const VolumePrefix = "host-"

// ConfigKey is the key of the run configuration in its ConfigMap, and KeyKey that of the
// sealing key in its Secret.
const (
	ConfigKey = "workload.json"
	KeyKey    = "key"
)

// maxConfig bounds the run configuration, in bytes: a ConfigMap has at most 1 MiB (Kubernetes,
// core/v1 ConfigMap), with its keys.
const maxConfig = 1<<20 - 1<<10

// Workload is what the objects are made from. Names and namespaces are those of the
// resource that declares it.
type Workload struct {
	Owner           metav1.OwnerReference
	Name, Namespace string

	// Spec is the gateway's run configuration, complete and valid.
	Spec *workload.Spec
	// Server is the server in the pod; nil for a remote one.
	Server *Server

	// GatewayImage has thv and thv-guest.
	GatewayImage string
	// ServicePort is the port of the Service.
	ServicePort int32
	// Replicas is the number of pods; nil leaves the number as it is in the cluster, for an
	// autoscaler.
	Replicas *int32
	// SessionAffinity of the Service; "" is None. Replicas need none.
	SessionAffinity corev1.ServiceAffinity
	// ServiceAccount is the name of an account that exists; "" makes one without rights.
	ServiceAccount string

	// Secrets and ConfigMaps are mounted into the gateway: keys by name.
	Secrets, ConfigMaps map[string][]string

	// NoEgress forbids every connection of the pod to others but its own peers.
	NoEgress bool
	// ClusterAuth gives the gateway a token of its ServiceAccount, and the cluster's
	// authority, to read the keys of the cluster's issuer.
	ClusterAuth bool

	// GatewayEnv are variables of the gateway, and GatewayResources its requests and limits;
	// zero values take the defaults.
	GatewayEnv       []corev1.EnvVar
	GatewayResources corev1.ResourceRequirements
	ImagePullSecrets []corev1.LocalObjectReference

	// Template is the user's podTemplateSpec, which is merged into ours; nil for none.
	Template *runtime.RawExtension

	DeploymentMeta, PodMeta, ServiceMeta Metadata
}

// Metadata are labels and annotations that the user adds. Ours prevail.
type Metadata struct{ Labels, Annotations map[string]string }

// Server is the container of an MCP server.
type Server struct {
	Image string
	// EntryPoint is the program with its first arguments: a stdio server is started by the
	// guest, which needs it. Empty for an HTTP server runs the image's own; empty for a stdio
	// server is found in the pod, with its pull secrets.
	EntryPoint []string
	Args       []string
	Env        []corev1.EnvVar
	Resources  corev1.ResourceRequirements
	Volumes    []corev1.Volume
	Mounts     []corev1.VolumeMount
}

// Fault is a field of the resource that cannot be rendered, and why.
type Fault struct{ Field, Message string }

// Error is the field and the message.
func (f Fault) Error() string { return f.Field + ": " + f.Message }

// Faults are all of them.
type Faults []Fault

// Error has a line for each.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Objects returns the workload's objects in the order in which they are made. The error is
// [Faults].
func Objects(w *Workload) ([]client.Object, error) {
	if faults := w.faults(); len(faults) > 0 {
		return nil, faults
	}
	config, err := w.config()
	if err != nil {
		return nil, err
	}
	if n := len(config.Data[ConfigKey]); n > maxConfig {
		return nil, Faults{{"spec", fmt.Sprintf("the run configuration has %d bytes, with what is taken over from the resources that this one refers to; a ConfigMap can have %d: make policies or descriptions of tools shorter", n, maxConfig)}}
	}
	deployment, faults := w.deployment(hash(config.Data[ConfigKey]))
	if len(faults) > 0 {
		return nil, faults
	}
	objects := []client.Object{config}
	if w.ServiceAccount == "" {
		objects = append(objects, w.serviceAccount())
	}
	objects = append(objects, w.networkPolicy(), deployment, w.service())
	if w.Replicas != nil && *w.Replicas > 1 {
		objects = append(objects, w.disruptionBudget())
	}
	return objects, nil
}

// faults are those of the names and ports.
func (w *Workload) faults() Faults {
	var faults Faults
	if errs := validation.IsDNS1035Label(w.serviceName()); len(errs) > 0 {
		faults = append(faults, Fault{"metadata.name", fmt.Sprintf("the Service %q cannot be made: choose a name of at most %d lower-case letters, digits and dashes", w.serviceName(), validation.DNS1035LabelMaxLength-len(w.serviceName())+len(w.Name))})
	}
	if w.Server != nil && w.Spec.TargetPort == PeerPort {
		faults = append(faults, Fault{"spec.mcpPort", fmt.Sprintf("port %d is the gateway's own; choose another one", PeerPort)})
	}
	if w.stdio() && len(w.Server.EntryPoint) == 0 {
		switch {
		case len(w.ImagePullSecrets) == 0:
			faults = append(faults, Fault{"spec.command", "the program of a stdio server is not known; give spec.command"})
		case w.NoEgress:
			faults = append(faults, Fault{"spec.command", "with pull secrets the pod itself reads the program from the image's registry, and the profile none lets it connect nowhere; give spec.command"})
		}
	}
	return append(faults, w.nameFaults()...)
}

// GatewayPort is the port on which the gateway of a pod listens when the Service has that
// port and the server listens on target; 0 is no server. A port that only root may listen
// on, or that is taken, is not used.
func GatewayPort(service, target int32) int32 {
	for _, port := range []int32{service, 8080, 8082, 8083} {
		if port >= 1024 && port != target && port != PeerPort {
			return port
		}
	}
	return 8084 // not reached: at most two of four are taken
}

// ServiceName is the name of the Service of a resource.
func ServiceName(kind, name string) string {
	if kind == "MCPRemoteProxy" {
		return "mcp-" + name + "-remote-proxy"
	}
	return "mcp-" + name + "-proxy"
}

// KeyName is the name of the Secret with the key that the replicas share.
func KeyName(kind, name string) string { return ServiceName(kind, name) + "-key" }

func (w *Workload) serviceName() string { return ServiceName(w.Owner.Kind, w.Name) }

// ServiceHosts are the names of a Service inside a cluster.
func ServiceHosts(service, namespace string) []string {
	return []string{
		service, service + "." + namespace, service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local",
	}
}

// Selector selects the pods of a workload.
func Selector(kind, name string) map[string]string {
	return map[string]string{LabelWorkload: name, LabelKind: kind}
}

func (w *Workload) selector() map[string]string { return Selector(w.Owner.Kind, w.Name) }

// meta is the metadata of an object with more of the user's.
func (w *Workload) meta(name string, more Metadata) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: name, Namespace: w.Namespace,
		Labels:      joined(more.Labels, w.selector(), map[string]string{LabelManagedBy: Manager, LabelApp: "thv-gateway"}),
		Annotations: joined(more.Annotations),
	}
	if w.Owner.UID != "" {
		m.OwnerReferences = []metav1.OwnerReference{w.Owner}
	}
	return m
}

// joined joins maps, later ones prevail; nil when it is empty.
func joined(maps ...map[string]string) map[string]string {
	var all map[string]string
	for _, m := range maps {
		for k, v := range m {
			if all == nil {
				all = map[string]string{}
			}
			all[k] = v
		}
	}
	return all
}

func (w *Workload) config() (*corev1.ConfigMap, error) {
	content, err := json.MarshalIndent(w.Spec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the run configuration: %w", err)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: w.meta(w.serviceName()+"-config", Metadata{}),
		Data:       map[string]string{ConfigKey: string(content)},
	}, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
