package exchange

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// Caller is the sender of a request, as its access token proves. It must not be changed.
type Caller struct {
	// Principal identifies the sender to the gateway: sessions, and whatever else is kept
	// for a sender, belong to it. It is never empty. See [PrincipalOf].
	Principal string
	// Issuer and Subject are iss and sub of the token. A client that acts for itself may
	// have no subject; ClientID identifies it then, and is "" otherwise.
	Issuer, Subject, ClientID string
	Scopes                    []string
	// Expires is when the gateway no longer accepts the token.
	Expires time.Time
	// Claims are all claims of the token, numbers as json.Number.
	Claims map[string]any
	// Token is the token itself, where it is exchanged for another one; else it is empty.
	Token Token
}

// Token is an access token. No format of fmt, slog or encoding/json shows it.
type Token struct{ value string }

// NewToken returns the Token of a value.
func NewToken(value string) Token { return Token{value} }

// Reveal returns the token's value.
func (t Token) Reveal() string { return t.value }

// String hides the value from %v, %s, %q and slog.
func (Token) String() string { return "(hidden)" }

// GoString hides the value from %#v.
func (Token) GoString() string { return "(hidden)" }

// MarshalJSON hides the value from JSON.
func (Token) MarshalJSON() ([]byte, error) { return []byte(`"(hidden)"`), nil }

// PrincipalOf returns the principal of a caller: a hash, so that its size is bounded, of
// the fields after their lengths, so that no two callers have the same.
func PrincipalOf(issuer, subject, clientID string) string {
	var b []byte
	for _, field := range []string{issuer, subject, clientID} {
		b = binary.AppendUvarint(b, uint64(len(field)))
		b = append(b, field...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

type callerKey struct{}

// WithCaller returns a context of a request of the caller.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request's context; nil without authentication.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// LastCaller remembers the last caller of one principal's session, for the requests that
// the session sends by itself, such as that for a stream. A nil LastCaller remembers none.
type LastCaller struct{ last atomic.Pointer[Caller] }

// Attach returns a context with a caller: that of ctx, which is remembered, or else the
// remembered one. Without either it returns ctx.
func (l *LastCaller) Attach(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	if c := CallerOf(ctx); c != nil {
		l.last.Store(c)
	} else if c := l.last.Load(); c != nil {
		return WithCaller(ctx, c)
	}
	return ctx
}
