// Package providers opens the secrets of a user: the local store, and the provider that was
// chosen with `thv secret provider`. It resolves references, hands what they stand for to the
// owner of a workload, and moves secrets from one provider to another.
package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/secret/command"
	"github.com/toolhaven/toolhaven/internal/secret/environment"
	"github.com/toolhaven/toolhaven/internal/secret/local"
	"github.com/toolhaven/toolhaven/internal/secret/onepassword"
	"github.com/toolhaven/toolhaven/internal/secret/vault"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Names are the providers, in the order of the documentation.
func Names() []string {
	return []string{string(local.Plain), string(local.Encrypted), string(local.Keyring), "environment", "1password", "vault", "command"}
}

// EnvProvider is the environment variable that chooses the provider for one process.
const EnvProvider = "THV_SECRETS_PROVIDER"

// Choice is the provider that the user chose, and its settings.
type Choice struct {
	Version  int          `json:"version"`
	Provider string       `json:"provider"`
	Vault    vault.Config `json:"vault,omitzero"`
	Command  []string     `json:"command,omitempty"`
}

func (c Choice) isLocal() bool {
	return slices.Contains([]string{string(local.Plain), string(local.Encrypted), string(local.Keyring)}, c.Provider)
}

// Config is what Secrets work with.
type Config struct {
	Dir      string // of the local store
	Env      func(string) string
	Environ  func() []string
	Password func(ctx context.Context, q local.Question) (string, error)
	Keys     local.Keys
	// Handed is what the process that started this one has handed over; nil is nothing.
	Handed *Handover
}

// Handover is what the process that starts a workload passes to its owner: the key of the
// local store, and the values of the user's secrets, by name. It goes through a pipe and is
// stored nowhere.
type Handover struct {
	Key    []byte            `json:"key,omitempty"`
	Values map[string]string `json:"values,omitempty"`
}

// Secrets are the secrets of a user.
type Secrets struct {
	cfg    Config
	choice Choice
	store  *local.Store

	mu       sync.Mutex
	provider secret.Provider
	values   map[string]string // resolved by this process, by name
}

const choiceVersion = 1

func (c Config) choiceFile() string { return filepath.Join(c.Dir, "provider") }

// Open reads the choice. No secret is read, and no password requested.
func Open(cfg Config) (*Secrets, error) {
	choice := Choice{Version: choiceVersion, Provider: string(local.Plain)}
	content, err := os.ReadFile(cfg.choiceFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the provider of secrets: %w", err)
	}
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(content))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&choice); err != nil || choice.Version != choiceVersion {
			return nil, fmt.Errorf("the file %s is damaged, or of another version of thv; delete it and run `thv secret provider` again", cfg.choiceFile())
		}
	}
	kind := local.Kind("")
	if choice.isLocal() {
		kind = local.Kind(choice.Provider)
	}
	if name := cfg.Env(EnvProvider); name != "" {
		choice.Provider = name
	}
	s := &Secrets{cfg: cfg, choice: choice, values: map[string]string{}}
	store := local.Config{Dir: cfg.Dir, Kind: kind, Password: cfg.Password, Keys: cfg.Keys}
	if h := cfg.Handed; h != nil {
		store.Key = h.Key
		maps.Copy(s.values, h.Values)
	}
	s.store = local.Open(store)
	return s, nil
}

// Store is the local store.
func (s *Secrets) Store() *local.Store { return s.store }

// Choice is the provider that was chosen.
func (s *Secrets) Choice() Choice { return s.choice }

// Provider opens the provider that was chosen.
func (s *Secrets) Provider() (secret.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider != nil {
		return s.provider, nil
	}
	p, err := s.open(s.choice)
	if err == nil {
		s.provider = p
	}
	return p, err
}

func (s *Secrets) open(c Choice) (secret.Provider, error) {
	if c.isLocal() {
		return local.User{Store: s.store}, nil
	}
	switch c.Provider {
	case "environment":
		return environment.New(s.cfg.Environ), nil
	case "1password":
		return onepassword.New("op"), nil
	case "vault":
		return vault.New(c.Vault, s.cfg.Env)
	case "command":
		return command.New(c.Command)
	}
	return nil, fmt.Errorf("there is no provider of secrets %q%s; there are: %s", c.Provider, settings.Suggest(c.Provider, Names()), strings.Join(Names(), ", "))
}

// Get returns a secret that the user named. The error of a name that is not there has the
// nearest one. Its value is remembered for this process.
func (s *Secrets) Get(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	value, ok := s.values[name]
	s.mu.Unlock()
	if ok {
		return value, nil
	}
	if s.cfg.Handed != nil {
		return "", fmt.Errorf("%w: %q was not there when the workload was started", secret.ErrNotFound, name)
	}
	p, err := s.Provider()
	if err != nil {
		return "", err
	}
	value, err = p.Get(ctx, name)
	if errors.Is(err, secret.ErrNotFound) {
		return "", s.missing(ctx, p, name)
	}
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[name] = value
	return value, nil
}

// missing is the error for a name that is not there.
func (s *Secrets) missing(ctx context.Context, p secret.Provider, name string) error {
	about := p.About()
	hint := ""
	if about.Lists {
		if names, err := p.List(ctx); err == nil {
			hint = settings.Suggest(name, names)
		}
	}
	if hint == "" && about.Writes {
		hint = fmt.Sprintf("; store it with `thv secret set %s`", name)
	}
	return fmt.Errorf("%w: %q (provider %s)%s", secret.ErrNotFound, name, about.Name, hint)
}

// Resolve returns the value of a reference in a Spec.
func (s *Secrets) Resolve(ctx context.Context, ref string) (string, error) {
	if name, shared := secret.SharedName(ref); shared {
		return s.Get(ctx, name)
	}
	return s.store.Get(ctx, ref)
}

// Handover returns what the owner of a workload with these references needs. A store that is
// locked, and that no reference needs, stays locked.
func (s *Secrets) Handover(ctx context.Context, refs []string) (*Handover, error) {
	h := &Handover{}
	for _, ref := range refs {
		name, shared := secret.SharedName(ref)
		var err error
		if !shared {
			h.Key, err = s.store.Key(ctx)
		} else {
			var value string
			if value, err = s.Get(ctx, name); h.Values == nil {
				h.Values = map[string]string{}
			}
			h.Values[name] = value
		}
		if err != nil {
			return nil, err
		}
	}
	return h, nil
}
