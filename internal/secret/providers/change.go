package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/local"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Moved reports what Change did with the user's secrets.
type Moved struct {
	// Copied were stored in the new provider.
	Copied []string `json:"copied"`
	// Kept stay in the old provider, and are not used while the new one is chosen.
	Kept []string `json:"kept"`
}

// Change makes another provider the chosen one. The user's secrets go to it if it can be
// written to; else they stay where they are. Between kinds of the local store its whole file
// changes. The tool's own secrets are always in the local store.
//
// A name that is in both providers with different values is an error, before anything is
// changed. Nothing is deleted in the old provider before all is in the new one and was read
// back, and nothing in one that is not local.
func (s *Secrets) Change(ctx context.Context, to Choice) (Moved, error) {
	to.Version = choiceVersion
	target, err := s.open(to)
	if err != nil {
		return Moved{}, err
	}
	from := s.choice
	moved := Moved{Copied: []string{}, Kept: []string{}}
	var values map[string]string
	if !(from.isLocal() && to.isLocal()) {
		if values, moved.Kept, err = s.toMove(ctx, target); err != nil {
			return Moved{}, err
		}
	}
	if to.isLocal() {
		if err := s.store.Protect(ctx, local.Kind(to.Provider)); err != nil {
			return Moved{}, fmt.Errorf("change the provider of secrets: %w", err)
		}
	}
	if moved.Copied, err = move(ctx, target, values); err != nil {
		return Moved{}, fmt.Errorf("change the provider of secrets: %w; nothing was deleted, and the provider is still %s", err, from.Provider)
	}
	content, err := json.MarshalIndent(to, "", "  ")
	if err != nil {
		return Moved{}, err
	}
	if err := settings.WriteAtomic(s.cfg.choiceFile(), append(content, '\n'), 0o600); err != nil {
		return Moved{}, fmt.Errorf("change the provider of secrets: %w", err)
	}
	s.mu.Lock()
	s.choice, s.provider = to, target
	s.mu.Unlock()
	if !from.isLocal() || to.isLocal() {
		return moved, nil
	}
	return moved, s.store.Change(ctx, func(all map[string]string) error {
		for _, name := range moved.Copied {
			if key := secret.UserKey(name); all[key] == values[name] { // it may have changed meanwhile
				delete(all, key)
			}
		}
		return nil
	})
}

// move stores values and reads them back. It returns their names.
func move(ctx context.Context, target secret.Provider, values map[string]string) ([]string, error) {
	names := append([]string{}, slices.Sorted(maps.Keys(values))...)
	for _, name := range names {
		if err := target.Set(ctx, name, values[name]); err != nil {
			return nil, err
		}
		got, err := target.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if got != values[name] {
			return nil, fmt.Errorf("secret %q: another value was stored than was sent", name)
		}
	}
	return names, nil
}

// writable returns the present provider if its secrets can be moved; nil if it can only be
// read, or cannot be opened because its settings are wrong.
func (s *Secrets) writable() secret.Provider {
	p, err := s.Provider()
	if err != nil || !p.About().Writes {
		return nil
	}
	return p
}

// toMove returns the secrets of the present provider that go to target, and those that stay.
func (s *Secrets) toMove(ctx context.Context, target secret.Provider) (values map[string]string, kept []string, err error) {
	source := s.writable()
	if source == nil {
		return nil, []string{}, nil
	}
	names, err := source.List(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("change the provider of secrets: %w", err)
	}
	if !target.About().Writes {
		return nil, append([]string{}, names...), nil
	}
	values = map[string]string{}
	var conflicts []string
	for _, name := range names {
		if secret.CheckPlainName(name) != nil {
			kept = append(kept, name) // a path of Vault is no name elsewhere
			continue
		}
		value, err := source.Get(ctx, name)
		if errors.Is(err, secret.ErrNotFound) {
			kept = append(kept, name) // Vault lists paths, also without the field "value"
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("change the provider of secrets: %w", err)
		}
		there, err := target.Get(ctx, name)
		if err != nil && !errors.Is(err, secret.ErrNotFound) {
			return nil, nil, fmt.Errorf("change the provider of secrets: %w", err)
		}
		if err == nil && there != value {
			conflicts = append(conflicts, name)
		}
		values[name] = value
	}
	if len(conflicts) > 0 {
		return nil, nil, fmt.Errorf("the providers %s and %s have different values of %s; nothing was changed: delete the one or the other first",
			source.About().Name, target.About().Name, strings.Join(conflicts, ", "))
	}
	return values, append([]string{}, kept...), nil
}
