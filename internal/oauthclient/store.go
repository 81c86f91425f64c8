package oauthclient

import (
	"cmp"
	"time"
)

// Store keeps sign-ins in the user's secrets store: one value for each resource, and one
// for each authorization server that this client registered with. They are replaced whole,
// under a lock that other processes see. A Store may be used concurrently.
type Store struct {
	records records
	caFiles []string
	env     func(string) string
	now     func() time.Time
	secrets func(ref string) (string, error) // nil for none
}

// Open returns the store whose values are in the secrets store, and whose index is in a
// directory, which is created when first needed. env reads environment variables
// (os.Getenv) that hold client secrets. caFiles are PEM files of authorities trusted in
// addition to the system's.
func Open(dir string, values Values, env func(string) string, caFiles ...string) *Store {
	return &Store{records: records{dir: dir, values: values}, caFiles: caFiles, env: env, now: time.Now}
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

// hidden is a secret that fmt does not print. JSON for the store, and a conversion,
// contain it.
type hidden string

// String hides the value from %v, %s and %q.
func (h hidden) String() string { return "(hidden)" }

// GoString hides the value from %#v.
func (h hidden) GoString() string { return "(hidden)" }

// signIn is the record of a sign-in.
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
