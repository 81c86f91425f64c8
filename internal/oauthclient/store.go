package oauthclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/settings"
)

// Store keeps sign-ins in a directory that only its user can read: one file for each
// resource, and one for each authorization server that this client registered with.
// Files are replaced whole, under a lock that other processes see. A Store may be
// used concurrently.
type Store struct {
	files   directory
	caFiles []string
	env     func(string) string
	now     func() time.Time
	secrets func(ref string) (string, error) // nil for none
}

// Open returns the store of a directory, which is created when first needed. env
// reads environment variables (os.Getenv) that hold client secrets. caFiles are PEM
// files of authorities trusted in addition to the system's.
func Open(dir string, env func(string) string, caFiles ...string) *Store {
	return &Store{files: directory(dir), caFiles: caFiles, env: env, now: time.Now}
}

// WithSecrets returns the store with a function that returns the secret of a client for
// its reference ([Registered].SecretRef).
func (s *Store) WithSecrets(secrets func(ref string) (string, error)) *Store {
	c := *s
	c.secrets = secrets
	return &c
}

// WithCAFiles returns the store with PEM files of authorities trusted beside the system's.
func (s *Store) WithCAFiles(files []string) *Store {
	c := *s
	c.caFiles = files
	return &c
}

// hidden is a secret that fmt does not print. JSON for the store's files, and a
// conversion, contain it.
type hidden string

// String hides the value from %v, %s and %q.
func (h hidden) String() string { return "(hidden)" }

// GoString hides the value from %#v.
func (h hidden) GoString() string { return "(hidden)" }

// signIn is the file of a sign-in.
type signIn struct {
	Version  int    `json:"version"`
	Resource string `json:"resource"` // byte for byte as in its metadata
	Issuer   string `json:"issuer"`
	// TokenEndpoint and RevocationEndpoint are those of the sign-in. Tokens are sent
	// to no other, also when the metadata changes later.
	TokenEndpoint      string   `json:"tokenEndpoint"`
	RevocationEndpoint string   `json:"revocationEndpoint,omitempty"`
	Client             identity `json:"client"`
	Reach              reach    `json:"reach"`
	// Target is the URL that a keyed sign-in is for; tokens are used for no other. "" for
	// a sign-in that is found by its resource.
	Target string `json:"target,omitempty"`
	// Indicator is the resource indicator, where it is not Resource; NoIndicator: none is
	// sent.
	Indicator   string `json:"indicator,omitempty"`
	NoIndicator bool   `json:"noIndicator,omitempty"`
	// Wanted are scopes that the resource required since the sign-in.
	Wanted []string `json:"wanted,omitempty"`
	grant
}

// indicator is the resource indicator of token requests (RFC 8707 section 2.2), "" for
// none.
func (k *signIn) indicator() string {
	if k.NoIndicator {
		return ""
	}
	return cmp.Or(k.Indicator, k.Resource)
}

// grant is what is kept of a token response.
type grant struct {
	AccessToken  hidden    `json:"accessToken"`
	RefreshToken hidden    `json:"refreshToken,omitempty"` // "" when there is none, or it is invalid
	Scope        string    `json:"scope,omitempty"`
	Expires      time.Time `json:"expires,omitzero"` // zero when unknown
}

// registration is a client that this machine registered.
type registration struct {
	Version     int      `json:"version"`
	Issuer      string   `json:"issuer"`
	RedirectURI string   `json:"redirectUri"`
	Scope       string   `json:"scope"` // that it was registered with
	Client      identity `json:"client"`
	// Expires is when its secret expires; zero when never.
	Expires time.Time `json:"expires,omitzero"`
}

const storeVersion = 1

// key is a resource's identifier in one spelling.
func key(u *url.URL) string {
	k := netguard.Origin(u) + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		k += "?" + u.RawQuery
	}
	return k
}

// directory is the path of a store's directory. File names are digests: an identifier
// may be longer than a name can be.
type directory string

func (d directory) file(kind, key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(string(d), kind, hex.EncodeToString(sum[:16])+".json")
}

func (d directory) signIn(key string) string          { return d.file("logins", key) }
func (d directory) registration(issuer string) string { return d.file("clients", issuer) }

// find returns the sign-in of the most specific resource that covers the target, and
// its file; nil when there is none.
func (d directory) find(target *url.URL) (string, *signIn, error) {
	k := key(target)
	least := len(netguard.Origin(target))
	for {
		file := d.signIn(k)
		kept, err := load(file)
		if err != nil {
			return "", nil, err
		}
		if kept != nil {
			resource, err := url.Parse(kept.Resource)
			if err != nil || !covers(resource, target) {
				return "", nil, damaged(file)
			}
			return file, kept, nil
		}
		if len(k) <= least {
			return "", nil, nil
		}
		if i := strings.LastIndexAny(k, "/?"); i >= least {
			k = k[:i]
		} else {
			return "", nil, nil
		}
	}
}

// dropRegistration deletes a registration that led to no sign-in: the server may have
// deleted it too, and reports that only to the browser.
func (d directory) dropRegistration(issuer string, id identity) {
	if id.Own {
		_ = forget(d.registration(issuer)) // the next attempt uses it again
	}
}

// load returns the sign-in of a file; nil when there is none.
func load(file string) (*signIn, error) {
	kept := &signIn{}
	found, err := read(file, kept, &kept.Version)
	if err != nil || !found {
		return nil, err
	}
	if kept.Resource == "" || kept.TokenEndpoint == "" || kept.AccessToken == "" {
		return nil, damaged(file)
	}
	return kept, nil
}

func read(file string, v any, version *int) (found bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read a sign-in: %w", err)
	}
	defer f.Close()
	b, err := netguard.ReadBounded(f, maxDocument)
	if err != nil {
		return false, fmt.Errorf("read a sign-in: %s: %w", file, err)
	}
	// The parser's error may quote the content.
	if json.Unmarshal(b, v) != nil || *version != storeVersion {
		return false, damaged(file)
	}
	return true, nil
}

func damaged(file string) error {
	return fmt.Errorf("%s is damaged or of another version of thv; delete it and sign in again", file)
}

func write(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return settings.WriteAtomic(file, b, 0o600)
}

func forget(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a sign-in: %w", err)
	}
	return nil
}

// locked calls do while it holds the file's lock, which excludes other processes too.
// Lock files are never deleted: two files of one name would be two locks.
func locked(ctx context.Context, file string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("lock a sign-in: %w", err)
	}
	lock := flock.New(file+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return fmt.Errorf("lock a sign-in: %w", err)
	}
	defer lock.Unlock()
	return do()
}
