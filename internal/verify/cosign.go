package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
)

// candidate is a signature as a registry has it.
type candidate struct {
	kind        string // media type
	content     []byte
	annotations map[string]string
}

// Annotations of cosign's signatures (cosign, specs/SIGNATURE_SPEC.md).
const (
	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationLog         = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// signed is a candidate as sigstore-go reads it. payload is what a simple signature signs;
// nil for bundles and envelopes, which name the image themselves.
type signed struct {
	bundle  *bundle.Bundle
	payload []byte
}

// parse reads a candidate. Nothing of it is trusted yet.
func (c candidate) parse() (*signed, error) {
	if strings.HasPrefix(c.kind, bundleType) {
		b := &bundle.Bundle{}
		if err := b.UnmarshalJSON(c.content); err != nil {
			return nil, fmt.Errorf("the bundle cannot be read: %w", err)
		}
		return &signed{bundle: b}, nil
	}
	material, err := c.material()
	if err != nil {
		return nil, err
	}
	pb := &protobundle.Bundle{MediaType: bundleType + "+json;version=0.1", VerificationMaterial: material}
	s := &signed{}
	if c.kind == envelopeType {
		envelope, err := readEnvelope(c.content)
		if err != nil {
			return nil, err
		}
		pb.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: envelope}
	} else {
		signature, err := base64.StdEncoding.DecodeString(c.annotations[annotationSignature])
		if err != nil || len(signature) == 0 {
			return nil, errors.New("the signature is not in base64")
		}
		sum := sha256.Sum256(c.content)
		s.payload = c.content
		pb.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature:     signature,
		}}
	}
	if s.bundle, err = bundle.NewBundle(pb); err != nil {
		return nil, fmt.Errorf("the signature cannot be read: %w", err)
	}
	return s, nil
}

// material reads what cosign writes beside a signature.
func (c candidate) material() (*protobundle.VerificationMaterial, error) {
	m := &protobundle.VerificationMaterial{}
	if text := c.annotations[annotationCertificate]; text != "" {
		block, _ := pem.Decode([]byte(text))
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("the certificate is not in PEM form")
		}
		m.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{
			Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}},
		}}
	} else {
		m.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "key"}}
	}
	if text := c.annotations[annotationLog]; text != "" {
		entry, err := readLogEntry([]byte(text))
		if err != nil {
			return nil, err
		}
		m.TlogEntries = []*protorekor.TransparencyLogEntry{entry}
	}
	if text := c.annotations[annotationTimestamp]; text != "" {
		var stamp struct{ SignedRFC3161Timestamp []byte }
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return nil, errors.New("the timestamp cannot be read")
		}
		m.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp.SignedRFC3161Timestamp}},
		}
	}
	return m, nil
}

// readLogEntry reads an entry of a transparency log as cosign writes it.
func readLogEntry(text []byte) (*protorekor.TransparencyLogEntry, error) {
	var entry struct {
		SignedEntryTimestamp []byte
		Payload              struct {
			Body           []byte `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := json.Unmarshal(text, &entry); err != nil {
		return nil, errors.New("the entry of the transparency log cannot be read")
	}
	log, err := hex.DecodeString(entry.Payload.LogID)
	if err != nil {
		return nil, errors.New("the entry of the transparency log names no log")
	}
	var kind struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(entry.Payload.Body, &kind); err != nil {
		return nil, errors.New("the body of the entry of the transparency log cannot be read")
	}
	return &protorekor.TransparencyLogEntry{
		LogIndex: entry.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: log},
		KindVersion:       &protorekor.KindVersion{Kind: kind.Kind, Version: kind.APIVersion},
		IntegratedTime:    entry.Payload.IntegratedTime,
		InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: entry.SignedEntryTimestamp},
		CanonicalizedBody: entry.Payload.Body,
	}, nil
}

// readEnvelope reads a DSSE envelope (github.com/secure-systems-lab/dsse, envelope.md).
func readEnvelope(text []byte) (*protodsse.Envelope, error) {
	var e struct {
		PayloadType string `json:"payloadType"`
		Payload     []byte `json:"payload"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   []byte `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, errors.New("the envelope of the attestation cannot be read")
	}
	out := &protodsse.Envelope{PayloadType: e.PayloadType, Payload: e.Payload}
	for _, s := range e.Signatures {
		out.Signatures = append(out.Signatures, &protodsse.Signature{Keyid: s.KeyID, Sig: s.Sig})
	}
	return out, nil
}

// simpleFault reports why a payload of a simple signature is not about the image; "" if it
// is (github.com/containers/image, docs/containers-signature.5.md). The signature over it
// holds already.
func simpleFault(payload []byte, digest string) string {
	var p struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	switch err := json.Unmarshal(payload, &p); {
	case err != nil:
		return "what is signed cannot be read"
	case p.Critical.Type != "cosign container image signature" && p.Critical.Type != typeCosign:
		return fmt.Sprintf("what is signed is no image, but %.100q", p.Critical.Type)
	case p.Critical.Image.Digest != digest:
		return fmt.Sprintf("the signature is of another image, %.100s", p.Critical.Image.Digest)
	}
	return ""
}
