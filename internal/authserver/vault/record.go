package vault

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/toolhaven/toolhaven/internal/authserver/upstream"
	"github.com/toolhaven/toolhaven/internal/seal"
)

const (
	recordVersion = 1
	// maxTokens bounds the tokens of a record; maxRecord is more than they have when sealed,
	// with each byte escaped.
	maxTokens = 128 << 10
	maxRecord = 2 << 20
	maxScopes = 1000
	maxYear   = 9999    // RFC 3339, as which times are stored
	maxPart   = 8 << 10 // of a Binding
	maxKeys   = 32      // of a ring
	// A token is refreshed this long before it expires, or in the last fifth of its life if
	// that is shorter.
	early, earlyPart = time.Minute, 5
)

// record is what is stored, sealed, for a Binding. It does not change.
type record struct {
	Version int    `json:"version"`
	Key     string `json:"key"` // of the binding
	// Login identifies the login that the tokens began with, Refreshes counts since then.
	Login     string          `json:"login"`
	Refreshes uint64          `json:"refreshes,omitempty"`
	Tokens    upstream.Tokens `json:"tokens"`
	Issued    time.Time       `json:"issued"`
	// Ends is when the record is removed.
	Ends time.Time `json:"ends"`
	// Refused: the provider refused the refresh token, which was removed.
	Refused bool `json:"refused,omitempty"`
	// Renewed: it was issued because a server rejected its predecessor. Same: the provider
	// issued the rejected access token again.
	Renewed bool `json:"renewed,omitempty"`
	Same    bool `json:"same,omitempty"`

	raw []byte // as it is stored
}

func newLogin(key string, t upstream.Tokens, now time.Time, lifetime time.Duration) *record {
	return &record{Version: recordVersion, Key: key, Login: rand.Text(), Tokens: t, Issued: now, Ends: now.Add(lifetime)}
}

// next is the record after a refresh. What the answer leaves out is kept: the refresh token
// (RFC 6749 section 6), the scopes (section 5.1) and the ID token (OpenID Connect Core 1.0
// section 12.2).
func (r *record) next(t upstream.Tokens, now time.Time, rejected string) *record {
	if t.RefreshToken == "" {
		t.RefreshToken = r.Tokens.RefreshToken
	}
	if t.IDToken == "" {
		t.IDToken = r.Tokens.IDToken
	}
	if t.Scopes == nil {
		t.Scopes = r.Tokens.Scopes
	}
	return &record{
		Version: recordVersion, Key: r.Key, Login: r.Login, Refreshes: r.Refreshes + 1, Tokens: t, Issued: now, Ends: r.Ends,
		Renewed: rejected != "", Same: rejected != "" && t.AccessToken == rejected,
	}
}

// refused is the record after the provider refused the refresh token.
func (r *record) refused() *record {
	next := *r
	next.raw = nil
	next.Tokens.RefreshToken = ""
	next.Refused = true
	return &next
}

// same reports whether r and o are the same state of the same login.
func (r *record) same(o *record) bool {
	return r.Login == o.Login && r.Refreshes == o.Refreshes && r.Refused == o.Refused
}

// succeeds reports whether r follows o in the same login.
func (r *record) succeeds(o *record) bool {
	if r.Login != o.Login {
		return false
	}
	return r.Refreshes > o.Refreshes || r.Refreshes == o.Refreshes && r.Refused && !o.Refused
}

// valid reports whether the access token can be used.
func (r *record) valid(now time.Time) bool {
	return now.Before(r.Ends) && (r.Tokens.Expiry.IsZero() || now.Before(r.Tokens.Expiry))
}

// due reports whether the access token is to be refreshed. One that expires at an unknown
// time is refreshed when a server rejects it.
func (r *record) due(now time.Time) bool {
	if r.Tokens.Expiry.IsZero() {
		return false
	}
	before := min(early, max(0, r.Tokens.Expiry.Sub(r.Issued)/earlyPart))
	return !now.Before(r.Tokens.Expiry.Add(-before))
}

// futile reports whether another refresh would not help a server that rejects the token.
func (r *record) futile(now time.Time) bool {
	return r.Same || r.Renewed && now.Before(r.Issued.Add(renewedTime))
}

// check fails if a part is missing or too large.
func (b Binding) check() error {
	for _, part := range []string{b.Session, b.Client, b.Provider, b.Subject} {
		if part == "" || len(part) > maxPart {
			return errors.New("a binding needs session, client, provider and subject, each of a bounded length")
		}
	}
	return nil
}

// key is the key of a binding in the store: a hash in which each part has its length, so
// that no two bindings have the same.
func (b Binding) key() string {
	h := sha256.New()
	for _, part := range []string{b.Session, b.Client, b.Provider, b.Subject} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return "upstream-token:" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func checkTokens(t upstream.Tokens) error {
	size := len(t.AccessToken) + len(t.RefreshToken) + len(t.IDToken)
	whole := utf8.ValidString(t.AccessToken) && utf8.ValidString(t.RefreshToken) && utf8.ValidString(t.IDToken)
	for _, scope := range t.Scopes {
		size += len(scope)
		whole = whole && utf8.ValidString(scope)
	}
	switch {
	case t.AccessToken == "":
		return errors.New("the provider issued no access token")
	case size > maxTokens || len(t.Scopes) > maxScopes:
		return fmt.Errorf("the provider's tokens have more than %d bytes or %d scopes", maxTokens, maxScopes)
	case t.Expiry.Year() > maxYear:
		return errors.New("the provider's token expires after the year 9999")
	case !whole: // JSON would not keep it
		return errors.New("the provider's tokens are not text")
	}
	return nil
}

// seal returns the record as it is stored.
func (v *Vault) seal(r *record) ([]byte, error) {
	ring, err := v.ring()
	if err != nil {
		return nil, err
	}
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, errors.New("the provider's tokens cannot be encoded")
	}
	return []byte(ring[0].Close(r.Key, plain)), nil
}

// open returns a record as it was stored under a key. One that was not sealed for it, or with
// a key that is no longer in the ring, is ErrLogin.
func (v *Vault) open(key string, raw []byte) (*record, error) {
	if len(raw) > maxRecord {
		return nil, fmt.Errorf("%w: the stored tokens are too large", ErrLogin)
	}
	ring, err := v.ring()
	if err != nil {
		return nil, err
	}
	for _, sealer := range ring {
		plain, err := sealer.Open(key, string(raw))
		if err != nil {
			continue
		}
		r, err := decode(key, plain)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLogin, err)
		}
		r.raw = raw
		return r, nil
	}
	return nil, fmt.Errorf("%w: the stored tokens cannot be opened with the present keys", ErrLogin)
}

// decode reads a record and checks that it is one of the binding.
func decode(key string, plain []byte) (*record, error) {
	var r record
	if err := json.Unmarshal(plain, &r); err != nil {
		return nil, errors.New("the stored tokens are not a record") // the error may have a token
	}
	switch {
	case r.Version != recordVersion:
		return nil, errors.New("the stored tokens have another version")
	case r.Key != key:
		return nil, errors.New("the stored tokens have another binding")
	case r.Login == "" || r.Issued.IsZero() || r.Ends.IsZero():
		return nil, errors.New("the stored tokens are not complete")
	}
	return &r, checkTokens(r.Tokens)
}

// ring returns the sealers of the keys.
func (v *Vault) ring() ([]*seal.Sealer, error) {
	keys, err := v.keys()
	if err != nil {
		return nil, fmt.Errorf("%w: read the keys: %w", ErrUnavailable, err)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: there are %d keys, not 1 to %d", ErrUnavailable, len(keys), maxKeys)
	}
	ring := make([]*seal.Sealer, len(keys))
	for i, key := range keys {
		if ring[i], err = seal.New(key); err != nil {
			return nil, fmt.Errorf("%w: key %d: %w", ErrUnavailable, i+1, err)
		}
	}
	return ring, nil
}
