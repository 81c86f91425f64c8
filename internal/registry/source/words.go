package source

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/registry"
)

// readSecret reads a credential from its file. what names its field.
func readSecret(what, path string) (string, error) {
	secret, err := netguard.ReadSecret(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return secret, nil
}

// redacted is an error whose text contains none of the secrets, in any encoding. It
// wraps the original error.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

// redact removes secrets from an error: a response may repeat the request.
func redact(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	return &redacted{withoutSecrets(err.Error(), secrets...), err}
}

// withoutSecrets removes secrets from a text.
func withoutSecrets(text string, secrets ...string) string {
	for _, s := range secrets {
		if s == "" {
			continue
		}
		// The longer forms first: a secret may be part of its own encoding.
		for _, form := range []string{
			base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			url.QueryEscape(s), url.PathEscape(s), s,
		} {
			text = strings.ReplaceAll(text, form, "[secret]")
		}
	}
	return text
}

// redactReasons removes secrets from the reasons why entries were left out.
func redactReasons(l *registry.LeftOut, secrets ...string) {
	for i, reason := range l.Reasons {
		l.Reasons[i] = withoutSecrets(reason, secrets...)
	}
}

// maxReason bounds an error's text in the store, in characters.
const maxReason = 500

// reasonText is the text of an error for the store and for people: part of it may come from
// another server.
func reasonText(err error) string { return plaintext.Excerpt(err.Error(), maxReason) }

// innermost drops the prefix of net/http, which repeats the URL, and names a
// timeout as one.
func innermost(err error) error {
	if netguard.Late(err) {
		return errors.New("it did not answer in time")
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// location is a URL without its parts that may be secret.
func location(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an unreadable URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// onThisMachine reports whether a configured URL is one of this machine, which permits
// loopback addresses.
func onThisMachine(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// sorted is a copy in order.
func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
