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

// parseSecrets returns the values of --secret: names of secrets by the variable they go to.
func (o *options) parseSecrets() (map[string]string, error) {
	targets := map[string]string{}
	var errs []error
	for _, value := range o.secrets {
		name, target, ok := strings.Cut(value, ",target=")
		err := secret.CheckName(name)
		switch {
		case !ok:
			err = fmt.Errorf("%q is not NAME,target=TARGET", value)
		case err == nil:
			err = workload.ValidEnvName(target)
		}
		if other, twice := targets[target]; err == nil && twice && other != name {
			err = fmt.Errorf("the variable %s is the target of %q and of %q", target, other, name)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--secret: %w", err))
			continue
		}
		targets[target] = name
	}
	return targets, errors.Join(errs...)
}

// errRemoteSecret: variables are for servers that run here.
var errRemoteSecret = errors.New("--secret sets an environment variable, and a remote URL has none; --remote-forward-headers-secret HEADER=NAME sends a secret in a header")

// applySecrets sets the variables of --secret, over those of -e and of the registry.
func (d *draft) applySecrets(targets map[string]string) {
	for target, name := range targets {
		delete(d.spec.Env, target)
		delete(d.secrets, target)
		d.spec.SecretEnv = put(d.spec.SecretEnv, target, secret.SharedRef(name))
	}
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
// given are the variables that the command line sets to a value instead.
func acceptShared(s *workload.Spec, known bool, given, targets, headers map[string]string) error {
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if _, ok := s.SecretEnv[target]; !ok {
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
	if len(missing) > 0 {
		return base.Usage("the configuration refers to secrets of yours; if its server may have them, add:%s", strings.Join(missing, ""))
	}
	return nil
}
