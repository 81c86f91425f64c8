package upstream

import (
	"errors"
	"time"
)

// The outcomes that a caller decides on. Any other error means that the provider broke the
// protocol, or that its configuration is wrong.
var (
	// ErrDenied: the person or the provider refused (RFC 6749 section 4.1.2.1).
	ErrDenied = errors.New("the sign-in was refused")
	// ErrUnavailable: the provider cannot be reached now, or answers that it is overloaded.
	ErrUnavailable = errors.New("the provider is not available now")
	// ErrExpired: the grant or the client is no longer valid; a new sign-in is needed.
	ErrExpired = errors.New("a new sign-in is needed")
)

// Attempt is a sign-in that has begun, until the browser returns. It has secrets: the server
// stores it sealed.
type Attempt struct {
	Provider string `json:"provider"`
	State    string `json:"state"`
	Verifier string `json:"verifier"` // of PKCE (RFC 7636)
	Nonce    string `json:"nonce,omitempty"`
	Redirect string `json:"redirect"`
	ClientID string `json:"client"`
	// Issuer and SendsIssuer are noted before the browser leaves (RFC 9207 section 2.4).
	Issuer      string `json:"issuer,omitempty"`
	SendsIssuer bool   `json:"sendsIssuer,omitempty"`
}

// Login is the result of a sign-in.
type Login struct {
	Identity Identity `json:"identity"`
	Tokens   Tokens   `json:"tokens"`
}

// Identity is the person as the provider knows them.
type Identity struct {
	// Subject identifies the person at this provider.
	Subject string `json:"subject"`
	Name    string `json:"name,omitempty"`
	// Email is "" if the provider states that it did not verify the address.
	Email string `json:"email,omitempty"`
	// Synthesized: nothing identifies the person. Subject is derived from the access token
	// and differs after each sign-in.
	Synthesized bool `json:"synthesized,omitempty"`
}

// Tokens are what the provider issued for the person.
type Tokens struct {
	AccessToken  string   `json:"accessToken"`
	RefreshToken string   `json:"refreshToken,omitempty"`
	IDToken      string   `json:"idToken,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	// Expiry is when AccessToken expires; the zero time is unknown.
	Expiry time.Time `json:"expiry,omitzero"`
}
