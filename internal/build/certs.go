package build

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxBundle bounds a certificate file, in bytes; Debian's is 220 KB.
const maxBundle = 8 << 20

// bundlePlaces are the files in which systems keep the authorities that they trust.
var bundlePlaces = [...]string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
	"/etc/ssl/ca-bundle.pem",             // openSUSE
	"/etc/ssl/cert.pem",                  // macOS, BSD
}

// certificates returns the PEM of every authority that the host trusts and of the file
// extra, "" for none. Builds use them because a base image does not trust a private
// authority of the host.
func (e environment) certificates(extra string) ([]byte, error) {
	bundle, err := e.hostBundle()
	if err != nil || extra == "" {
		return bundle, err
	}
	pemText, err := readCertificates(extra)
	if err != nil {
		return nil, err
	}
	return append(append(bytes.TrimRight(bundle, "\n"), '\n'), pemText...), nil
}

// hostBundle is nil on a host that keeps its authorities in another form.
func (e environment) hostBundle() ([]byte, error) {
	if named := e("SSL_CERT_FILE"); named != "" {
		return readCertificates(named)
	}
	for _, place := range bundlePlaces {
		text, err := readCertificates(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return text, err
	}
	return nil, nil
}

// readCertificates reads a PEM file that holds at least one certificate.
func readCertificates(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificates: %w", err)
	}
	defer f.Close()
	text, err := netguard.ReadBounded(f, maxBundle)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificates in %s: %w", path, err)
	}
	for rest := text; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
		}
		if block.Type != "CERTIFICATE" {
			if block.Type == "PRIVATE KEY" || block.Type == "RSA PRIVATE KEY" || block.Type == "EC PRIVATE KEY" {
				return nil, fmt.Errorf("%s holds a private key: give a file of certificates alone, because images keep it", path)
			}
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			return text, nil
		}
	}
}
