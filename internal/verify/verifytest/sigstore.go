// Package verifytest is a sigstore instance of a test's own: an authority for certificates,
// a transparency log and a timestamp authority, with keys that are made anew each time. It
// signs images as cosign and GitHub's workflows do, and attaches signatures to images at a
// registry.
package verifytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"
)

// Sigstore is an instance.
type Sigstore struct {
	virtual      *ca.VirtualSigstore // the log and the timestamp authority
	root         *x509.Certificate
	intermediate *x509.Certificate
	key          *ecdsa.PrivateKey // of the intermediate
}

// New makes an instance.
func New() (*Sigstore, error) {
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		return nil, err
	}
	rootCert, rootKey, err := ca.GenerateRootCa()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "intermediate"},
		NotBefore: rootCert.NotBefore, NotAfter: rootCert.NotAfter,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, rootCert, key.Public(), rootKey)
	if err != nil {
		return nil, err
	}
	intermediate, err := x509.ParseCertificate(der)
	return &Sigstore{virtual, rootCert, intermediate, key}, err
}

// TrustedRoot is the instance's trusted_root.json. The trust in its authority ends at end;
// the zero time is never.
func (s *Sigstore) TrustedRoot(end time.Time) ([]byte, error) {
	authority := &root.FulcioCertificateAuthority{
		Root: s.root, Intermediates: []*x509.Certificate{s.intermediate},
		ValidityPeriodStart: time.Now().Add(-5 * time.Hour), ValidityPeriodEnd: end, URI: "https://fulcio.test",
	}
	logs := s.virtual.RekorLogs()
	for id, log := range logs {
		var err error
		if log.ID, err = hex.DecodeString(id); err != nil {
			return nil, err
		}
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, nil, s.virtual.TimestampingAuthorities(), logs)
	if err != nil {
		return nil, err
	}
	return trusted.MarshalJSON()
}

// Signer signs, with a certificate of the instance or with Key.
type Signer struct {
	Subject                               string // an e-mail address or a URI
	Issuer, Repository, Ref, Runner       string
	Key                                   *ecdsa.PrivateKey // nil: a certificate
	NoLog, NoTimestamp, NoProof, NoCertSA bool
	// From is when the certificate's ten minutes begin; the zero time is now. At is the time
	// that the log gives; the zero time is within these ten minutes.
	From, At time.Time
}

// Workflow is a signer as GitHub's workflows are.
func Workflow(repository string) Signer {
	return Signer{
		Subject:    "https://github.com/" + repository + "/.github/workflows/release.yml@refs/heads/main",
		Issuer:     "https://token.actions.githubusercontent.com",
		Repository: "https://github.com/" + repository, Ref: "refs/heads/main", Runner: "github-hosted",
	}
}

// signature is a signature over a message, with what proves its time.
type signature struct {
	value []byte
	leaf  *x509.Certificate // nil for a key
	pem   []byte            // the certificate, or the key
	stamp []byte
	entry *protorekor.TransparencyLogEntry
}

// sign signs a message. body makes the body of the log's entry.
func (s *Sigstore) sign(by Signer, message []byte, body func(sig *signature) ([]byte, error)) (*signature, error) {
	key := by.Key
	sig := &signature{}
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
		if sig.leaf, err = s.certify(by, key); err != nil {
			return nil, err
		}
		sig.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: sig.leaf.Raw})
	} else {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return nil, err
		}
		sig.pem = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	sum := sha256.Sum256(message)
	var err error
	if sig.value, err = key.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
		return nil, err
	}
	if !by.NoTimestamp {
		if sig.stamp, err = s.virtual.TimestampResponse(sig.value); err != nil {
			return nil, err
		}
	}
	if by.NoLog {
		return sig, nil
	}
	text, err := body(sig)
	if err != nil {
		return nil, err
	}
	sig.entry, err = s.log(by, text)
	return sig, err
}

// certify makes a certificate as Fulcio does.
func (s *Sigstore) certify(by Signer, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	from := by.from()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    from, NotAfter: from.Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if u, err := url.Parse(by.Subject); err == nil && u.Scheme != "" {
		template.URIs = []*url.URL{u}
	} else if !by.NoCertSA {
		template.EmailAddresses = []string{by.Subject}
	}
	for _, e := range []struct {
		id    asn1.ObjectIdentifier
		value string
	}{
		{certificate.OIDIssuerV2, by.Issuer},
		{certificate.OIDSourceRepositoryURI, by.Repository},
		{certificate.OIDSourceRepositoryRef, by.Ref},
		{certificate.OIDRunnerEnvironment, by.Runner},
	} {
		if e.value == "" {
			continue
		}
		value, err := asn1.MarshalWithParams(e.value, "utf8")
		if err != nil {
			return nil, err
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: e.id, Value: value})
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.intermediate, key.Public(), s.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// from is a minute ago: the signature's time is now, within the ten minutes.
func (by Signer) from() time.Time {
	if by.From.IsZero() {
		return time.Now().Add(-time.Minute)
	}
	return by.From
}

// log makes an entry of the log with a promise and a proof.
func (s *Sigstore) log(by Signer, body []byte) (*protorekor.TransparencyLogEntry, error) {
	id, err := s.virtual.RekorLogID()
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(id)
	if err != nil {
		return nil, err
	}
	at := by.At
	if at.IsZero() {
		at = by.from().Add(time.Minute)
	}
	promise, err := s.virtual.RekorSignPayload(tlog.RekorPayload{LogID: id, IntegratedTime: at.Unix(), LogIndex: 0, Body: base64.StdEncoding.EncodeToString(body)})
	if err != nil {
		return nil, err
	}
	var kind struct{ Kind, APIVersion string }
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, err
	}
	entry := &protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: raw}, KindVersion: &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime: at.Unix(), InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: promise}, CanonicalizedBody: body,
	}
	if by.NoProof {
		return entry, nil
	}
	proof, err := s.virtual.GetInclusionProof(body)
	if err != nil {
		return nil, err
	}
	rootHash, err := hex.DecodeString(*proof.RootHash)
	entry.InclusionProof = &protorekor.InclusionProof{
		TreeSize: *proof.TreeSize, RootHash: rootHash, Checkpoint: &protorekor.Checkpoint{Envelope: *proof.Checkpoint},
	}
	return entry, err
}

// hashed is the body of a hashedrekord entry.
func hashed(message []byte) func(*signature) ([]byte, error) {
	return func(sig *signature) ([]byte, error) {
		sum := sha256.Sum256(message)
		return json.Marshal(map[string]any{"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": map[string]any{
			"data":      map[string]any{"hash": map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}},
			"signature": map[string]any{"content": sig.value, "publicKey": map[string]any{"content": sig.pem}},
		}})
	}
}

// Statement is an in-toto statement about the image with the digest.
func Statement(digest, predicateType string, predicate any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"name": "image", "digest": map[string]any{"sha256": strings.TrimPrefix(digest, "sha256:")}}},
		"predicateType": predicateType, "predicate": predicate,
	})
}

// envelopeEntry is the body of a dsse entry of the log.
func envelopeEntry(statement []byte, envelope func(sig []byte) ([]byte, error)) func(*signature) ([]byte, error) {
	return func(sig *signature) ([]byte, error) {
		text, err := envelope(sig.value)
		if err != nil {
			return nil, err
		}
		whole, payload := sha256.Sum256(text), sha256.Sum256(statement)
		return json.Marshal(map[string]any{"apiVersion": "0.0.1", "kind": "dsse", "spec": map[string]any{
			"envelopeHash": map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(whole[:])},
			"payloadHash":  map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(payload[:])},
			"signatures":   []any{map[string]any{"signature": base64.StdEncoding.EncodeToString(sig.value), "verifier": sig.pem}},
		}})
	}
}

const payloadType = "application/vnd.in-toto+json"

// attest signs a statement in an envelope (DSSE).
func (s *Sigstore) attest(by Signer, statement []byte) (*signature, []byte, error) {
	envelope := func(value []byte) ([]byte, error) {
		return json.Marshal(map[string]any{
			"payloadType": payloadType, "payload": statement,
			"signatures": []any{map[string]any{"sig": value}},
		})
	}
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement)
	sig, err := s.sign(by, message, envelopeEntry(statement, envelope))
	if err != nil {
		return nil, nil, err
	}
	text, err := envelope(sig.value)
	return sig, text, err
}

// Bundle signs a statement and returns a sigstore bundle, version 0.3.
func (s *Sigstore) Bundle(by Signer, statement []byte) ([]byte, error) {
	sig, _, err := s.attest(by, statement)
	if err != nil {
		return nil, err
	}
	b := sig.bundle()
	b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		PayloadType: payloadType, Payload: statement, Signatures: []*protodsse.Signature{{Sig: sig.value}},
	}}
	return protojson.Marshal(b)
}

// MessageBundle signs an image's manifest itself and returns a bundle.
func (s *Sigstore) MessageBundle(by Signer, manifest []byte) ([]byte, error) {
	sig, err := s.sign(by, manifest, hashed(manifest))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(manifest)
	b := sig.bundle()
	b.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]}, Signature: sig.value,
	}}
	return protojson.Marshal(b)
}

func (sig *signature) bundle() *protobundle.Bundle {
	m := &protobundle.VerificationMaterial{}
	if sig.leaf != nil {
		m.Content = &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: sig.leaf.Raw}}
	} else {
		m.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "k"}}
	}
	if sig.entry != nil {
		m.TlogEntries = []*protorekor.TransparencyLogEntry{sig.entry}
	}
	if sig.stamp != nil {
		m.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: sig.stamp}},
		}
	}
	return &protobundle.Bundle{MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json", VerificationMaterial: m}
}

// Simple signs as cosign's tag sha256-DIGEST.sig has it: the payload and its annotations.
func (s *Sigstore) Simple(by Signer, digest string) (payload []byte, annotations map[string]string, err error) {
	payload, err = json.Marshal(map[string]any{"critical": map[string]any{
		"identity": map[string]any{"docker-reference": "example.test/server"},
		"image":    map[string]any{"docker-manifest-digest": digest},
		"type":     "cosign container image signature",
	}, "optional": nil})
	if err != nil {
		return nil, nil, err
	}
	sig, err := s.sign(by, payload, hashed(payload))
	if err != nil {
		return nil, nil, err
	}
	annotations = sig.annotations()
	annotations["dev.cosignproject.cosign/signature"] = base64.StdEncoding.EncodeToString(sig.value)
	return payload, annotations, nil
}

// Envelope signs as cosign's tag sha256-DIGEST.att has it.
func (s *Sigstore) Envelope(by Signer, statement []byte) (envelope []byte, annotations map[string]string, err error) {
	sig, envelope, err := s.attest(by, statement)
	if err != nil {
		return nil, nil, err
	}
	annotations = sig.annotations()
	annotations["dev.cosignproject.cosign/signature"] = ""
	return envelope, annotations, nil
}

func (sig *signature) annotations() map[string]string {
	out := map[string]string{}
	put := func(name string, v any) {
		text, _ := json.Marshal(v) // of maps and bytes: it does not fail
		out[name] = string(text)
	}
	if sig.leaf != nil {
		out["dev.sigstore.cosign/certificate"] = string(sig.pem)
	}
	if e := sig.entry; e != nil {
		put("dev.sigstore.cosign/bundle", map[string]any{
			"SignedEntryTimestamp": e.InclusionPromise.SignedEntryTimestamp,
			"Payload": map[string]any{
				"body": e.CanonicalizedBody, "integratedTime": e.IntegratedTime, "logIndex": e.LogIndex, "logID": hex.EncodeToString(e.LogId.KeyId),
			},
		})
	}
	if sig.stamp != nil {
		put("dev.sigstore.cosign/rfc3161timestamp", map[string]any{"SignedRFC3161Timestamp": sig.stamp})
	}
	return out
}
