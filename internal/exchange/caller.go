package exchange

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
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
}

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
