package admission

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Validity of a certificate of ours, and when it is replaced before its end.
const (
	validity = 90 * 24 * time.Hour
	renewal  = 30 * 24 * time.Hour
)

// pair is a certificate with its key and the authority that signed it, all PEM.
type pair struct{ authority, certificate, key []byte }

// newPair makes an authority, and a certificate for the hosts. The key of the authority is
// not kept: the next certificate has an authority of its own.
func newPair(hosts []string, now time.Time) (*pair, error) {
	serial := func() *big.Int {
		var b [16]byte
		_, _ = rand.Read(b[:])
		b[0] &= 0x7f // positive
		return new(big.Int).SetBytes(b[:])
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := &x509.Certificate{
		// Its own name tells authorities apart in a bundle.
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "toolhaven webhook " + rand.Text()[:8]},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: hosts[0]},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pair{encode("CERTIFICATE", authorityDER), encode("CERTIFICATE", leafDER), encode("EC PRIVATE KEY", keyDER)}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// check is what a server uses, or an error for a pair that cannot be used for the hosts at a
// time. end is when it must be replaced.
func (p *pair) check(hosts []string, now time.Time) (certificate *tls.Certificate, end time.Time, err error) {
	c, err := tls.X509KeyPair(p.certificate, p.key)
	if err != nil {
		return nil, time.Time{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.authority) {
		return nil, time.Time{}, errors.New("it has no authority")
	}
	if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return nil, time.Time{}, err
	}
	for _, host := range hosts {
		if err := c.Leaf.VerifyHostname(host); err != nil {
			return nil, time.Time{}, err
		}
	}
	end = c.Leaf.NotAfter.Add(-renewal)
	if now.After(end) {
		return nil, time.Time{}, fmt.Errorf("it ends at %s", c.Leaf.NotAfter.Format(time.RFC3339))
	}
	return &c, end, nil
}

// joinBundle is the bundle with an authority, and without what is no certificate or has
// ended. It is the same slice when nothing changes.
func joinBundle(bundle, authority []byte, now time.Time) []byte {
	var out []byte
	seen := map[string]bool{}
	add := func(content []byte) {
		for {
			block, rest := pem.Decode(content)
			if block == nil {
				return
			}
			content = rest
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil || now.After(c.NotAfter) || seen[string(c.Raw)] {
				continue
			}
			seen[string(c.Raw)] = true
			out = append(out, encode("CERTIFICATE", c.Raw)...)
		}
	}
	add(bundle)
	add(authority)
	if bytes.Equal(out, bundle) {
		return bundle
	}
	return out
}
