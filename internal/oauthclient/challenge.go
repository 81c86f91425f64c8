package oauthclient

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Bounds on WWW-Authenticate.
const (
	maxChallengeBytes = 16 << 10
	maxChallenges     = 32
	maxParams         = 32
)

// Challenge is one authentication scheme that a server offers (RFC 9110 section 11.3).
type Challenge struct {
	// Scheme is in lower case; schemes are case-insensitive.
	Scheme string
	// Token68 is the scheme's one unnamed value; "" with parameters.
	Token68 string
	// Params are by lower-case name, without quotes; nil when there are none.
	Params map[string]string
}

// ParseChallenges parses the values of WWW-Authenticate: several fields, each with
// one or more challenges (RFC 9110 section 11.6.1). A malformed field is skipped and
// reported in the error; the challenges of the others are returned with it.
func ParseChallenges(fields []string) ([]Challenge, error) {
	var all []Challenge
	var errs []error
	total := 0
	for _, field := range fields {
		if total += len(field); total > maxChallengeBytes {
			errs = append(errs, fmt.Errorf("WWW-Authenticate is longer than %d bytes", maxChallengeBytes))
			break
		}
		found, err := parseField(field)
		if err == nil && len(all)+len(found) > maxChallenges {
			err = fmt.Errorf("there are more than %d challenges", maxChallenges)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("WWW-Authenticate: %w", err))
			continue
		}
		all = append(all, found...)
	}
	return all, errors.Join(errs...)
}

// bearer is the first challenge of the scheme Bearer (RFC 6750 section 3) that
// has the parameter, or the first at all.
func bearer(all []Challenge, param string) (Challenge, bool) {
	var first Challenge
	found := false
	for _, c := range all {
		if c.Scheme != "bearer" {
			continue
		}
		if c.Params[param] != "" {
			return c, true
		}
		if !found {
			first, found = c, true
		}
	}
	return first, found
}

// OffersBearer reports whether the header of a response 401 has a challenge of the scheme
// Bearer.
func OffersBearer(h http.Header) bool {
	all, _ := ParseChallenges(h.Values("WWW-Authenticate"))
	_, ok := bearer(all, "")
	return ok
}

const (
	tokenChars  = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
	quotedValue = `"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"` // RFC 9110 section 5.6.4
)

var (
	// element is one element of the list (RFC 9110 sections 11.2 and 11.6.1): a
	// parameter, which may be the first of a scheme, or a scheme, which may have a
	// token68. Its groups are scheme, name, value; scheme, token68.
	element    = regexp.MustCompile(`^(?:(?:(` + tokenChars + `) +)?(` + tokenChars + `)[ \t]*=[ \t]*(` + tokenChars + `|` + quotedValue + `)|(` + tokenChars + `)(?: +([A-Za-z0-9\-._~+/]+=*))?)[ \t]*(?:,|$)`)
	quotedPair = regexp.MustCompile(`(?s)\\(.)`)
)

// parseField parses one field. Errors do not quote it.
func parseField(field string) ([]Challenge, error) {
	var all []Challenge
	for rest := field; ; {
		if rest = strings.TrimLeft(rest, " \t,"); rest == "" {
			return all, nil
		}
		m := element.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("it is malformed at byte %d", len(field)-len(rest))
		}
		rest = rest[len(m[0]):]
		scheme, name, value := m[1]+m[4], strings.ToLower(m[2]), m[3]
		if scheme != "" {
			if len(all) == maxChallenges {
				return nil, fmt.Errorf("there are more than %d challenges", maxChallenges)
			}
			all = append(all, Challenge{Scheme: strings.ToLower(scheme), Token68: m[5]})
		}
		if name == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Token68 != "" {
			return nil, errors.New("a parameter follows no scheme")
		}
		if strings.HasPrefix(value, `"`) {
			value = quotedPair.ReplaceAllString(value[1:len(value)-1], "$1")
		}
		if err := all[len(all)-1].add(name, value); err != nil {
			return nil, err
		}
	}
}

func (c *Challenge) add(name, value string) error {
	if _, repeated := c.Params[name]; repeated { // RFC 6750 section 3
		return errors.New("a parameter is repeated")
	}
	if len(c.Params) == maxParams {
		return fmt.Errorf("a challenge has more than %d parameters", maxParams)
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	c.Params[name] = value
	return nil
}
