package oauthclient

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds on what a server puts into WWW-Authenticate.
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
		p := challengeParser{text: field}
		found, err := p.field()
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

type challengeParser struct {
	text string
	at   int
}

// field parses a list of challenges. Commas separate challenges, and the parameters
// of one challenge. A token followed by "=" is a parameter; any other begins the next
// challenge.
func (p *challengeParser) field() ([]Challenge, error) {
	var all []Challenge
	separated := true // after a comma, or at the start
	for {
		for p.skip(" \t") || p.skip(",") {
			separated = separated || p.text[p.at-1] == ','
		}
		if p.at == len(p.text) {
			return all, nil
		}
		word := p.token()
		if word == "" {
			return nil, p.fault("a word is missing")
		}
		begun := len(all) > 0
		if after := strings.TrimLeft(p.text[p.at:], " \t"); begun && strings.HasPrefix(after, "=") {
			p.at = len(p.text) - len(after) + 1
			if err := p.param(&all[len(all)-1], word); err != nil {
				return nil, err
			}
			separated = false
			continue
		}
		if !separated {
			return nil, p.fault("a comma is missing")
		}
		if len(all) == maxChallenges {
			return nil, fmt.Errorf("there are more than %d challenges", maxChallenges)
		}
		all = append(all, Challenge{Scheme: strings.ToLower(word), Token68: p.token68()})
		// The first parameter follows its scheme without a comma.
		if separated = all[len(all)-1].Token68 == "" && p.firstParam(); !separated && p.at < len(p.text) && !strings.HasPrefix(strings.TrimLeft(p.text[p.at:], " \t"), ",") {
			return nil, p.fault("neither a parameter nor a comma follows")
		}
	}
}

// firstParam reports whether "name =" follows, after the space that a scheme needs.
func (p *challengeParser) firstParam() bool {
	q := *p
	if !q.skip(" ") || q.token() == "" {
		return false
	}
	q.skip(" \t")
	return strings.HasPrefix(q.text[q.at:], "=")
}

// param parses a parameter's value, which follows its name and "=".
func (p *challengeParser) param(c *Challenge, name string) error {
	if c.Token68 != "" {
		return p.fault("a parameter beside a token68")
	}
	p.skip(" \t")
	var value string
	if strings.HasPrefix(p.text[p.at:], `"`) {
		var err error
		if value, err = p.quoted(); err != nil {
			return err
		}
	} else if value = p.token(); value == "" {
		return p.fault("a value is missing")
	}
	if rest := strings.TrimLeft(p.text[p.at:], " \t"); rest != "" && rest[0] != ',' {
		return p.fault("a comma is missing")
	}
	name = strings.ToLower(name)
	if _, twice := c.Params[name]; twice { // RFC 6750 section 3
		return p.fault("a parameter is there twice")
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

// quoted reads a quoted-string (RFC 9110 section 5.6.4).
func (p *challengeParser) quoted() (string, error) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		c := p.text[i]
		switch c {
		case '"':
			p.at = i + 1
			return b.String(), nil
		case '\\':
			if i++; i == len(p.text) {
				return "", p.fault("a quote is not closed")
			}
			c = p.text[i]
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", p.fault("a control character is quoted")
		}
		b.WriteByte(c)
	}
	return "", p.fault("a quote is not closed")
}

// token68 parses the unnamed value of a scheme, if there is one: it extends to the
// next comma (RFC 9110 section 11.2).
func (p *challengeParser) token68() string {
	q := *p
	if !q.skip(" ") {
		return ""
	}
	start := q.at
	q.while(func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0 })
	if q.at == start {
		return ""
	}
	q.skip("=")
	end := q.at
	q.skip(" \t")
	if q.at < len(q.text) && q.text[q.at] != ',' {
		return ""
	}
	p.at = end
	return q.text[start:end]
}

func (p *challengeParser) token() string {
	start := p.at
	p.while(func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 })
	return p.text[start:p.at]
}

func (p *challengeParser) while(ok func(byte) bool) {
	for p.at < len(p.text) && ok(p.text[p.at]) {
		p.at++
	}
}

// skip passes over any of the characters and reports whether there were any.
func (p *challengeParser) skip(characters string) bool {
	start := p.at
	p.while(func(c byte) bool { return strings.IndexByte(characters, c) >= 0 })
	return p.at > start
}

// fault describes an error without quoting the field, which is from outside.
func (p *challengeParser) fault(what string) error {
	return fmt.Errorf("%s at byte %d", what, p.at)
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
