package verify

import (
	"context"
	"crypto"
	"crypto/x509"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/toolhaven/toolhaven/internal/verify/verifytest"
)

func marshalKey(key crypto.PublicKey) ([]byte, error) { return x509.MarshalPKIXPublicKey(key) }

func summary(subject, issuer string) *certificate.Summary {
	return &certificate.Summary{SubjectAlternativeName: subject, Extensions: certificate.Extensions{Issuer: issuer}}
}

// Whatever a registry has as a signature, it is refused unless a key signed it.
func FuzzSignature(f *testing.F) {
	digest := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("1", 64)}
	sigstore := must(verifytest.New())(f)
	statement := must(verifytest.Statement("sha256:"+strings.Repeat("2", 64), typeCosign, nil))(f)
	bundle := must(sigstore.Bundle(verifytest.Workflow("a/b"), statement))(f)
	f.Add(bundleType+".v0.3+json", bundle, "", "", "", "")
	payload, a, err := sigstore.Simple(verifytest.Workflow("a/b"), digest.String())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(simpleSigningType, payload, a[annotationSignature], a[annotationCertificate], a[annotationLog], a[annotationTimestamp])
	envelope, a, err := sigstore.Envelope(verifytest.Workflow("a/b"), statement)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(envelopeType, envelope, "", a[annotationCertificate], a[annotationLog], a[annotationTimestamp])
	// The trusted root is another instance's, so nothing is signed by it.
	root := must(verifytest.New())(f)
	path := f.TempDir() + "/trusted_root.json"
	writeRoot(f, path, root)
	_, key := newKey(f)
	f.Fuzz(func(t *testing.T, kind string, content []byte, signature, cert, log, stamp string) {
		c := &checker{verifier: &Verifier{}, req: &Requirement{
			Origin: "x", TrustedRoot: path, Keys: []Key{key},
			Identities: []Identity{{Issuer: "https://token.actions.githubusercontent.com", Repository: "https://github.com/a/b"}},
		}}
		signer, failure := c.check(context.Background(), candidate{kind: kind, content: content, annotations: map[string]string{
			annotationSignature: signature, annotationCertificate: cert, annotationLog: log, annotationTimestamp: stamp,
		}}, digest)
		if failure == nil {
			t.Fatalf("accepted, of %s", signer)
		}
		if strings.ContainsAny(failure.text, "\n\x1b") {
			t.Errorf("%q", failure.text)
		}
		if strings.HasPrefix(failure.text, "the signature cannot be read: ") && strings.Contains(failure.text, "runtime error") {
			t.Errorf("a panic: %s", failure.text)
		}
	})
}
