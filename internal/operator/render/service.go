package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// serviceAccount has no rights, and pods receive no token of it.
func (w *Workload) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   w.meta(w.serviceName(), Metadata{}),
		AutomountServiceAccountToken: ptr.To(false),
	}
}

func (w *Workload) service() *corev1.Service {
	affinity := w.SessionAffinity
	if affinity == "" {
		affinity = corev1.ServiceAffinityNone
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(w.serviceName(), w.ServiceMeta),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: w.selector(), SessionAffinity: affinity,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: w.ServicePort, TargetPort: intstr.FromString("http")}},
		},
	}
}

func (w *Workload) disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: w.meta(w.serviceName(), Metadata{}),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: w.selector()},
		},
	}
}

// networkPolicy lets clients reach the gateway, pods of the workload reach each other, and
// nothing reach the server past its gateway. Link-local addresses cannot be reached: there
// the clouds hand out the credentials of a node.
func (w *Workload) networkPolicy() *networkingv1.NetworkPolicy {
	tcp, udp := ptr.To(corev1.ProtocolTCP), ptr.To(corev1.ProtocolUDP)
	port := func(protocol *corev1.Protocol, n int32) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: protocol, Port: ptr.To(intstr.FromInt32(n))}
	}
	peers := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: w.selector()}}
	egress := []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{peers}, Ports: []networkingv1.NetworkPolicyPort{port(tcp, PeerPort)}}}
	dns := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{port(udp, 53), port(tcp, 53)}}
	if !w.NoEgress {
		egress = append(egress, dns, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"169.254.0.0/16"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fd00:ec2::254/128", "fe80::/10"}}},
		}})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: w.meta(w.serviceName(), Metadata{}),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: w.selector()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: []networkingv1.NetworkPolicyPort{port(tcp, w.gatewayPort())}},
				{Ports: []networkingv1.NetworkPolicyPort{port(tcp, PeerPort)}, From: []networkingv1.NetworkPolicyPeer{peers}},
			},
			Egress: egress,
		},
	}
}

func (w *Workload) gatewayPort() int32 { return int32(w.Spec.Proxy.Port) } //nolint:gosec // a valid Spec has a port
