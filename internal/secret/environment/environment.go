// Package environment is the provider that reads secrets from the environment variables
// THV_SECRET_<NAME>. It suits containers and CI, where something else holds the values.
package environment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
)

// Prefix begins the variables. The rest of a variable is the name, byte for byte, but for the
// slash of NAME/KEY, which is two underscores there.
const Prefix = "THV_SECRET_"

func variable(name string) string { return Prefix + strings.ReplaceAll(name, "/", "__") }

// Provider is a secret.Provider.
type Provider struct{ environ func() []string }

// New returns the provider. environ is os.Environ.
func New(environ func() []string) *Provider { return &Provider{environ} }

// About implements secret.Provider.
func (p *Provider) About() secret.About {
	return secret.About{
		Name: "environment", Place: "environment variables " + Prefix + "NAME",
		Protects: "whatever set the variables protects the values; programs of the same user can read them", Lists: true,
	}
}

// values are the secrets by name.
func (p *Provider) values() map[string]string {
	values := map[string]string{}
	for _, variable := range p.environ() {
		name, value, _ := strings.Cut(variable, "=")
		if name, ours := strings.CutPrefix(name, Prefix); ours && secret.CheckPlainName(name) == nil && !strings.Contains(name, "/") && value != "" {
			values[name] = value
		}
	}
	return values
}

// Get implements secret.Provider.
func (p *Provider) Get(_ context.Context, name string) (string, error) {
	if err := secret.CheckPlainName(name); err != nil {
		return "", err
	}
	value, ok := p.values()[strings.TrimPrefix(variable(name), Prefix)]
	if !ok {
		return "", fmt.Errorf("%w: %q; set the environment variable %s", secret.ErrNotFound, name, variable(name))
	}
	return secret.Checked(value)
}

// List implements secret.Provider.
func (p *Provider) List(context.Context) ([]string, error) {
	var names []string
	for name := range p.values() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Set implements secret.Provider.
func (p *Provider) Set(context.Context, string, string) error { return readOnly() }

// Delete implements secret.Provider.
func (p *Provider) Delete(context.Context, string) error { return readOnly() }

func readOnly() error {
	return fmt.Errorf("the provider environment is read only: %w", secret.ErrReadOnly)
}
