package render

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/toolhaven/toolhaven/internal/workload"
)

// user is the user and group of every process of a pod, by default.
const user = 65532

// grace is how long a pod may take to end, in seconds: its gateway lets requests finish for
// 30 s, after 5 s in which clients learn that it is going.
const grace = 60

// lastCalls is how long a server that serves HTTP runs on in a pod that ends, in seconds: its
// gateway sends it requests for 5 s.
const lastCalls = 10

// guestDrain is how long a guest runs on in a pod that ends, at most: it ends with its gateway.
const guestDrain = "40s"

func (w *Workload) deployment(configHash string) (*appsv1.Deployment, Faults) {
	template, faults := w.merge(w.podTemplate(configHash))
	if len(faults) > 0 {
		return nil, faults
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: w.meta(w.Name, w.DeploymentMeta),
		Spec: appsv1.DeploymentSpec{
			Replicas: w.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: w.selector()},
			// A new pod answers before an old one ends.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1)),
			}},
			RevisionHistoryLimit: ptr.To[int32](3),
			Template:             *template,
		},
	}, nil
}

func (w *Workload) podTemplate(configHash string) *corev1.PodTemplateSpec {
	account := w.ServiceAccount
	if account == "" {
		account = w.serviceName()
	}
	t := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      joined(w.PodMeta.Labels, w.selector(), map[string]string{LabelManagedBy: Manager, LabelApp: "thv-gateway"}),
			Annotations: joined(w.PodMeta.Annotations, map[string]string{AnnotationConfigHash: configHash}),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](grace),
			ImagePullSecrets:              w.ImagePullSecrets,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](user), RunAsGroup: ptr.To[int64](user), FSGroup: ptr.To[int64](user),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{w.gateway()},
			Volumes:    w.volumes(),
		},
	}
	if w.Server == nil {
		return t
	}
	t.Spec.Containers = append(t.Spec.Containers, w.server())
	if w.stdio() {
		t.Spec.InitContainers = []corev1.Container{{
			Name: guestContainer, Image: w.GatewayImage, Command: []string{"/thv-guest", "install", "/thv/guest"},
			SecurityContext: hardened(), Resources: resources("10m", "16Mi", "64Mi"),
			VolumeMounts: []corev1.VolumeMount{{Name: "guest", MountPath: "/thv"}},
		}}
	}
	if w.findsProgram() {
		t.Spec.InitContainers = append(t.Spec.InitContainers, w.program())
	}
	return t
}

// findsProgram reports whether the pod reads its program from the registry of the image: the
// operator has no passwords of registries.
func (w *Workload) findsProgram() bool {
	return w.stdio() && len(w.Server.EntryPoint) == 0 && len(w.ImagePullSecrets) > 0
}

// program is the container that does so. It alone has the pull secrets.
func (w *Workload) program() corev1.Container {
	args := []string{"gateway", "entry-point", "--image", w.Server.Image, "--pull-secrets", pullDir, "--to", "/thv/program"}
	if len(w.Server.Args) > 0 {
		args = append(args, "--with-arguments")
	}
	mounts := []corev1.VolumeMount{{Name: "guest", MountPath: "/thv"}}
	for _, s := range w.ImagePullSecrets {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName("pull", s.Name), MountPath: pullDir + "/" + s.Name, ReadOnly: true})
	}
	if rest, ok := strings.CutPrefix(w.Spec.CABundle, ConfigMapsDir+"/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		args = append(args, "--ca-file", w.Spec.CABundle)
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName("configmap", name), MountPath: ConfigMapsDir + "/" + name, ReadOnly: true})
	}
	return corev1.Container{
		Name: programContainer, Image: w.GatewayImage, Args: args, Env: []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}},
		SecurityContext: hardened(), Resources: resources("10m", "32Mi", "256Mi"), VolumeMounts: mounts,
	}
}

func (w *Workload) stdio() bool { return w.Server != nil && w.Spec.Transport == workload.Stdio }

func (w *Workload) gateway() corev1.Container {
	args := []string{"gateway", "--config", ConfigPath, "--secrets-dir", SecretsDir, "--key", keyPath}
	mounts := []corev1.VolumeMount{
		{Name: "config", MountPath: "/etc/thv/config", ReadOnly: true},
		{Name: "key", MountPath: "/etc/thv/key", ReadOnly: true},
		{Name: "tmp", MountPath: "/tmp"},
	}
	for _, name := range slices.Sorted(maps.Keys(w.Secrets)) {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName("secret", name), MountPath: SecretsDir + "/" + name, ReadOnly: true})
	}
	for _, name := range slices.Sorted(maps.Keys(w.ConfigMaps)) {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeName("configmap", name), MountPath: ConfigMapsDir + "/" + name, ReadOnly: true})
	}
	if w.ClusterAuth {
		mounts = append(mounts, corev1.VolumeMount{Name: "cluster", MountPath: clusterDir, ReadOnly: true})
	}
	if w.stdio() {
		args = append(args, "--guest-socket", socketPath)
		mounts = append(mounts, corev1.VolumeMount{Name: "run", MountPath: "/run/thv"})
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	env := append([]corev1.EnvVar{{Name: "HOME", Value: "/tmp"}, field("POD_IP", "status.podIP"), field("POD_NAME", "metadata.name")}, w.GatewayEnv...)
	res := w.GatewayResources
	if len(res.Limits)+len(res.Requests) == 0 {
		res = resources("50m", "64Mi", "512Mi")
	}
	return corev1.Container{
		Name: GatewayContainer, Image: w.GatewayImage, Args: args, Env: env, Resources: res, SecurityContext: hardened(), VolumeMounts: mounts,
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: w.gatewayPort(), Protocol: corev1.ProtocolTCP},
			{Name: "peer", ContainerPort: PeerPort, Protocol: corev1.ProtocolTCP},
		},
		// A server may take minutes to start; its gateway is alive at once.
		LivenessProbe:  probe("/health", 10, 5, 3),
		ReadinessProbe: probe("/readiness", 2, 3, 3),
		StartupProbe:   probe("/health", 1, 3, 60),
	}
}

func probe(path string, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures,
	}
}

// server is the container of the server. That of a stdio server runs the guest, which starts
// the server's program for each session and connects it to the gateway by a socket.
func (w *Workload) server() corev1.Container {
	s := w.Server
	c := corev1.Container{
		Name: ServerContainer, Image: s.Image, Command: s.EntryPoint, Args: s.Args, Resources: s.Resources, SecurityContext: hardened(),
		Env:          w.serverEnv(),
		VolumeMounts: append([]corev1.VolumeMount{{Name: "tmp-server", MountPath: "/tmp"}}, s.Mounts...),
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) == 0 {
		c.Resources = resources("50m", "128Mi", "2Gi")
	}
	if w.stdio() {
		guest := []string{"/thv/guest", "serve", "--socket", socketPath, "--drain", guestDrain}
		if w.findsProgram() {
			guest = append(guest, "--program", "/thv/program")
		}
		c.Command = slices.Concat(guest, []string{"--"}, s.EntryPoint, s.Args)
		c.Args = nil
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: "guest", MountPath: "/thv", ReadOnly: true},
			// Not below /thv: in a volume that is read-only no runtime can make the mount point.
			corev1.VolumeMount{Name: "run", MountPath: path.Dir(socketPath)})
	} else {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: lastCalls}}}
	}
	return c
}

// serverEnv is the server's environment. The usual variables of MCP servers come first, and
// those of the resource replace them.
func (w *Workload) serverEnv() []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}, {Name: "MCP_TRANSPORT", Value: string(w.Spec.Transport)}}
	if !w.stdio() {
		port := strconv.Itoa(w.Spec.TargetPort)
		for _, name := range []string{"MCP_PORT", "FASTMCP_PORT"} {
			env = append(env, corev1.EnvVar{Name: name, Value: port})
		}
		for _, name := range []string{"MCP_HOST", "FASTMCP_HOST"} {
			env = append(env, corev1.EnvVar{Name: name, Value: w.Spec.TargetHost})
		}
	}
	env = slices.DeleteFunc(env, func(ours corev1.EnvVar) bool {
		return slices.ContainsFunc(w.Server.Env, func(v corev1.EnvVar) bool { return v.Name == ours.Name })
	})
	return append(env, w.Server.Env...)
}

// volumes are those of a pod. Secrets and ConfigMaps are whole directories, so that changes
// arrive in running pods, with the keys that the configuration names. A Secret or key that is
// missing does not keep the pod from starting: its gateway reports it and stays not ready.
func (w *Workload) volumes() []corev1.Volume {
	emptyDir := func(name, size string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(size))}}}
	}
	volumes := []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: w.serviceName() + "-config"}, DefaultMode: ptr.To[int32](0o444),
		}}},
		{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: KeyName(w.Owner.Kind, w.Name), DefaultMode: ptr.To[int32](0o440),
		}}},
		emptyDir("tmp", "256Mi"),
	}
	for _, name := range slices.Sorted(maps.Keys(w.Secrets)) {
		volumes = append(volumes, corev1.Volume{Name: volumeName("secret", name), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: name, Items: items(w.Secrets[name]), DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true),
		}}})
	}
	for _, name := range slices.Sorted(maps.Keys(w.ConfigMaps)) {
		volumes = append(volumes, corev1.Volume{Name: volumeName("configmap", name), VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items(w.ConfigMaps[name]), DefaultMode: ptr.To[int32](0o444), Optional: ptr.To(true),
		}}})
	}
	if w.ClusterAuth {
		volumes = append(volumes, clusterVolume())
	}
	if w.Server == nil {
		return volumes
	}
	volumes = append(volumes, emptyDir("tmp-server", "1Gi"))
	if w.stdio() {
		volumes = append(volumes, emptyDir("guest", "64Mi"), emptyDir("run", "16Mi"))
	}
	if w.findsProgram() {
		for _, s := range w.ImagePullSecrets {
			volumes = append(volumes, corev1.Volume{Name: volumeName("pull", s.Name), VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: s.Name, DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true),
			}}})
		}
	}
	return append(volumes, w.Server.Volumes...)
}

// clusterVolume is what a mounted token of a ServiceAccount is: the kubelet renews it.
func clusterVolume() corev1.Volume {
	return corev1.Volume{Name: "cluster", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o440),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3607)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
		},
	}}}
}

func items(keys []string) []corev1.KeyToPath {
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	paths := make([]corev1.KeyToPath, len(sorted))
	for i, key := range sorted {
		paths[i] = corev1.KeyToPath{Key: key, Path: key}
	}
	return paths
}

// volumeName is short, while the name of a Secret may have 253 characters.
func volumeName(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(sum[:6])
}

func hardened() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// resources are requests of processors and memory, and a limit of memory. Processors are not
// limited: a limit would only make idle processors wait.
func resources(cpu, memory, limit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
	}
}
