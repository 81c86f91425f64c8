package runcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/source"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// variable returns the name that -e uses for an input: X_API_KEY for the header X-Api-Key
// of a remote server.
func variable(in source.Input) string {
	if in.Header {
		return workload.HeaderKey(in.Name)
	}
	return in.Name
}

// applyEnv sets the server's variables and headers: the registry's defaults, then own.
// Values that the registry marks as secret, or that look so, go to the secrets store.
// Required values that are missing are prompted for on a terminal, else reported
// together.
func (d *draft) applyEnv(ctx context.Context, app *base.App, own map[string]string, inputs []source.Input) error {
	s := d.spec
	values := maps.Clone(s.Env)
	if values == nil {
		values = map[string]string{}
	}
	marked := map[string]bool{}
	headers := map[string]string{} // by variable
	for _, in := range inputs {
		name := variable(in)
		if in.Header {
			headers[name] = in.Name
		}
		marked[name] = marked[name] || in.Secret
		if in.Default != "" {
			values[name] = in.Default
		}
	}
	maps.Copy(values, own)
	if err := d.askMissing(ctx, app, values, inputs); err != nil {
		return err
	}
	s.Env = nil
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		header, isHeader := headers[name]
		if s.Remote != nil && !isHeader {
			errs = append(errs, fmt.Errorf("-e %s: environment variables are for servers that run here, not for a remote URL", name))
			continue
		}
		isSecret := value != "" && (marked[name] || secret.Looks(name, value))
		if isSecret {
			d.secrets[name] = value
		}
		ref := secret.Ref(s.Name, name)
		switch {
		case isHeader && isSecret:
			delete(s.Remote.Headers, header)
			s.Remote.SecretHeaders = put(s.Remote.SecretHeaders, header, ref)
		case isHeader:
			s.Remote.Headers = put(s.Remote.Headers, header, value)
		case isSecret:
			s.SecretEnv = put(s.SecretEnv, name, ref)
		default:
			s.Env = put(s.Env, name, value)
		}
	}
	return base.AsUsage(errors.Join(errs...))
}

func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}
