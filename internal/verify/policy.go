package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/distribution/reference"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/strictyaml"
)

// FileName is the policy file's name in the configuration directory.
const FileName = "image-policy.yaml"

// maxPolicy bounds the policy file, in bytes.
const maxPolicy = 1 << 20

// Policy is the user's policy file: who may sign which images. It precedes the provenance of
// registry entries.
type Policy struct {
	path        string
	trustedRoot string
	rules       []compiledRule
}

type compiledRule struct {
	prefix bool
	name   string // repository, or its beginning up to and with a /
	req    Requirement
}

// file is the form of the policy file.
type file struct {
	// TrustedRoot is a trusted_root.json of sigstore for all images, in place of the public
	// instance's.
	TrustedRoot string `json:"trustedRoot"`
	Images      []rule `json:"images"`
}

type rule struct {
	Image           string           `json:"image"`
	Identities      []ruleIdentity   `json:"identities"`
	Keys            []string         `json:"keys"` // files, or PEM
	TransparencyLog *bool            `json:"transparencyLog"`
	Timestamp       bool             `json:"timestamp"`
	TrustedRoot     string           `json:"trustedRoot"`
	Attestation     *ruleAttestation `json:"attestation"`
}

type ruleIdentity struct {
	Issuer        string `json:"issuer"`
	IssuerRegexp  string `json:"issuerRegexp"`
	Subject       string `json:"subject"`
	SubjectRegexp string `json:"subjectRegexp"`
	Repository    string `json:"repository"`
	Ref           string `json:"ref"`
	Runner        string `json:"runner"`
}

type ruleAttestation struct {
	PredicateType string `json:"predicateType"`
	Builder       string `json:"builder"`
}

// LoadPolicy reads the policy file of a configuration directory. Without a file the policy
// is empty. The error joins all faults, each with its rule.
func LoadPolicy(configDir string) (*Policy, error) {
	p := &Policy{path: filepath.Join(configDir, FileName)}
	f, err := os.Open(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the image policy: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxPolicy)
	if err == nil {
		err = p.parse(content)
	}
	if err != nil {
		return nil, fmt.Errorf("the image policy %s: %w", p.path, err)
	}
	return p, nil
}

// parse reads the content of the file.
func (p *Policy) parse(content []byte) error {
	var f file
	if err := strictyaml.Decode(content, &f); err != nil {
		return err
	}
	p.trustedRoot = p.beside(f.TrustedRoot)
	var errs []error
	seen := map[string]bool{}
	for i, r := range f.Images {
		c, err := p.compile(r)
		if err == nil && seen[r.Image] {
			err = errors.New("there are two rules for it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("images[%d] (%.100s): %w", i, r.Image, err))
			continue
		}
		seen[r.Image] = true
		p.rules = append(p.rules, c)
	}
	return errors.Join(errs...)
}

// beside is a path of the file, relative to the file's directory.
func (p *Policy) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(p.path), path)
}

func (p *Policy) compile(r rule) (compiledRule, error) {
	c := compiledRule{req: Requirement{
		Origin: p.path, Log: r.TransparencyLog, Timestamp: r.Timestamp, TrustedRoot: p.beside(r.TrustedRoot),
	}}
	if c.req.TrustedRoot == "" {
		c.req.TrustedRoot = p.trustedRoot
	}
	var err error
	if c.name, c.prefix, err = pattern(r.Image); err != nil {
		return c, err
	}
	if len(r.Identities)+len(r.Keys) == 0 {
		return c, errors.New("it names neither identities nor keys, so no signature could be accepted")
	}
	for _, id := range r.Identities {
		compiled, err := id.compile()
		if err != nil {
			return c, err
		}
		c.req.Identities = append(c.req.Identities, compiled)
	}
	for _, k := range r.Keys {
		key, err := p.key(k)
		if err != nil {
			return c, err
		}
		c.req.Keys = append(c.req.Keys, key)
	}
	if a := r.Attestation; a != nil {
		c.req.Attestation = &Attestation{PredicateType: a.PredicateType, Builder: a.Builder}
	}
	return c, nil
}

func (p *Policy) key(text string) (Key, error) {
	if strings.Contains(text, "-----BEGIN") {
		return ParseKey([]byte(text), "")
	}
	f, err := os.Open(p.beside(text))
	if err != nil {
		return Key{}, fmt.Errorf("read a public key: %w", err)
	}
	defer f.Close()
	content, err := netguard.ReadBounded(f, maxPolicy)
	if err != nil {
		return Key{}, fmt.Errorf("read the public key %s: %w", text, err)
	}
	key, err := ParseKey(content, text)
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", text, err)
	}
	return key, nil
}

func (r ruleIdentity) compile() (Identity, error) {
	id := Identity{Issuer: r.Issuer, Subject: r.Subject, Repository: r.Repository, Ref: r.Ref, Runner: r.Runner}
	var err error
	if id.IssuerPattern, err = whole(r.IssuerRegexp); err != nil {
		return id, fmt.Errorf("issuerRegexp: %w", err)
	}
	if id.SubjectPattern, err = whole(r.SubjectRegexp); err != nil {
		return id, fmt.Errorf("subjectRegexp: %w", err)
	}
	if err := id.validate(); err != nil {
		return id, fmt.Errorf("an identity does not determine who signs: %w", err)
	}
	return id, nil
}

// whole compiles a regular expression that must match the whole text.
func whole(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(text); err != nil { // before it is wrapped: it must be whole itself
		return nil, err
	}
	return regexp.Compile(`^(?:` + text + `)$`)
}

// pattern reads which images a rule is for: a repository, or a beginning that ends in /*; *
// is every image.
func pattern(text string) (name string, prefix bool, err error) {
	if text == "*" {
		return "", true, nil
	}
	base, prefix := strings.CutSuffix(text, "/*")
	if strings.Contains(base, "*") {
		return "", false, errors.New("a * stands only alone, or at the end after a /")
	}
	if prefix && !strings.Contains(base, "/") && (strings.ContainsAny(base, ".:") || base == "localhost") {
		return base + "/", true, nil // a registry
	}
	named, err := reference.ParseNormalizedNamed(base)
	if err != nil {
		return "", false, fmt.Errorf("%.200q is not the name of an image: %w", text, err)
	}
	if !reference.IsNameOnly(named) {
		return "", false, errors.New("a rule is for a repository; leave out the tag or digest")
	}
	if prefix {
		return strings.Replace(named.Name(), "docker.io/library/", "docker.io/", 1) + "/", true, nil
	}
	return named.Name(), false, nil
}

// For returns what is required of an image: by the rule of the policy that names it most
// exactly, otherwise by the provenance of the registry's entry, which may be nil. The error
// is ErrNoPolicy when neither is there, and states why when provenance cannot be used.
func (p *Policy) For(ref string, provenance *Provenance) (*Requirement, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not an image reference: %w", ref, err)
	}
	var best *compiledRule
	for i := range p.rules {
		r := &p.rules[i]
		fits := r.name == named.Name() && !r.prefix || r.prefix && strings.HasPrefix(named.Name(), r.name)
		if fits && (best == nil || !r.prefix || best.prefix && len(r.name) > len(best.name)) {
			best = r
		}
	}
	if best != nil {
		req := best.req
		return &req, nil
	}
	if provenance == nil {
		return nil, fmt.Errorf("%w: %s has no provenance in a registry entry, and no rule in %s", ErrNoPolicy, ref, p.path)
	}
	req, err := FromProvenance(*provenance)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPolicy, err)
	}
	req.TrustedRoot = p.trustedRoot
	return req, nil
}
