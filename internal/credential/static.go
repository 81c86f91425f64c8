package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"

	"golang.org/x/net/http/httpguts"

	"github.com/toolhaven/toolhaven/internal/headername"
)

// Headers are fixed headers, set on every request, also on those of the gateway's own.
type Headers http.Header

// Apply implements [Credential].
func (c Headers) Apply(_ context.Context, h http.Header) error {
	for name, values := range c {
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	return nil
}

// Header returns a Credential that sets one header. value is called for each request.
func Header(name string, value func() (string, error)) Credential { return header{name, value} }

type header struct {
	name  string
	value func() (string, error)
}

// Apply implements [Credential].
func (c header) Apply(_ context.Context, h http.Header) error {
	value, err := c.value()
	if err != nil {
		return unavailable("the value of the header " + c.name + " for the server cannot be read: " + err.Error())
	}
	if !httpguts.ValidHeaderFieldValue(value) || value == "" {
		return unavailable("the value of the header " + c.name + " for the server is empty or not one line of text")
	}
	h.Set(c.name, value)
	return nil
}

// Bearer sends a token (RFC 6750 section 2.1), also with requests of the gateway's own. It
// is called for each request, so that a file may be replaced while the gateway runs.
type Bearer func() (token string, err error)

// Apply implements [Credential].
func (c Bearer) Apply(_ context.Context, h http.Header) error {
	token, err := c()
	if err != nil {
		return unavailable("the bearer token for the server cannot be read: " + err.Error())
	}
	if !httpguts.ValidHeaderFieldValue(token) || token == "" {
		return unavailable("the bearer token for the server is empty or not one line of text")
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// CheckHeader is an error when a configuration must not set a header of this name to the
// value.
func CheckHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("header %q: this is not a name of a header", name)
	case headername.OfGateway(name):
		return fmt.Errorf("header %q: the gateway sets it itself", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("header %q: its value has control characters", name)
	}
	return nil
}
