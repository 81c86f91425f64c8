package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	sigsjson "sigs.k8s.io/json"
)

// templateField is the field of the resource that has the user's template.
const templateField = "spec.podTemplateSpec"

// merge merges the user's template into ours as `kubectl patch` does (strategic merge):
// containers, volumes and variables by name. A result that is less protected than ours is
// refused.
func (w *Workload) merge(ours *corev1.PodTemplateSpec) (*corev1.PodTemplateSpec, Faults) {
	if w.Template == nil || len(w.Template.Raw) == 0 {
		return ours, nil
	}
	fault := func(err error) Faults { return Faults{{templateField, err.Error()}} }
	original, err := json.Marshal(ours)
	if err != nil {
		return nil, fault(err)
	}
	// The patch is decoded strictly: a field of the wrong type would fail later, in a
	// message of the API server about an object that the user did not write.
	if err := strict(w.Template.Raw, &corev1.PodTemplateSpec{}); err != nil {
		return nil, fault(err)
	}
	result, err := strategicpatch.StrategicMergePatch(original, w.Template.Raw, &corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fault(err)
	}
	merged := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(result, merged); err != nil {
		return nil, fault(err)
	}
	for _, containers := range [][]corev1.Container{merged.Spec.InitContainers, merged.Spec.Containers} {
		for i := range containers {
			harden(&containers[i])
		}
	}
	faults := undone(ours, merged)
	faults = append(faults, missing(ours, merged)...)
	return merged, faults
}

// strict decodes a template. Directives of the merge ("$patch", "$setElementOrder/...") are
// refused as unknown fields: with them, containers could be taken away.
func strict(raw []byte, into any) error {
	errs, err := sigsjson.UnmarshalStrict(raw, into)
	if err != nil {
		return fmt.Errorf("it is not a pod template: %w", err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("it is not a pod template: %w", errs[0])
	}
	return nil
}

// harden sets what a container of the user does not set.
func harden(c *corev1.Container) {
	safe := hardened()
	if c.SecurityContext == nil {
		c.SecurityContext = safe
		return
	}
	s := c.SecurityContext
	s.AllowPrivilegeEscalation = or(s.AllowPrivilegeEscalation, safe.AllowPrivilegeEscalation)
	s.ReadOnlyRootFilesystem = or(s.ReadOnlyRootFilesystem, safe.ReadOnlyRootFilesystem)
	s.RunAsNonRoot = or(s.RunAsNonRoot, safe.RunAsNonRoot)
	if s.Capabilities == nil {
		s.Capabilities = safe.Capabilities
	} else if len(s.Capabilities.Drop) == 0 {
		s.Capabilities.Drop = safe.Capabilities.Drop
	}
}

func or[T any](value, byDefault *T) *T {
	if value != nil {
		return value
	}
	return byDefault
}

// undone lists the fields of a template that take hardening away (Pod Security Standards,
// level restricted, and the read-only root file system).
func undone(ours, t *corev1.PodTemplateSpec) Faults {
	var faults Faults
	refuse := func(bad bool, field, message string, args ...any) {
		if bad {
			faults = append(faults, Fault{templateField + ".spec." + field, fmt.Sprintf(message, args...)})
		}
	}
	s := &t.Spec
	refuse(s.HostNetwork, "hostNetwork", "a pod of a tool server has a network of its own; remove it")
	refuse(s.HostPID, "hostPID", "a pod of a tool server does not see the processes of its node; remove it")
	refuse(s.HostIPC, "hostIPC", "a pod of a tool server does not share memory with its node; remove it")
	refuse(ptr.Deref(s.ShareProcessNamespace, false), "shareProcessNamespace", "the server must not see the processes of its gateway; remove it")
	refuse(ptr.Deref(s.AutomountServiceAccountToken, true), "automountServiceAccountToken", "pods of tool servers have no token of the cluster; remove it")
	if p := s.SecurityContext; p == nil {
		refuse(true, "securityContext", "it is missing; a pod of a tool server is hardened")
	} else {
		refuse(!ptr.Deref(p.RunAsNonRoot, false), "securityContext.runAsNonRoot", "tool servers do not run as root; remove it")
		refuse(ptr.Deref(p.RunAsUser, user) == 0, "securityContext.runAsUser", "tool servers do not run as root; choose another user")
		refuse(!seccomp(p.SeccompProfile), "securityContext.seccompProfile", "choose RuntimeDefault or Localhost")
		refuse(p.AppArmorProfile != nil && p.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, "securityContext.appArmorProfile", "Unconfined is not allowed; remove it")
		refuse(len(p.Sysctls) > 0, "securityContext.sysctls", "the kernel's settings are not those of a tool server; remove them")
	}
	for i := range s.Volumes {
		own := slices.ContainsFunc(ours.Spec.Volumes, func(v corev1.Volume) bool { return reflect.DeepEqual(v, s.Volumes[i]) })
		refuse(s.Volumes[i].HostPath != nil && !own, "volumes["+s.Volumes[i].Name+"].hostPath", "use spec.volumes for a path of the node, or another kind of volume")
	}
	for kind, containers := range map[string][]corev1.Container{"initContainers": s.InitContainers, "containers": s.Containers} {
		for i := range containers {
			for _, f := range undoneIn(&containers[i]) {
				refuse(true, fmt.Sprintf("%s[%s].%s", kind, containers[i].Name, f.Field), "%s", f.Message)
			}
		}
	}
	refuse(len(s.EphemeralContainers) > 0, "ephemeralContainers", "a template has none; remove them")
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Field, b.Field) })
	return faults
}

func undoneIn(c *corev1.Container) Faults {
	var faults Faults
	refuse := func(bad bool, field, message string) {
		if bad {
			faults = append(faults, Fault{field, message})
		}
	}
	s := c.SecurityContext
	refuse(ptr.Deref(s.Privileged, false), "securityContext.privileged", "privileged containers are not allowed; remove it")
	refuse(ptr.Deref(s.AllowPrivilegeEscalation, true), "securityContext.allowPrivilegeEscalation", "it must be false; remove it")
	refuse(!ptr.Deref(s.ReadOnlyRootFilesystem, false), "securityContext.readOnlyRootFilesystem", "the root file system is read-only; remove it, and mount an emptyDir where the program writes")
	refuse(!ptr.Deref(s.RunAsNonRoot, true), "securityContext.runAsNonRoot", "tool servers do not run as root; remove it")
	refuse(ptr.Deref(s.RunAsUser, user) == 0, "securityContext.runAsUser", "tool servers do not run as root; choose another user")
	refuse(s.SeccompProfile != nil && !seccomp(s.SeccompProfile), "securityContext.seccompProfile", "choose RuntimeDefault or Localhost")
	refuse(s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, "securityContext.appArmorProfile", "Unconfined is not allowed; remove it")
	refuse(s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, "securityContext.procMount", "it must be Default; remove it")
	if s.Capabilities != nil {
		added := slices.DeleteFunc(slices.Clone(s.Capabilities.Add), func(c corev1.Capability) bool { return c == "NET_BIND_SERVICE" })
		refuse(len(added) > 0, "securityContext.capabilities.add", "only NET_BIND_SERVICE can be added")
		refuse(!slices.Contains(s.Capabilities.Drop, "ALL"), "securityContext.capabilities.drop", "it must have ALL; remove it")
	}
	for _, p := range c.Ports {
		refuse(p.HostPort != 0, "ports", "a port of the node is not used; remove hostPort")
	}
	return faults
}

func seccomp(p *corev1.SeccompProfile) bool {
	return p != nil && (p.Type == corev1.SeccompProfileTypeRuntimeDefault || p.Type == corev1.SeccompProfileTypeLocalhost)
}

// missing lists what the merge took away or replaced of our own: the gateway stands before
// the server, and is configured by the resource alone.
func missing(ours, merged *corev1.PodTemplateSpec) Faults {
	var faults Faults
	gateway := find(ours.Spec.Containers, GatewayContainer)
	theirs := find(merged.Spec.Containers, GatewayContainer)
	if theirs == nil || !slices.Equal(theirs.Args, gateway.Args) || len(theirs.Command) > 0 {
		faults = append(faults, Fault{templateField + ".spec.containers[gateway]", "the gateway's command is not changed here; use the fields of the resource"})
	}
	for name, value := range ours.Labels {
		if merged.Labels[name] != value {
			faults = append(faults, Fault{templateField + ".metadata.labels", name + " is ours; remove it"})
		}
	}
	if name := ours.Spec.ServiceAccountName; merged.Spec.ServiceAccountName != name || merged.Spec.DeprecatedServiceAccount != "" {
		faults = append(faults, Fault{templateField + ".spec.serviceAccountName", "use spec.serviceAccount"})
	}
	return faults
}

func find(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}
