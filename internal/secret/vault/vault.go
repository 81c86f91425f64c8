// Package vault is the provider that keeps secrets in HashiCorp Vault, or OpenBao, in a
// key/value engine of version 2 (developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2).
//
// A name is PATH#FIELD below the configured mount; without #FIELD the field is "value". The
// token is that of VAULT_TOKEN, or of the file that `vault login` writes, and is never stored.
package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// Config is where the secrets are.
type Config struct {
	// Address is the server's URL; "" is that of VAULT_ADDR.
	Address string `json:"address,omitempty"`
	// Mount is the path of the engine; "" is secret.
	Mount string `json:"mount,omitempty"`
}

// Provider is a secret.Provider.
type Provider struct {
	base   *url.URL
	mount  string
	env    func(string) string
	client *http.Client
}

// New returns the provider. env is os.Getenv.
func New(cfg Config, env func(string) string) (*Provider, error) {
	address := cfg.Address
	if address == "" {
		address = env("VAULT_ADDR")
	}
	if address == "" {
		return nil, errors.New("the address of Vault is missing: give --vault-address, or set VAULT_ADDR")
	}
	if err := netguard.CheckEndpoint(address); err != nil {
		return nil, fmt.Errorf("the address of Vault %w", err)
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of Vault: %w", err)
	}
	mount := strings.Trim(cfg.Mount, "/")
	if mount == "" {
		mount = "secret"
	}
	if err := checkPath(mount); err != nil {
		return nil, fmt.Errorf("the mount of Vault: %w", err)
	}
	opt := netguard.Options{AllowPrivate: true, AllowLoopback: true, Timeout: 20 * time.Second}
	if file := env("VAULT_CACERT"); file != "" {
		opt.CAFiles = []string{file}
	}
	client, err := netguard.Client(opt)
	if err != nil {
		return nil, fmt.Errorf("VAULT_CACERT: %w", err)
	}
	return &Provider{base: base, mount: mount, env: env, client: client}, nil
}

// About implements secret.Provider.
func (p *Provider) About() secret.About {
	return secret.About{Name: "vault", Place: p.base.String() + ", mount " + p.mount, Protects: "Vault protects the values", Writes: true, Lists: true}
}

var pathPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*(/[A-Za-z0-9_][A-Za-z0-9_.@-]*)*$`)

func checkPath(path string) error {
	if len(path) > 256 || !pathPattern.MatchString(path) || strings.Contains(path, "..") {
		return fmt.Errorf("%.80q is not a path of Vault", path)
	}
	return nil
}

// parse splits a name.
func parse(name string) (path, field string, err error) {
	path, field, given := strings.Cut(name, "#")
	if !given {
		field = "value"
	}
	if field == "" || checkPath(path) != nil || secret.CheckName(name) != nil {
		return "", "", fmt.Errorf("%.80q is not a secret of Vault: give PATH, or PATH#FIELD", name)
	}
	return path, field, nil
}

// document is one version of a secret.
type document struct {
	fields  map[string]any
	version int
}

// read returns the current version; the zero document if there is none.
func (p *Provider) read(ctx context.Context, path string) (document, error) {
	var body struct {
		Data struct {
			Data     map[string]any
			Metadata struct{ Version int }
		}
	}
	err := p.do(ctx, http.MethodGet, "data/"+path, nil, &body)
	if errors.Is(err, secret.ErrNotFound) {
		err = nil // of a deleted version the metadata is returned with 404
	}
	return document{body.Data.Data, body.Data.Metadata.Version}, err
}

// Get implements secret.Provider.
func (p *Provider) Get(ctx context.Context, name string) (string, error) {
	path, field, err := parse(name)
	if err != nil {
		return "", err
	}
	doc, err := p.read(ctx, path)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	value, ok := doc.fields[field]
	if !ok {
		return "", fmt.Errorf("%w: %q in Vault at %s", secret.ErrNotFound, name, p.base)
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("secret %q: its value in Vault is not text", name)
	}
	return secret.Checked(text)
}

// Set implements secret.Provider. The other fields of the path stay as they are.
func (p *Provider) Set(ctx context.Context, name, value string) error {
	path, field, err := parse(name)
	if err == nil {
		err = secret.CheckValue(value)
	}
	if err != nil {
		return err
	}
	err = p.change(ctx, path, func(fields map[string]any) error {
		fields[field] = value
		return nil
	})
	if err != nil {
		return fmt.Errorf("store secret %q: %w", name, err)
	}
	return nil
}

// Delete implements secret.Provider. When no field is left, the path is deleted with all
// its versions, so that it is not listed any more.
func (p *Provider) Delete(ctx context.Context, name string) error {
	path, field, err := parse(name)
	if err != nil {
		return err
	}
	err = p.change(ctx, path, func(fields map[string]any) error {
		if _, ok := fields[field]; !ok {
			return secret.ErrNotFound
		}
		delete(fields, field)
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete secret %q: %w", name, err)
	}
	return nil
}

// errConflict: another writer was quicker.
var errConflict = errors.New("another program changes it at the same time")

// change replaces the fields of a path. A version that was written meanwhile is read again
// (check-and-set).
func (p *Provider) change(ctx context.Context, path string, change func(fields map[string]any) error) error {
	for range 5 {
		doc, err := p.read(ctx, path)
		if err != nil {
			return err
		}
		if doc.fields == nil {
			doc.fields = map[string]any{}
		}
		if err := change(doc.fields); err != nil {
			return err
		}
		if len(doc.fields) == 0 {
			return p.do(ctx, http.MethodDelete, "metadata/"+path, nil, nil)
		}
		err = p.do(ctx, http.MethodPost, "data/"+path, map[string]any{"data": doc.fields, "options": map[string]int{"cas": doc.version}}, nil)
		if !errors.Is(err, errConflict) {
			return err
		}
	}
	return errConflict
}

// maxFolders bounds the requests of a list.
const maxFolders = 1000

// List implements secret.Provider. It returns paths, without the fields.
func (p *Provider) List(ctx context.Context) ([]string, error) {
	var names []string
	folders := []string{""}
	for n := 0; len(folders) > 0; n++ {
		if n == maxFolders {
			return nil, fmt.Errorf("list secrets: Vault has more than %d folders", maxFolders)
		}
		folder := folders[0]
		folders = folders[1:]
		var body struct{ Data struct{ Keys []string } }
		err := p.do(ctx, http.MethodGet, "metadata/"+folder+"?list=true", nil, &body)
		if errors.Is(err, secret.ErrNotFound) {
			continue // it is empty
		}
		if err != nil {
			return nil, fmt.Errorf("list secrets: %w", err)
		}
		for _, key := range body.Data.Keys {
			below := folder + key
			switch {
			case checkPath(strings.TrimSuffix(below, "/")) != nil: // it cannot be a name here
			case strings.HasSuffix(key, "/"):
				folders = append(folders, below)
			default:
				names = append(names, below)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

func (p *Provider) token() (string, error) {
	token := p.env("VAULT_TOKEN")
	if token == "" {
		home := p.env("HOME")
		var err error
		if token, err = netguard.ReadSecret(filepath.Join(home, ".vault-token")); home == "" || err != nil {
			return "", errors.New("there is no token for Vault: set VAULT_TOKEN, or run `vault login`")
		}
	}
	return strings.TrimSpace(token), nil
}

const maxBody = 8 << 20

// do sends one request. The error of 404 is secret.ErrNotFound; result is filled also then.
func (p *Provider) do(ctx context.Context, method, path string, body, result any) error {
	token, err := p.token()
	if err != nil {
		return err
	}
	path, query, _ := strings.Cut(path, "?")
	u := p.base.JoinPath("v1", p.mount, path)
	u.RawQuery = query
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(content))
	if err != nil {
		return err
	}
	r.Header.Set("X-Vault-Token", token)
	r.Header.Set("X-Vault-Request", "true")
	if namespace := p.env("VAULT_NAMESPACE"); namespace != "" {
		r.Header.Set("X-Vault-Namespace", namespace)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return fmt.Errorf("the Vault server at %s cannot be reached: %w", p.base, err)
	}
	defer resp.Body.Close()
	content, err = netguard.ReadBounded(resp.Body, maxBody)
	if err != nil {
		return fmt.Errorf("the Vault server at %s: %w", p.base, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotFound {
		if result != nil && len(content) > 0 {
			if err := json.NewDecoder(bytes.NewReader(content)).Decode(result); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("the Vault server at %s responded with something else than JSON", p.base)
			}
		}
		if resp.StatusCode == http.StatusNotFound {
			return secret.ErrNotFound
		}
		return nil
	}
	return p.refused(resp.StatusCode, content)
}

// refused is the error of a response without success.
func (p *Provider) refused(status int, content []byte) error {
	var body struct{ Errors []string }
	_ = json.Unmarshal(content, &body)
	message := plaintext.Excerpt(strings.Join(body.Errors, "; "), 200)
	switch {
	case status == http.StatusBadRequest && strings.Contains(message, "check-and-set"):
		return errConflict
	case status == http.StatusForbidden:
		return fmt.Errorf("the Vault server at %s refuses the token (403): %s", p.base, message)
	case status == http.StatusServiceUnavailable:
		return fmt.Errorf("the Vault server at %s is sealed or in standby (503)", p.base)
	}
	return fmt.Errorf("the Vault server at %s responded with status %d: %s", p.base, status, message)
}
