package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// faults gathers what is wrong, each with the field it is wrong in.
type faults []error

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, fmt.Errorf(field+": "+format, args...))
}

// under puts the faults of a part below its field.
func (f *faults) under(field string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			f.under(field, e)
		}
		return
	}
	if err != nil {
		*f = append(*f, fmt.Errorf("%s.%w", field, err))
	}
}

// label is a DNS label (RFC 1123 section 2.1): names of sources and registries
// are part of URLs.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate reports everything that is wrong with c, files not looked at.
func (c *Config) Validate() error {
	var f faults
	c.validateAuth(&f)
	c.validateHosts(&f)
	c.validateAuthz(&f)
	c.validateDatabase(&f)
	c.validateSources(&f)
	c.validateRegistries(&f)
	c.validateWeb(&f)
	if c.Audit.OnFailure != AuditReject && c.Audit.OnFailure != AuditAccept {
		f.add("audit.onFailure", "%q is neither reject nor accept", c.Audit.OnFailure)
	}
	return errors.Join(f...)
}

func (c *Config) validateAuth(f *faults) {
	o := c.Auth.OAuth
	switch c.Auth.Mode {
	case ModeAnonymous:
		if o != nil {
			f.add("auth.oauth", "it restricts callers, and auth.mode is anonymous; remove one of the two")
		}
		return
	case ModeOAuth:
	default:
		f.add("auth.mode", "%q is neither oauth nor anonymous", c.Auth.Mode)
		return
	}
	if o == nil {
		o = &OAuth{}
	}
	const orAnonymous = "; to let everybody in without a token, for development, set auth.mode to anonymous"
	if o.ResourceURL == "" {
		f.add("auth.oauth.resourceUrl", "is required: the URL under which clients reach this server"+orAnonymous)
	} else if _, err := c.Resource(); err != nil {
		f.under("auth.oauth", err)
	}
	if len(o.Providers) == 0 {
		f.add("auth.oauth.providers", "at least one identity provider is required"+orAnonymous)
	}
	names := map[string]int{}
	for i, p := range o.Providers {
		field := fmt.Sprintf("auth.oauth.providers[%d]", i)
		converted := p.Auth()
		f.under(field, converted.Validate())
		if first, twice := names[p.Name]; twice && p.Name != "" {
			f.add(field+".name", "%q is the name of providers[%d] too", p.Name, first)
			continue
		}
		names[p.Name] = i
	}
	for i, p := range o.PublicPaths {
		if err := checkPublicPath(p); err != nil {
			f.add(fmt.Sprintf("auth.oauth.publicPaths[%d]", i), "%w", err)
		}
	}
	if o.Leeway != nil && (*o.Leeway < 0 || *o.Leeway > Duration(10*time.Minute)) {
		f.add("auth.oauth.leeway", "%s is not between 0 and 10m", time.Duration(*o.Leeway))
	}
}

// Warnings are about settings that are valid and dangerous.
func (c *Config) Warnings() []string {
	if c.Auth.OAuth == nil {
		return nil
	}
	u, err := url.Parse(c.Auth.OAuth.ResourceURL)
	if err != nil || u.Scheme != "http" {
		return nil
	}
	// A name without a dot, and one below a name that is never public, belong to a
	// private network (RFC 6762 section 3, RFC 8375, RFC 9476).
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()) {
		return nil
	}
	if !strings.Contains(host, ".") || privateName.MatchString(host) {
		return nil
	}
	return []string{"auth.oauth.resourceUrl is plain http on a public name: tokens and cookies can be read on the way; use https"}
}

var privateName = regexp.MustCompile(`(?i)\.(localhost|local|internal|test|alt|home\.arpa|svc|cluster\.local)$`)

// hostPattern is a name or an IPv4 address, or an IPv6 address in brackets, with or
// without a port.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func (c *Config) validateHosts(f *faults) {
	for i, host := range c.AllowedHosts {
		if !hostPattern.MatchString(host) || len(host) > 260 {
			f.add(fmt.Sprintf("allowedHosts[%d]", i), "%q is not a host such as registry.example.com or registry.example.com:8080", host)
		}
	}
}

// checkPublicPath: a public path is written as it is routed, so that there is
// nothing to interpret.
func checkPublicPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q must begin with /", p)
	case p == "/":
		return errors.New(`"/" would make everything public; if that is meant, set auth.mode to anonymous`)
	case strings.ContainsAny(p, `%\?#*{};`) || strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%q must be a plain path: no %%-encoding, backslash, wildcard, query or blank", p)
	}
	for _, segment := range strings.Split(strings.TrimSuffix(p[1:], "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%q has an empty or dot segment", p)
		}
	}
	return nil
}

func (c *Config) validateAuthz(f *faults) {
	if c.Authz == nil {
		return
	}
	if c.Auth.Mode == ModeAnonymous {
		f.add("authz", "needs callers with an identity, and auth.mode is anonymous")
	}
	if len(c.Authz.Rules) == 0 {
		f.add("authz.rules", "there is none, so nobody may do anything; remove the section for the default (any valid token reads, mcp-registry:write writes)")
	}
	for i, r := range c.Authz.Rules {
		field := fmt.Sprintf("authz.rules[%d]", i)
		for _, a := range r.Actions {
			if a != ActionRead && a != ActionWrite {
				f.add(field+".actions", "%q is neither read nor write", a)
			}
		}
		for _, name := range r.Registries {
			if !slices.ContainsFunc(c.Registries, func(r Registry) bool { return r.Name == name }) {
				f.add(field+".registries", "there is no registry %q", name)
			}
		}
		for claim, values := range r.Claims {
			if claim == "" || len(values) == 0 {
				f.add(field+".claims", "%q needs at least one value", claim)
			}
		}
		if len(r.Scopes) == 0 && len(r.Claims) == 0 && slices.Contains(r.Actions, ActionWrite) {
			f.add(field, "lets every valid token write; name a scope or a claim")
		}
	}
}

func (c *Config) validateDatabase(f *faults) {
	if c.Database.SQLite != nil && c.Database.Postgres != nil {
		f.add("database", "sqlite and postgres exclude each other")
	}
	p := c.Database.Postgres
	if p == nil {
		return
	}
	if p.URL == "" {
		f.add("database.postgres.url", "is required, such as postgres://user@host:5432/registry?sslmode=verify-full")
	}
	if p.MaxConnections < 2 || p.MaxConnections > 1000 {
		f.add("database.postgres.maxConnections", "%d is not between 2 and 1000", p.MaxConnections)
	}
	if u, err := url.Parse(p.URL); p.PasswordFile != "" && err == nil && u.User != nil {
		if _, given := u.User.Password(); given {
			f.add("database.postgres.passwordFile", "the URL holds a password too; keep one")
		}
	}
}

func (c *Config) validateSources(f *faults) {
	names := map[string]bool{}
	for i, s := range c.Sources {
		field := fmt.Sprintf("sources[%d]", i)
		switch {
		case !label.MatchString(s.Name):
			f.add(field+".name", "%q is not a name of lower-case letters, digits and dashes, at most 63", s.Name)
		case names[s.Name]:
			f.add(field+".name", "%q is there twice", s.Name)
		}
		names[s.Name] = true
		kinds := 0
		for _, given := range []bool{s.File != nil, s.Git != nil, s.API != nil, s.Managed != nil} {
			if given {
				kinds++
			}
		}
		if kinds != 1 {
			f.add(field, "exactly one of file, git, api and managed is required (managed: {} for the registry's own entries); there are %d", kinds)
			continue
		}
		s.validate(field, f)
	}
}

func (s *Source) validate(field string, f *faults) {
	if s.Managed != nil {
		if s.Interval != 0 {
			f.add(field+".interval", "a managed source is not synchronized")
		}
		if !s.Filter.empty() {
			f.add(field+".filter", "a managed source has no filter: what is in it was published to it")
		}
		return
	}
	if least := Duration(time.Second); s.Interval < least || s.Interval > Duration(30*24*time.Hour) {
		f.add(field+".interval", "%s is not between 1s and 720h", time.Duration(s.Interval))
	}
	switch {
	case s.File != nil:
		if s.File.Path == "" {
			f.add(field+".file.path", "is required")
		}
	case s.Git != nil:
		s.Git.validate(field+".git", f)
	case s.API != nil:
		if err := netguard.CheckEndpoint(s.API.Endpoint); err != nil {
			f.add(field+".api.endpoint", "%w", err)
		}
	}
	for kind, m := range map[string]Match{"names": s.Filter.Names, "tags": s.Filter.Tags} {
		for _, p := range slices.Concat(m.Include, m.Exclude) {
			if p == "" {
				f.add(field+".filter."+kind, "an empty pattern matches nothing")
			}
		}
	}
}

func (m Filter) empty() bool {
	return len(m.Names.Include)+len(m.Names.Exclude)+len(m.Tags.Include)+len(m.Tags.Exclude) == 0
}

// commit is a whole SHA-1 or SHA-256 object name.
var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func (g *Git) validate(field string, f *faults) {
	if err := checkRepository(g.Repository); err != nil {
		f.add(field+".repository", "%w", err)
	}
	given := 0
	for _, ref := range []string{g.Branch, g.Tag, g.Commit} {
		if ref != "" {
			given++
		}
	}
	if given > 1 {
		f.add(field, "branch, tag and commit exclude each other")
	}
	if g.Commit != "" && !commit.MatchString(g.Commit) {
		f.add(field+".commit", "%q is not a whole commit id", g.Commit)
	}
	if !filepath.IsLocal(filepath.FromSlash(g.Path)) {
		f.add(field+".path", "%q is not a path inside the repository", g.Path)
	}
	if (g.Username == "") != (g.PasswordFile == "") {
		f.add(field, "username and passwordFile go together")
	}
}

func checkRepository(raw string) error {
	if raw == "" {
		return errors.New("is required: an https, ssh or file URL")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return fmt.Errorf("%q is not a URL such as https://host/path.git", raw)
	}
	if _, password := u.User.Password(); password {
		return errors.New("the URL holds a password; use username and passwordFile")
	}
	switch u.Scheme {
	case "https", "ssh":
		if u.Host == "" {
			return fmt.Errorf("%q has no host", raw)
		}
	case "http":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%q must be HTTPS; plain HTTP is for this machine only", raw)
		}
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return fmt.Errorf("%q needs an absolute path: file:///path", raw)
		}
	default:
		return fmt.Errorf("%q: the scheme must be https, ssh or file", raw)
	}
	return nil
}

func (c *Config) validateRegistries(f *faults) {
	names := map[string]bool{}
	for i, r := range c.Registries {
		field := fmt.Sprintf("registries[%d]", i)
		switch {
		case !label.MatchString(r.Name):
			f.add(field+".name", "%q is not a name of lower-case letters, digits and dashes, at most 63", r.Name)
		case names[r.Name]:
			f.add(field+".name", "%q is there twice", r.Name)
		}
		names[r.Name] = true
		if len(r.Sources) == 0 {
			f.add(field+".sources", "at least one source is required")
		}
		managed := 0
		for j, name := range r.Sources {
			at := slices.IndexFunc(c.Sources, func(s Source) bool { return s.Name == name })
			switch {
			case at < 0:
				f.add(field+".sources", "there is no source %q", name)
			case slices.Index(r.Sources, name) < j:
				f.add(field+".sources", "%q is there twice", name)
			case c.Sources[at].Managed != nil:
				managed++
			}
		}
		if managed > 1 {
			f.add(field+".sources", "%d of them are managed; publications go to one", managed)
		}
	}
}

func (c *Config) validateWeb(f *faults) {
	login := c.Web.Login
	if login == nil {
		return
	}
	if c.Web.Disabled {
		f.add("web.login", "the page is disabled")
	}
	if c.Auth.Mode == ModeAnonymous {
		f.add("web.login", "there is nothing to sign in to: auth.mode is anonymous")
	}
	if login.ClientID == "" {
		f.add("web.login.clientId", "is required")
	}
	if o := c.Auth.OAuth; o != nil && !slices.ContainsFunc(o.Providers, func(p Provider) bool { return p.Name == login.Provider }) {
		f.add("web.login.provider", "%q is not the name of one of auth.oauth.providers", login.Provider)
	}
}
