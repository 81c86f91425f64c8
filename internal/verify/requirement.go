package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Identity is who a certificate must be of. Every field that is set must match.
type Identity struct {
	// Issuer is the identity provider (OID 1.3.6.1.4.1.57264.1.8).
	Issuer        string
	IssuerPattern *regexp.Regexp
	// Subject is the subject alternative name: an e-mail address, or the URI of a workflow.
	// A URI matches without its @REF too, and one that begins with / is below Repository.
	Subject        string
	SubjectPattern *regexp.Regexp
	// Repository and Ref are the source repository and its git reference
	// (1.3.6.1.4.1.57264.1.12 and .14), Runner where the build ran (.11).
	Repository, Ref, Runner string
}

// Key is a public key that may sign.
type Key struct {
	// Name is its file, or the beginning of its fingerprint.
	Name   string
	public crypto.PublicKey
}

// Attestation is what a signed statement must be.
type Attestation struct {
	// PredicateType is the type of the in-toto statement; "" is SLSA provenance.
	PredicateType string
	// Builder is the builder's id in SLSA provenance; "" is any.
	Builder string
	// Predicate are members that the predicate must have, with these values; nil is none.
	Predicate map[string]any
}

// Provenance is that of a registry's entry for an image.
type Provenance struct {
	SigstoreURL       string
	RepositoryURI     string
	RepositoryRef     string
	SignerIdentity    string
	RunnerEnvironment string
	CertIssuer        string
	PredicateType     string
	Predicate         string // JSON object; "" is none
}

// Sigstore instances.
const (
	publicInstance = "tuf-repo-cdn.sigstore.dev"
	gitHubInstance = "tuf-repo.github.com"
)

// issuers are the identity providers of the workflows of well-known hosts. A certificate of
// another provider can name a repository that it has nothing to do with.
var issuers = map[string]string{
	"github.com": "https://token.actions.githubusercontent.com",
	"gitlab.com": "https://gitlab.com",
}

// FromProvenance returns what a registry's entry requires. The error states what the entry
// lacks, if it does not determine who signs.
func FromProvenance(p Provenance) (*Requirement, error) {
	id := Identity{
		Issuer: p.CertIssuer, Subject: p.SignerIdentity, Ref: p.RepositoryRef, Runner: p.RunnerEnvironment,
		Repository: strings.TrimSuffix(strings.TrimSuffix(p.RepositoryURI, "/"), ".git"),
	}
	if id.Issuer == "" {
		if u, err := url.Parse(id.Repository); err == nil && u.Scheme == "https" {
			id.Issuer = issuers[u.Host]
		}
	}
	if err := id.validate(); err != nil {
		return nil, fmt.Errorf("the provenance of the registry entry does not determine who signs: %w", err)
	}
	req := &Requirement{Origin: "the registry entry", Identities: []Identity{id}}
	req.Instance = strings.TrimSuffix(strings.TrimPrefix(p.SigstoreURL, "https://"), "/")
	if req.Instance == publicInstance {
		req.Instance = ""
	}
	if req.Instance == gitHubInstance {
		no := false // it has timestamps in place of a log
		req.Log = &no
	}
	if p.PredicateType != "" || p.Predicate != "" {
		req.Attestation = &Attestation{PredicateType: p.PredicateType}
		if p.Predicate != "" {
			if err := json.Unmarshal([]byte(p.Predicate), &req.Attestation.Predicate); err != nil {
				return nil, errors.New("the provenance of the registry entry has a predicate that is not a JSON object")
			}
		}
	}
	return req, nil
}

// validate reports an identity that everybody could have.
func (id Identity) validate() error {
	switch {
	case id.Issuer == "" && id.IssuerPattern == nil:
		return errors.New("it names no issuer of the certificate")
	case id.Subject == "" && id.SubjectPattern == nil && id.Repository == "":
		return errors.New("it names neither a signer nor a repository")
	case strings.HasPrefix(id.Subject, "/") && id.Repository == "":
		return fmt.Errorf("the signer %q is a path, and no repository is named", id.Subject)
	}
	return nil
}

// matches compares a certificate with the identity.
func (id Identity) matches(cert *certificate.Summary) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	fits := func(want *regexp.Regexp, got string) bool { return want == nil || want.MatchString(got) }
	subject := cert.SubjectAlternativeName
	return id.validate() == nil &&
		same(id.Issuer, cert.Issuer) && fits(id.IssuerPattern, cert.Issuer) &&
		(same(id.subject(), subject) || same(id.subject(), withoutRef(subject))) && fits(id.SubjectPattern, subject) &&
		same(id.Repository, cert.SourceRepositoryURI) && same(id.Ref, cert.SourceRepositoryRef) && same(id.Runner, cert.RunnerEnvironment)
}

// subject is the whole subject, of a path in the repository too.
func (id Identity) subject() string {
	if strings.HasPrefix(id.Subject, "/") {
		return id.Repository + id.Subject
	}
	return id.Subject
}

// withoutRef cuts the git reference off the URI of a workflow:
// https://github.com/a/b/.github/workflows/c.yml@refs/heads/main.
func withoutRef(subject string) string {
	before, _, found := strings.Cut(subject, "@")
	if !found || !strings.HasPrefix(subject, "https://") {
		return subject
	}
	return before
}

func (id Identity) String() string {
	text := id.subject()
	if id.SubjectPattern != nil {
		text = id.SubjectPattern.String()
	}
	if text == "" {
		text = "a workflow of " + id.Repository
	}
	for _, part := range []struct{ what, value string }{{" at ", id.Ref}, {" on ", id.Runner}} {
		if part.value != "" {
			text += part.what + part.value
		}
	}
	issuer := id.Issuer
	if id.IssuerPattern != nil {
		issuer = id.IssuerPattern.String()
	}
	return text + " (issuer " + issuer + ")"
}

// describe is a certificate for people.
func describe(cert *certificate.Summary) string {
	text := cert.SubjectAlternativeName
	if cert.SourceRepositoryURI != "" && !strings.HasPrefix(text, cert.SourceRepositoryURI+"/") {
		text += " of " + cert.SourceRepositoryURI
	}
	if cert.RunnerEnvironment != "" {
		text += " on " + cert.RunnerEnvironment
	}
	return plaintext.Line(fmt.Sprintf("%.300s (issuer %.200s)", text, cert.Issuer))
}

// accepts are the accepted signers, for people.
func (r *Requirement) accepts() string {
	var all []string
	for _, id := range r.Identities {
		all = append(all, id.String())
	}
	for _, k := range r.Keys {
		all = append(all, "the key "+k.Name)
	}
	text := strings.Join(all, ", or ")
	if a := r.Attestation; a != nil {
		text += ", in an attestation"
		if a.PredicateType != "" {
			text += " of " + a.PredicateType
		}
		if a.Builder != "" {
			text += " by the builder " + a.Builder
		}
	}
	return text
}

// String is the requirement for people.
func (r *Requirement) String() string { return r.accepts() + ", by " + r.Origin }

// minRSA is the size of an RSA key, in bits.
const minRSA = 2048

// ParseKey reads a public key (PEM, PKIX). name is for people; "" is its fingerprint.
func ParseKey(text []byte, name string) (Key, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return Key{}, errors.New("it is not one public key in PEM form (BEGIN PUBLIC KEY)")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("the public key cannot be read: %w", err)
	}
	switch k := public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return Key{}, fmt.Errorf("the RSA key has %d bits; %d are needed", k.N.BitLen(), minRSA)
		}
	default:
		return Key{}, errors.New("the key is neither ECDSA, Ed25519 nor RSA")
	}
	if name == "" {
		sum := sha256.Sum256(block.Bytes)
		name = hex.EncodeToString(sum[:8])
	}
	return Key{Name: name, public: public}, nil
}

// The types of statements that count as a signature of the image without an Attestation.
const (
	typeCosign    = "https://sigstore.dev/cosign/sign/v1"
	typeSLSA1     = "https://slsa.dev/provenance/v1"
	typeSLSA02    = "https://slsa.dev/provenance/v0.2"
	slsaTypeStart = "https://slsa.dev/provenance/"
)

// fault compares a statement with the attestation; "" is a match. A statement of another
// type, such as a list of vulnerabilities, does not approve an image.
func (a *Attestation) fault(predicateType string, predicate map[string]any) string {
	if a == nil {
		if predicateType == typeCosign || predicateType == typeSLSA1 || predicateType == typeSLSA02 {
			return ""
		}
		return fmt.Sprintf("an attestation of type %.200q, which is no signature of the image", predicateType)
	}
	if a.PredicateType == "" && !strings.HasPrefix(predicateType, slsaTypeStart) || a.PredicateType != "" && a.PredicateType != predicateType {
		return fmt.Sprintf("an attestation of type %.200q", predicateType)
	}
	if a.Builder != "" {
		if got := builder(predicate); got != a.Builder {
			return fmt.Sprintf("an attestation by the builder %.200q", got)
		}
	}
	if !contains(predicate, a.Predicate) {
		return "an attestation with other content"
	}
	return ""
}

// builder is the builder's id of SLSA provenance: runDetails.builder.id of version 1,
// builder.id of version 0.2.
func builder(predicate map[string]any) string {
	outer, _ := predicate["runDetails"].(map[string]any)
	if outer == nil {
		outer = predicate
	}
	inner, _ := outer["builder"].(map[string]any)
	id, _ := inner["id"].(string)
	return id
}

// contains reports whether got has all members of want, at any depth of objects.
func contains(got, want map[string]any) bool {
	for key, w := range want {
		g, there := got[key]
		wo, wobj := w.(map[string]any)
		gobj, isObj := g.(map[string]any)
		switch {
		case !there:
			return false
		case wobj && isObj:
			if !contains(gobj, wo) {
				return false
			}
		case !reflect.DeepEqual(g, w):
			return false
		}
	}
	return true
}
