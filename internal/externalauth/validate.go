package externalauth

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Patterns of the schema. A name ends in URL for text that is parsed as well.
var (
	urlPattern      = regexp.MustCompile(`^https?://[^\s?#]+[^/\s?#]$`)
	arnPattern      = regexp.MustCompile(`^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$`)
	regionPattern   = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d+$`)
	dnsLabelPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	durationPattern = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
	claimPattern    = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)?$`)
	// scopePattern is a scope-token (RFC 6749 section 3.3).
	scopePattern   = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]+$`)
	subjectPattern = regexp.MustCompile(`^(access_token|id_token|jwt|urn:ietf:params:oauth:token-type:(access_token|id_token|jwt))?$`)
)

// Validate returns everything that is wrong with s, as [Faults].
func (s *Spec) Validate() error {
	c := &checker{}
	s.validateUnion(c)
	if x := s.TokenExchange; x != nil {
		x.validate(c, "spec.tokenExchange")
	}
	if x := s.HeaderInjection; x != nil {
		c.check("spec.headerInjection.headerName", serverHeader(x.HeaderName))
		c.secret("spec.headerInjection.valueSecretRef", x.ValueSecretRef)
	}
	if x := s.BearerToken; x != nil {
		c.secret("spec.bearerToken.tokenSecretRef", x.TokenSecretRef)
	}
	if x := s.UpstreamInject; x != nil {
		c.providerName("spec.upstreamInject.providerName", x.ProviderName)
	}
	if x := s.AWSSTS; x != nil {
		x.validate(c, "spec.awsSts")
	}
	if x := s.EmbeddedAuthServer; x != nil {
		x.validate(c, "spec.embeddedAuthServer")
	}
	if len(c.faults) > 0 {
		return c.faults
	}
	return nil
}

// validateUnion checks that the member of Type is set, and no other one.
func (s *Spec) validateUnion(c *checker) {
	members := []struct {
		of  Type
		set bool
	}{
		{TypeTokenExchange, s.TokenExchange != nil},
		{TypeHeaderInjection, s.HeaderInjection != nil},
		{TypeBearerToken, s.BearerToken != nil},
		{TypeUnauthenticated, false},
		{TypeEmbeddedAuthServer, s.EmbeddedAuthServer != nil},
		{TypeAWSSTS, s.AWSSTS != nil},
		{TypeUpstreamInject, s.UpstreamInject != nil},
	}
	known, names := false, make([]string, len(members))
	for i, m := range members {
		known = known || m.of == s.Type
		names[i] = string(m.of)
	}
	if !known {
		if s.Type == "" {
			c.add("spec.type", "is required; choose one of %s", strings.Join(names, ", "))
		} else {
			c.add("spec.type", "%q is not one of %s", s.Type, strings.Join(names, ", "))
		}
		return
	}
	for _, m := range members {
		field := "spec." + string(m.of)
		switch {
		case m.of == s.Type && !m.set && m.of != TypeUnauthenticated:
			c.add(field, "is required, because type is %s", s.Type)
		case m.of != s.Type && m.set:
			c.add(field, "must be absent, because type is %s", s.Type)
		}
	}
}

func (x *TokenExchange) validate(c *checker, field string) {
	c.endpoint(field+".tokenUrl", x.TokenURL)
	c.required(field+".audience", x.Audience)
	c.optionalSecret(field+".clientSecretRef", x.ClientSecretRef)
	if x.ClientSecretRef != nil && x.ClientID == "" {
		c.add(field+".clientId", "is required with clientSecretRef")
	}
	if x.ExternalTokenHeaderName != "" {
		c.check(field+".externalTokenHeaderName", serverHeader(x.ExternalTokenHeaderName))
	}
	c.scopes(field+".scopes", x.Scopes)
	if x.SubjectProviderName != "" {
		c.providerName(field+".subjectProviderName", x.SubjectProviderName)
	}
	if !subjectPattern.MatchString(x.SubjectTokenType) {
		c.add(field+".subjectTokenType", "%q is not access_token, id_token, jwt, or the URN of one", x.SubjectTokenType)
	}
}

// Bounds of AWSSTS.SessionDuration, in seconds.
const (
	minSession = 900
	maxSession = 43200
)

// MaxMatcher bounds a matcher, in characters.
const MaxMatcher = 4096

const maxMappings = 500

func (x *AWSSTS) validate(c *checker, field string) {
	if c.required(field+".region", x.Region) && !regionPattern.MatchString(x.Region) {
		c.add(field+".region", "%q is not a region such as eu-central-1", x.Region)
	}
	if x.FallbackRoleARN == "" && len(x.RoleMappings) == 0 {
		c.add(field, "at least one of fallbackRoleArn and roleMappings is required")
	}
	if x.FallbackRoleARN != "" {
		c.check(field+".fallbackRoleArn", arn(x.FallbackRoleARN))
	}
	c.atMost(field+".roleMappings", len(x.RoleMappings), maxMappings, "mappings")
	for i, m := range x.RoleMappings {
		at := fmt.Sprintf("%s.roleMappings[%d]", field, i)
		if c.required(at+".roleArn", m.RoleARN) {
			c.check(at+".roleArn", arn(m.RoleARN))
		}
		c.exactlyOne(at, "claim", m.Claim != "", "matcher", m.Matcher != "")
		c.atMost(at+".matcher", utf8.RuneCountInString(m.Matcher), MaxMatcher, "characters")
		if m.Priority != nil && *m.Priority < 0 {
			c.add(at+".priority", "is %d; it must be at least 0", *m.Priority)
		}
	}
	if d := x.SessionDuration; d != nil && (*d < minSession || *d > maxSession) {
		c.add(field+".sessionDuration", "is %d; it must be %d to %d seconds", *d, minSession, maxSession)
	}
	if x.SubjectProviderName != "" {
		c.providerName(field+".subjectProviderName", x.SubjectProviderName)
	}
}

func arn(text string) error {
	if !arnPattern.MatchString(text) {
		return fmt.Errorf("%q is not the ARN of a role, such as arn:aws:iam::123456789012:role/name", text)
	}
	return nil
}

const maxProviderName = 63

func (c *checker) providerName(field, name string) {
	if c.required(field, name) && (len(name) > maxProviderName || !dnsLabelPattern.MatchString(name)) {
		c.add(field, "%q is not a name of a provider: at most %d lower-case letters, digits and dashes", name, maxProviderName)
	}
}

func (c *checker) scopes(field string, scopes []string) {
	for i, s := range scopes {
		if !scopePattern.MatchString(s) {
			c.add(fmt.Sprintf("%s[%d]", field, i), "%q is not a scope (RFC 6749 section 3.3)", s)
		}
	}
}

func (c *checker) oneOf(field, value string, values ...string) {
	if !slices.Contains(values, value) {
		c.add(field, "%q is not one of %s", value, strings.Join(values, ", "))
	}
}
