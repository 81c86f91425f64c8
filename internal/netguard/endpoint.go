package netguard

import (
	"errors"
	"fmt"
	"net/url"
)

// CheckEndpoint reports why raw must not be configured as an endpoint. It must be an
// absolute URL, HTTPS unless the host is this machine, without user information, query
// or fragment (RFC 8414 section 2 for issuers).
func CheckEndpoint(raw string) error { return checkEndpoint(raw, false) }

// CheckInsecureEndpoint is CheckEndpoint, but plain HTTP is permitted for every host.
func CheckInsecureEndpoint(raw string) error { return checkEndpoint(raw, true) }

// CheckOAuthEndpoint is CheckEndpoint for an authorization endpoint or a token endpoint, which
// may have a query (RFC 6749 sections 3.1 and 3.2).
func CheckOAuthEndpoint(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return CheckEndpoint(raw)
	}
	u.RawQuery, u.ForceQuery = "", false
	return CheckEndpoint(u.String())
}

func checkEndpoint(raw string, plain bool) error {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return errors.New("is required: an https URL")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q is not an absolute http(s) URL", raw)
	case u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return fmt.Errorf("%q must not have user information, a query or a fragment", u.Redacted())
	case u.Scheme == "http" && !plain && !isLoopbackName(u.Hostname()):
		return fmt.Errorf("%q must be HTTPS; plain HTTP is for this machine only", raw)
	}
	return nil
}
