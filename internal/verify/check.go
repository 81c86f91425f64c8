package verify

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigverify "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// checker checks the signatures of one repository for one requirement.
type checker struct {
	verifier *Verifier
	registry *registryClient
	req      *Requirement

	root    *root.TrustedRoot // once loaded
	rootErr error
}

// try returns who signed a digest.
func (c *checker) try(ctx context.Context, digest v1.Hash) (signer string, f *failure) {
	found := false
	err := c.registry.signatures(ctx, digest, func(s candidate) bool {
		var again *failure
		if signer, again = c.check(ctx, s, digest); again == nil {
			found = true
			return false
		}
		f = worse(f, again)
		return true
	})
	if found {
		return signer, nil
	}
	if err != nil {
		f = worse(f, &failure{kind: ErrUnreachable, text: "fetch its signatures: " + plaintext.Line(err.Error())})
	}
	if f == nil {
		f = &failure{kind: ErrUnsigned}
	}
	f.digest = digest.String()
	return "", f
}

// check checks one signature.
func (c *checker) check(ctx context.Context, s candidate, digest v1.Hash) (signer string, f *failure) {
	defer func() {
		// The parsers below read bytes from outside; one that fails must not accept them.
		if r := recover(); r != nil {
			signer, f = "", &failure{kind: ErrInvalid, text: plaintext.Line(fmt.Sprintf("the signature cannot be read: %.200v", r))}
		}
	}()
	invalid := func(format string, args ...any) *failure {
		return &failure{kind: ErrInvalid, text: plaintext.Line(fmt.Sprintf(format, args...))}
	}
	sig, err := s.parse()
	if err != nil {
		return "", invalid("%.300v", err)
	}
	content, err := sig.bundle.VerificationContent()
	if err != nil {
		return "", invalid("%.300v", err)
	}
	var result *sigverify.VerificationResult
	if leaf := content.Certificate(); leaf != nil {
		result, signer, f = c.checkCertificate(ctx, sig, digest, leaf)
	} else {
		result, signer, f = c.checkKeys(ctx, sig, digest)
	}
	if f != nil {
		return "", f
	}
	if sig.payload != nil {
		if fault := simpleFault(sig.payload, digest.String()); fault != "" {
			return "", invalid("%s", fault)
		}
	}
	if result.Statement != nil {
		fault := c.req.Attestation.fault(result.Statement.GetPredicateType(), result.Statement.GetPredicate().AsMap())
		if fault != "" {
			return "", &failure{kind: ErrUnsigned, text: plaintext.Line(fault)}
		}
	} else if c.req.Attestation != nil {
		return "", &failure{kind: ErrUnsigned, text: "a signature without an attestation"}
	}
	return signer, nil
}

// checkCertificate checks a signature by a certificate: first that it holds, then whose it
// is.
func (c *checker) checkCertificate(ctx context.Context, sig *signed, digest v1.Hash, leaf *x509.Certificate) (*sigverify.VerificationResult, string, *failure) {
	material, err := c.trustedRoot(ctx)
	if err != nil {
		return nil, "", &failure{kind: ErrUnreachable, text: plaintext.Line(err.Error())}
	}
	options := []sigverify.VerifierOption{}
	if c.req.log(true) {
		options = append(options, sigverify.WithTransparencyLog(1))
	}
	if c.req.Timestamp || !c.req.log(true) {
		options = append(options, sigverify.WithSignedTimestamps(1))
	} else {
		options = append(options, sigverify.WithObserverTimestamps(1))
	}
	if len(material.CTLogs()) > 0 {
		options = append(options, sigverify.WithSignedCertificateTimestamps(1))
	}
	result, err := verifyBundle(material, options, sig, digest, sigverify.WithoutIdentitiesUnsafe())
	if err != nil {
		return nil, "", &failure{kind: ErrInvalid, text: certificateFault(leaf, material, err)}
	}
	cert := result.Signature.Certificate
	for _, id := range c.req.Identities {
		if id.matches(cert) {
			return result, describe(cert), nil
		}
	}
	return nil, "", &failure{kind: ErrSigner, text: describe(cert)}
}

// checkKeys checks a signature without a certificate with each of the keys.
func (c *checker) checkKeys(ctx context.Context, sig *signed, digest v1.Hash) (*sigverify.VerificationResult, string, *failure) {
	f := &failure{kind: ErrSigner, text: "another key"}
	if len(c.req.Keys) == 0 {
		f.text = "a key without a certificate"
		return nil, "", f
	}
	var base root.TrustedMaterial = &root.BaseTrustedMaterial{}
	var options []sigverify.VerifierOption
	if c.req.log(false) || c.req.Timestamp {
		material, err := c.trustedRoot(ctx)
		if err != nil {
			return nil, "", &failure{kind: ErrUnreachable, text: plaintext.Line(err.Error())}
		}
		base = material
	}
	if c.req.log(false) {
		options = append(options, sigverify.WithTransparencyLog(1))
	}
	if c.req.Timestamp {
		options = append(options, sigverify.WithSignedTimestamps(1))
	} else {
		options = append(options, sigverify.WithNoObserverTimestamps())
	}
	var errs []error
	for _, key := range c.req.Keys {
		verifier, err := signature.LoadVerifier(key.public, crypto.SHA256)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		material := keyMaterial{base, root.NewExpiringKey(verifier, time.Time{}, time.Time{})}
		result, err := verifyBundle(material, options, sig, digest, sigverify.WithKey())
		if err == nil {
			return result, "the key " + key.Name, nil
		}
		errs = append(errs, err)
	}
	// Whether another key signed, or this one signed something else, is not visible.
	f.text += ", or for another image: " + plaintext.Line(fmt.Sprintf("%.300v", errors.Join(errs...)))
	return nil, "", f
}

// keyMaterial is trusted material with one public key, whatever a bundle calls it.
type keyMaterial struct {
	root.TrustedMaterial
	key *root.ExpiringKey
}

// PublicKeyVerifier implements root.TrustedMaterial.
func (m keyMaterial) PublicKeyVerifier(string) (root.TimeConstrainedVerifier, error) {
	return m.key, nil
}

func verifyBundle(material root.TrustedMaterial, options []sigverify.VerifierOption, sig *signed, digest v1.Hash, who sigverify.PolicyOption) (*sigverify.VerificationResult, error) {
	verifier, err := sigverify.NewVerifier(material, options...)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(digest.Hex)
	if err != nil {
		return nil, err
	}
	artifact := sigverify.WithArtifactDigest("sha256", raw)
	if sig.payload != nil {
		artifact = sigverify.WithArtifact(bytes.NewReader(sig.payload))
	}
	return verifier.Verify(sig.bundle, sigverify.NewPolicy(artifact, who))
}

// log reports whether an entry in a transparency log is demanded.
func (r *Requirement) log(certificate bool) bool {
	if r.Log == nil {
		return certificate
	}
	return *r.Log
}

// certificateFault explains why a signature by a certificate does not hold. The cause that
// the library gives for a certificate is only that it is not valid.
func certificateFault(leaf *x509.Certificate, material root.TrustedMaterial, err error) string {
	during := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	known, current := false, false
	for _, authority := range material.FulcioCertificateAuthorities() {
		ca, ok := authority.(*root.FulcioCertificateAuthority)
		if !ok {
			continue
		}
		unlimited := *ca
		unlimited.ValidityPeriodStart, unlimited.ValidityPeriodEnd = time.Time{}, time.Time{}
		if _, err := unlimited.Verify(leaf, during); err == nil {
			known = true
			_, err = ca.Verify(leaf, during)
			current = current || err == nil
		}
	}
	cause := plaintext.Line(fmt.Sprintf("%.300v", err))
	switch {
	case !known:
		return "the signer's certificate is of no authority of the trusted root"
	case !current:
		return "the authority of the signer's certificate was not trusted when it signed: the trusted root has ended or revoked it"
	case time.Now().After(leaf.NotAfter):
		return fmt.Sprintf("the signer's certificate expired at %s, and no timestamp that the trusted root knows shows an earlier signature, or it is not of this image: %s", leaf.NotAfter.UTC().Format(time.RFC3339), cause)
	}
	return cause
}
