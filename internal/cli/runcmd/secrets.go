package runcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// parseSecrets returns the values of --secret: names of secrets by the target they go to, which
// is a variable or the key of a workload.SecretField.
func (o *options) parseSecrets() (map[string]string, error) {
	targets := map[string]string{}
	var errs []error
	for _, value := range o.secrets {
		name, target, ok := strings.Cut(value, ",target=")
		err := secret.CheckName(name)
		switch {
		case !ok:
			err = fmt.Errorf("%q is not NAME,target=TARGET", value)
		case err == nil && !isField(target):
			err = workload.ValidEnvName(target)
		}
		if other, twice := targets[target]; err == nil && twice && other != name {
			err = fmt.Errorf("%s is the target of %q and of %q", target, other, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--secret: %w", err))
			continue
		}
		targets[target] = name
	}
	return targets, errors.Join(errs...)
}

// isField reports whether a target of --secret is a field of the Spec. No variable has such a
// name.
func isField(target string) bool {
	_, ok := givenSecrets[target]
	return ok
}

// errRemoteSecret: variables are for servers that run here.
var errRemoteSecret = errors.New("--secret sets an environment variable, and a remote URL has none; --remote-forward-headers-secret HEADER=NAME sends a secret in a header")

// applySecrets sets the variables and fields of --secret, over those of -e and of the
// registry.
func (d *draft) applySecrets(targets map[string]string) {
	for target, name := range targets {
		if isField(target) {
			continue
		}
		delete(d.spec.Env, target)
		delete(d.secrets, target)
		d.spec.SecretEnv = put(d.spec.SecretEnv, target, secret.SharedRef(name))
	}
	for _, f := range d.spec.SecretFields() {
		if name, ok := targets[f.Key]; ok {
			delete(d.secrets, f.Key)
			*f.Ref = secret.SharedRef(name)
		}
	}
}

// checkTargets returns an error for each target of --secret that is no field of this Spec, or
// whose value another flag gives too.
func (d *draft) checkTargets(targets map[string]string, value func(key string) string) error {
	fields := map[string]bool{}
	for _, f := range d.spec.SecretFields() {
		fields[f.Key] = true
	}
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		in := givenSecrets[target]
		switch {
		case !isField(target):
		case !fields[target]:
			errs = append(errs, fmt.Errorf("--secret: %s is for a %s, and none is configured", target, in.what))
		case value(target) != "":
			errs = append(errs, fmt.Errorf("--secret: --%s gives %s too; give one of them", in.flag, target))
		}
	}
	return errors.Join(errs...)
}

// checkSecrets is an error when a secret that the user named is not there.
func checkSecrets(ctx context.Context, app *base.App, s *workload.Spec) error {
	var errs []error
	for _, ref := range s.SecretRefs() {
		if name, shared := secret.SharedName(ref); shared {
			if err := app.CheckSecret(ctx, name); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// acceptShared keeps a reference of an imported configuration to a secret of the user's only
// if the configuration is that of the very same workload here, or the command line gives the
// secret too: a file from elsewhere must not send it to its own server.
// given are the variables that the command line sets to a value instead; auth is whether
// --auth is given.
func acceptShared(s *workload.Spec, known, auth bool, given, targets, headers map[string]string) error {
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if _, ok := s.SecretEnv[target]; !ok && !isField(target) {
			errs = append(errs, fmt.Errorf("--secret: the configuration has no secret variable %s", target))
		}
	}
	if len(errs) > 0 {
		return base.AsUsage(errors.Join(errs...))
	}
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		if s.Remote == nil || s.Remote.SecretHeaders[header] == "" {
			return base.Usage("--remote-forward-headers-secret: the configuration has no secret header %s", header)
		}
		s.Remote.SecretHeaders[header] = headers[header]
	}
	var missing []string
	for _, target := range slices.Sorted(maps.Keys(s.SecretEnv)) {
		name, shared := secret.SharedName(s.SecretEnv[target])
		_, valued := given[target]
		if shared && !known && !valued && targets[target] == "" {
			missing = append(missing, fmt.Sprintf("\n  --secret %s,target=%s", name, target))
		}
	}
	if s.Remote != nil {
		for _, header := range slices.Sorted(maps.Keys(s.Remote.SecretHeaders)) {
			if name, shared := secret.SharedName(s.Remote.SecretHeaders[header]); shared && !known && headers[header] == "" {
				missing = append(missing, fmt.Sprintf("\n  --remote-forward-headers-secret %s=%s", header, name))
			}
		}
	}
	for _, f := range s.SecretFields() {
		if name, shared := secret.SharedName(*f.Ref); shared && !known && targets[f.Key] == "" {
			missing = append(missing, fmt.Sprintf("\n  --secret %s,target=%s", name, f.Key))
		}
	}
	if !known && !auth {
		for _, ref := range s.AuthSecrets() {
			missing = append(missing, fmt.Sprintf("\n  --auth FILE (its resource, of the secret %s)", ref))
		}
	}
	if len(missing) > 0 {
		return base.Usage("the configuration refers to secrets of yours; if its server may have them, add:%s", strings.Join(missing, ""))
	}
	return nil
}
