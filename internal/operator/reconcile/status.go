package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/toolhaven/toolhaven/api/v1beta1"
)

// FieldOwner owns the fields that the operator writes.
const FieldOwner = "thv-operator"

// maxMessage bounds the message of a condition, in bytes; the schema permits 32 KiB.
const maxMessage = 8 << 10

// status writes the status of resources.
type status struct {
	client client.Client
	events events.EventRecorder
}

// conditionsOf are the conditions of a resource of the group.
func conditionsOf(object client.Object) *[]metav1.Condition {
	if s := configStatus(object); s != nil {
		return &s.Conditions
	}
	switch o := object.(type) {
	case *v1beta1.MCPServer:
		return &o.Status.Conditions
	case *v1beta1.MCPRemoteProxy:
		return &o.Status.Conditions
	case *v1beta1.MCPServerEntry:
		return &o.Status.Conditions
	case *v1beta1.VirtualMCPServer:
		return &o.Status.Conditions
	case *v1beta1.MCPGroup:
		return &o.Status.Conditions
	}
	return &[]metav1.Condition{}
}

// configStatus is the status of a configuration; nil for another kind.
func configStatus(object client.Object) *v1beta1.ConfigStatus {
	switch o := object.(type) {
	case *v1beta1.MCPExternalAuthConfig:
		return &o.Status
	case *v1beta1.MCPOIDCConfig:
		return &o.Status
	case *v1beta1.MCPToolConfig:
		return &o.Status
	case *v1beta1.MCPTelemetryConfig:
		return &o.Status
	case *v1beta1.MCPAuthzConfig:
		return &o.Status
	case *v1beta1.MCPWebhookConfig:
		return &o.Status
	}
	return nil
}

// set sets a condition of this generation. Its time changes with its status only.
func set(object client.Object, condition string, ok bool, reason, message string) {
	value := metav1.ConditionFalse
	if ok {
		value = metav1.ConditionTrue
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	meta.SetStatusCondition(conditionsOf(object), metav1.Condition{
		Type: condition, Status: value, Reason: reason, Message: message, ObservedGeneration: object.GetGeneration(),
	})
}

func unset(object client.Object, condition string) {
	meta.RemoveStatusCondition(conditionsOf(object), condition)
}

// write writes the status of after if it differs from that of before, and an event for each
// condition that changed. One that is from the beginning as it should be is no event: of 1,000
// resources that are new there would be 3,000 more writes, and all are kept in memory for
// minutes (client-go/tools/events). A resource that was edited meanwhile is a conflict: it is
// reconciled again.
func (s *status) write(ctx context.Context, before, after client.Object) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	was := *conditionsOf(before)
	now := append([]metav1.Condition(nil), *conditionsOf(after)...) // the response replaces them
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.client.Status().Patch(ctx, after, patch, client.FieldOwner(FieldOwner)); err != nil {
		return client.IgnoreNotFound(err)
	}
	defer seen(ctx, s.client, after, after.GetResourceVersion())
	for _, c := range now {
		old := meta.FindStatusCondition(was, c.Type)
		if old == nil && !isFault(c) || old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		s.events.Eventf(after, nil, severity(c), c.Reason, "Reconcile", "%s is %s: %s", c.Type, c.Status, cut(c.Message))
	}
	return nil
}

// isFault reports whether a condition has the status that it should not have.
func isFault(c metav1.Condition) bool {
	switch c.Type {
	case v1beta1.ConditionDeletionBlocked, v1beta1.ConditionIdentitySynthesized:
		return c.Status == metav1.ConditionTrue
	case v1beta1.ConditionReady: // it takes a while, or 0 replicas are wanted
		return false
	}
	return c.Status == metav1.ConditionFalse
}

// severity is that of an event about a condition.
func severity(c metav1.Condition) string {
	if isFault(c) && c.Type != v1beta1.ConditionIdentitySynthesized { // as it was configured
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// cut keeps to the bound of an event's note, 1 KiB.
func cut(text string) string {
	if len(text) > 900 {
		return strings.ToValidUTF8(text[:900], "") + "..."
	}
	return text
}

// hash is the SHA-256 of a spec, in hexadecimal.
func hash(spec any) (string, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("hash a spec: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// specOf is the spec of a configuration.
func specOf(object client.Object) any {
	switch o := object.(type) {
	case *v1beta1.MCPExternalAuthConfig:
		return &o.Spec
	case *v1beta1.MCPOIDCConfig:
		return &o.Spec
	case *v1beta1.MCPToolConfig:
		return &o.Spec
	case *v1beta1.MCPTelemetryConfig:
		return &o.Spec
	case *v1beta1.MCPAuthzConfig:
		return &o.Spec
	case *v1beta1.MCPWebhookConfig:
		return &o.Spec
	}
	return nil
}
