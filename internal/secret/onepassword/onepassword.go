// Package onepassword is the provider that reads secrets with the 1Password command line tool,
// op. Names are its secret references, op://VAULT/ITEM/[SECTION/]FIELD
// (developer.1password.com/docs/cli/secret-reference-syntax). It is read only.
package onepassword

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/command"
)

// Provider is a secret.Provider.
type Provider struct{ program string }

// New returns the provider. program is the path or name of op.
func New(program string) *Provider { return &Provider{program} }

// About implements secret.Provider.
func (p *Provider) About() secret.About {
	return secret.About{Name: "1password", Place: "1Password, by its command op", Protects: "1Password protects the values", Lists: true}
}

const prefix = "op://"

// Get implements secret.Provider.
func (p *Provider) Get(ctx context.Context, name string) (string, error) {
	if err := secret.CheckName(name); err != nil {
		return "", err
	}
	if n := len(strings.Split(name, "/")); !strings.HasPrefix(name, prefix) || n < 5 || n > 6 {
		return "", fmt.Errorf("%q is not a secret of 1Password: give op://VAULT/ITEM/FIELD", name)
	}
	out, err := p.op(ctx, "read", "--no-newline", "--", name)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	value := string(out)
	if value == "" {
		return "", fmt.Errorf("%w: %q is empty", secret.ErrNotFound, name)
	}
	return secret.Checked(value)
}

// List implements secret.Provider: the references of all fields with a hidden value.
func (p *Provider) List(ctx context.Context) ([]string, error) {
	out, err := p.op(ctx, "item", "list", "--format", "json")
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	var items []struct{ ID string }
	if err := json.Unmarshal(out, &items); err != nil {
		return nil, errors.New("list secrets: op printed something else than items")
	}
	var names []string
	for _, item := range items {
		out, err := p.op(ctx, "item", "get", item.ID, "--format", "json")
		if err != nil {
			return nil, fmt.Errorf("list secrets: %w", err)
		}
		var details struct {
			Fields []struct{ Type, Reference string }
		}
		if err := json.NewDecoder(bytes.NewReader(out)).Decode(&details); err != nil && !errors.Is(err, io.EOF) {
			return nil, errors.New("list secrets: op printed something else than an item")
		}
		for _, f := range details.Fields {
			if f.Type == "CONCEALED" && strings.HasPrefix(f.Reference, prefix) {
				names = append(names, f.Reference)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// op runs the tool.
func (p *Provider) op(ctx context.Context, args ...string) ([]byte, error) {
	out, err := command.Output(ctx, append([]string{p.program}, args...))
	var failed *command.Failed
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("the command op of 1Password is not installed; see https://developer.1password.com/docs/cli")
	case errors.As(err, &failed) && missing(failed.Message):
		return nil, fmt.Errorf("%w: %w", secret.ErrNotFound, err)
	}
	return out, err
}

// missing reports whether a message of op means that there is no such vault, item or field.
func missing(message string) bool {
	for _, text := range []string{"isn't an item", "isn't a vault", "isn't a field", "does not have a field", "could not find"} {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

// Set implements secret.Provider.
func (p *Provider) Set(context.Context, string, string) error { return readOnly() }

// Delete implements secret.Provider.
func (p *Provider) Delete(context.Context, string) error { return readOnly() }

func readOnly() error {
	return fmt.Errorf("the provider 1password is read only here; change the item in 1Password: %w", secret.ErrReadOnly)
}
