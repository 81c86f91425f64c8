package idp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// newKey makes a private key for an algorithm, with a random id.
func newKey(t testing.TB, algorithm string) jose.JSONWebKey {
	t.Helper()
	var key crypto.Signer
	var err error
	switch jose.SignatureAlgorithm(algorithm) {
	case jose.RS256, jose.PS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		t.Fatalf("no identity provider signs with %q here", algorithm)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: algorithm, Use: "sig"}
}

// Authority is a certificate authority of a test.
type Authority struct {
	// PEM is its certificate, for caCertPath.
	PEM []byte

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority that is not trusted anywhere.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "Authority of a test"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	a := new(Authority)
	a.certificate, a.key = sign(t, template, nil, nil)
	a.PEM = encode("CERTIFICATE", a.certificate.Raw)
	return a
}

// Certificate issues a server certificate for host names and addresses.
func (a *Authority) Certificate(t testing.TB, hosts ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: hosts[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, key := sign(t, template, a.certificate, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", certificate.Raw), encode("PRIVATE KEY", der)
}

// sign makes a certificate and its key; without a parent, a self-signed one.
func sign(t testing.TB, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber = new(big.Int).SetBytes([]byte(rand.Text()[:16]))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
