// Package webhook is the gateway's stage that sends each request to webhooks of the person
// who runs the workload: validating ones permit or deny it, mutating ones may change its
// params by a JSON patch (RFC 6902). The format of the exchange is that of existing webhooks.
package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/secret"
)

// Config are the webhooks of a workload, called in order: the mutating ones, then the
// validating ones.
type Config struct {
	Validating []Hook `json:"validating,omitempty"`
	Mutating   []Hook `json:"mutating,omitempty"`
}

// Hook is one webhook.
type Hook struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Timeout is 1 to 30 seconds; 0 is 10 seconds.
	Timeout Timeout `json:"timeout,omitempty"`
	// FailurePolicy is what happens to a request when the webhook does not respond as it
	// should: Fail or Ignore.
	FailurePolicy string `json:"failure_policy"`
	TLS           *TLS   `json:"tls_config,omitempty"`
	// HMACSecretRef is the key that signs requests: the absolute path of a file, which is read
	// for each request, or the name of a secret in the secrets store. "" signs none.
	HMACSecretRef string `json:"hmac_secret_ref,omitempty"`
}

// Values of Hook.FailurePolicy.
const (
	Fail   = "fail"
	Ignore = "ignore"
)

// TLS is how a webhook's server is verified. Paths are absolute.
type TLS struct {
	CABundlePath   string `json:"ca_bundle_path,omitempty"`
	ClientCertPath string `json:"client_cert_path,omitempty"`
	ClientKeyPath  string `json:"client_key_path,omitempty"`
	// InsecureSkipVerify accepts any certificate, and plain HTTP.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// Timeout is a duration whose forms are text such as "5s" and a number of nanoseconds.
type Timeout time.Duration

// MarshalJSON writes the text.
func (t Timeout) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).String()) }

// UnmarshalJSON reads either form.
func (t *Timeout) UnmarshalJSON(b []byte) error {
	var nanoseconds int64
	if json.Unmarshal(b, &nanoseconds) == nil {
		*t = Timeout(nanoseconds)
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("a timeout is text such as \"5s\", or a number of nanoseconds")
	}
	d, err := time.ParseDuration(text)
	*t = Timeout(d)
	return err
}

const (
	defaultTimeout = 10 * time.Second
	minTimeout     = time.Second
	maxTimeout     = 30 * time.Second
)

// IsZero reports whether there is no webhook.
func (c Config) IsZero() bool { return len(c.Validating)+len(c.Mutating) == 0 }

// Merge returns c with the webhooks of a later file: one with the name of an earlier one of
// its kind replaces it in its place.
func (c Config) Merge(later Config) Config {
	return Config{Validating: merge(c.Validating, later.Validating), Mutating: merge(c.Mutating, later.Mutating)}
}

func merge(all, later []Hook) []Hook {
	all = slices.Clone(all)
	for _, h := range later {
		if i := slices.IndexFunc(all, func(o Hook) bool { return o.Name == h.Name }); i >= 0 {
			all[i] = h
			continue
		}
		all = append(all, h)
	}
	return all
}

// secret is the name of the secret that signs requests; "" if it is a file, or none.
func (h Hook) secret() string {
	if filepath.IsAbs(h.HMACSecretRef) {
		return ""
	}
	return h.HMACSecretRef
}

// Secrets returns the names of the secrets that sign requests.
func (c Config) Secrets() (names []string) {
	for _, h := range slices.Concat(c.Validating, c.Mutating) {
		if name := h.secret(); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Validate returns everything that is wrong with c. It does not read files.
func (c Config) Validate() error {
	var errs []error
	for _, list := range []struct {
		kind  string
		hooks []Hook
	}{{"validating", c.Validating}, {"mutating", c.Mutating}} {
		names := map[string]bool{}
		for i, h := range list.hooks {
			where := fmt.Sprintf("%s webhook %q", list.kind, h.Name)
			if h.Name == "" {
				where = fmt.Sprintf("%s webhook %d", list.kind, i+1)
				errs = append(errs, fmt.Errorf("%s has no name", where))
			} else if names[h.Name] {
				errs = append(errs, fmt.Errorf("%s is there twice", where))
			}
			names[h.Name] = true
			for _, fault := range h.faults() {
				errs = append(errs, fmt.Errorf("%s: %s", where, fault))
			}
		}
	}
	return errors.Join(errs...)
}

func (h Hook) faults() (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	check := netguard.CheckEndpoint
	if h.TLS != nil && h.TLS.InsecureSkipVerify {
		check = netguard.CheckInsecureEndpoint
	}
	if err := check(h.URL); err != nil {
		add("url %v", err)
	}
	if d := time.Duration(h.Timeout); d != 0 && (d < minTimeout || d > maxTimeout) {
		add("timeout %s: choose 1s to 30s", d)
	}
	switch h.FailurePolicy {
	case Fail, Ignore:
	case "":
		add("failure_policy is missing: choose fail or ignore")
	default:
		add("failure_policy %q: choose fail or ignore", h.FailurePolicy)
	}
	if name := h.secret(); name != "" && secret.CheckName(name) != nil {
		add("hmac_secret_ref %q: give the name of a secret, or the absolute path of a file with the key", name)
	}
	if t := h.TLS; t != nil {
		for field, path := range map[string]string{"ca_bundle_path": t.CABundlePath, "client_cert_path": t.ClientCertPath, "client_key_path": t.ClientKeyPath} {
			if path != "" && !filepath.IsAbs(path) {
				add("%s %q is not an absolute path", field, path)
			}
		}
		if (t.ClientCertPath == "") != (t.ClientKeyPath == "") {
			add("client_cert_path and client_key_path belong together")
		}
	}
	slices.Sort(faults)
	return faults
}
