package workload

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The values of --image-verification. The empty one is VerifyWarn.
const (
	VerifyWarn     = "warn"     // an image that is not verified runs, and a note says so
	VerifyEnabled  = "enabled"  // it does not run
	VerifyDisabled = "disabled" // nothing is verified
)

// Provenance is who signs an image, by the registry's entry for it. The JSON form is the one
// of registries in use.
type Provenance struct {
	// SigstoreURL is the instance that issues the certificates; "" is the public one.
	SigstoreURL       string       `json:"sigstore_url,omitempty"`
	RepositoryURI     string       `json:"repository_uri,omitempty"`
	RepositoryRef     string       `json:"repository_ref,omitempty"`
	SignerIdentity    string       `json:"signer_identity,omitempty"`
	RunnerEnvironment string       `json:"runner_environment,omitempty"`
	CertIssuer        string       `json:"cert_issuer,omitempty"`
	Attestation       *Attestation `json:"attestation,omitempty"`
}

// Attestation is a statement that must be signed for an image.
type Attestation struct {
	PredicateType string          `json:"predicate_type,omitempty"`
	Predicate     json.RawMessage `json:"predicate,omitempty"`
}

// Verification is the value of --image-verification that applies.
func (c *Container) Verification() string {
	if c.ImageVerification == "" {
		return VerifyWarn
	}
	return c.ImageVerification
}

// validateVerification reports a value that does not exist.
func (c *Container) validateVerification() error {
	if !slices.Contains([]string{VerifyWarn, VerifyEnabled, VerifyDisabled}, c.Verification()) {
		return fmt.Errorf("image verification %q: choose warn, enabled or disabled", c.ImageVerification)
	}
	return nil
}

// Verified records that the resolved image was verified: its digest, and who signed it.
func (s *Spec) Verified(digest, signer string) {
	s.Resolved.Digest, s.Resolved.SignedBy = digest, signer
}

// Unverified reports whether the Spec demands a verified image and has none.
func (s *Spec) Unverified() bool {
	return s.Remote == nil && s.Package == nil && s.Container.Verification() == VerifyEnabled && (s.Resolved == nil || s.Resolved.SignedBy == "")
}
