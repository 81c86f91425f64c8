package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// SecretRefs returns every reference to a secret in the Spec, sorted. The process that
// starts the workload passes what they stand for to its owner.
func (s *Spec) SecretRefs() []string {
	var refs []string
	add := func(ref string) {
		if ref != "" {
			refs = append(refs, ref)
		}
	}
	for _, ref := range s.SecretEnv {
		add(ref)
	}
	if s.Remote != nil {
		for _, ref := range s.Remote.SecretHeaders {
			add(ref)
		}
	}
	for _, f := range s.SecretFields() {
		add(*f.Ref)
	}
	for _, ref := range s.AuthSecrets() {
		add(authSecretRef(ref))
	}
	if s.Telemetry != nil {
		for _, ref := range s.Telemetry.Headers {
			add(ref)
		}
	}
	if s.Webhooks != nil {
		for _, name := range s.Webhooks.Secrets() {
			add(secret.SharedRef(name))
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// checkSecretRefs accepts the workload's own secrets, and those that the user named. A
// reference to another workload's is refused: an imported configuration must not send
// those to its own server.
func checkSecretRefs(s *Spec, refs map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		ref := refs[name]
		shared, isShared := secret.SharedName(ref)
		switch {
		case isShared:
			if err := secret.CheckName(shared); err != nil {
				errs = append(errs, fmt.Errorf("secret for %s: %w", name, err))
			}
		case !strings.HasPrefix(ref, secret.Ref(s.Name, "")):
			errs = append(errs, fmt.Errorf("secret %s: %q is not a secret of workload %q", name, ref, s.Name))
		}
	}
	return errors.Join(errs...)
}
