package authserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// reload is how long keys are used before their secrets are read again.
const reload = 10 * time.Second

// minSecret is the least size of an HMAC secret, in bytes.
const minSecret = 32

// reloaded is a value made from secrets, and made again when they change. While a secret
// cannot be read or used, the last value stays in use.
type reloaded[T any] struct {
	refs   []externalauth.SecretRef
	secret func(externalauth.SecretRef) (string, error)
	parse  func(secrets []string) (T, error)
	log    *slog.Logger

	mu      sync.Mutex
	read    time.Time
	secrets []string
	value   T
}

// get returns the value. The error is that of the first time only.
func (r *reloaded[T]) get() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.read.IsZero() && (len(r.refs) == 0 || time.Since(r.read) < reload) {
		return r.value, nil
	}
	value, secrets, err := r.load()
	first := r.read.IsZero()
	if err != nil && first {
		return r.value, err
	}
	r.read = time.Now()
	if err != nil {
		r.log.Error("changed keys cannot be used; the former stay in use", "error", err)
	} else if first || !slices.Equal(secrets, r.secrets) {
		r.value, r.secrets = value, secrets
	}
	return r.value, nil
}

func (r *reloaded[T]) load() (value T, secrets []string, err error) {
	for _, ref := range r.refs {
		text, err := r.secret(ref)
		if err != nil {
			return value, nil, fmt.Errorf("secret %s: %w", ref, err)
		}
		secrets = append(secrets, text)
	}
	value, err = r.parse(secrets)
	return value, secrets, err
}

// signingKeys sign and verify tokens.
type signingKeys struct {
	access jose.Signer // of access tokens (RFC 9068 section 2.1)
	id     jose.Signer // of ID tokens
	alg    jose.SignatureAlgorithm
	// public are the keys that verify, the signing key first.
	public jose.JSONWebKeySet
}

// parseSigningKeys parses private keys in PEM; none is a random one.
func parseSigningKeys(secrets []string) (*signingKeys, error) {
	var private []crypto.Signer
	for i, text := range secrets {
		key, err := parsePrivateKey(text)
		if err != nil {
			return nil, fmt.Errorf("signing key %d: %w", i+1, err)
		}
		private = append(private, key)
	}
	if len(private) == 0 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		private = []crypto.Signer{key}
	}
	keys := &signingKeys{}
	for _, key := range private {
		alg, err := algorithm(key)
		if err != nil {
			return nil, err
		}
		public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(alg), Use: "sig"}
		thumbprint, err := public.Thumbprint(crypto.SHA256) // RFC 7638
		if err != nil {
			return nil, err
		}
		public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
		if keys.access == nil {
			keys.alg = alg
			signing := jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}}
			if keys.access, err = jose.NewSigner(signing, (&jose.SignerOptions{}).WithType("at+jwt")); err != nil {
				return nil, err
			}
			if keys.id, err = jose.NewSigner(signing, (&jose.SignerOptions{}).WithType("JWT")); err != nil {
				return nil, err
			}
		}
		keys.public.Keys = append(keys.public.Keys, public)
	}
	return keys, nil
}

// token returns a signed JWT.
func token(sign jose.Signer, claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := sign.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// parsePrivateKey parses PKCS #8, PKCS #1 or SEC 1. No error quotes the text.
func parsePrivateKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is not a private key in PEM")
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(b []byte) (any, error) { return x509.ParsePKCS1PrivateKey(b) },
		func(b []byte) (any, error) { return x509.ParseECPrivateKey(b) },
	} {
		if key, err := parse(block.Bytes); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	return nil, fmt.Errorf("it is not an unencrypted RSA, ECDSA or Ed25519 key in PKCS #8, PKCS #1 or SEC 1 (PEM type %.40q)", block.Type)
}

func algorithm(key crypto.Signer) (jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if k.N.BitLen() < 2048 { // RFC 7518 section 3.3
			return "", fmt.Errorf("an RSA key of %d bits is too small; 2048 is the least", k.N.BitLen())
		}
		return jose.RS256, nil
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	}
	return "", errors.New("a signing key must be RSA, ECDSA (P-256, P-384, P-521) or Ed25519")
}

// ring are keys derived from the HMAC secrets. The first makes, all verify.
type ring struct {
	records []*seal.Sealer // what is stored, and client ids
	vault   [][]byte       // of upstream tokens
	refresh [][]byte       // of refresh tokens
	clients [][]byte       // of client secrets
}

// parseRing derives a ring; without secrets it is a random one.
func parseRing(secrets []string) (*ring, error) {
	if len(secrets) == 0 {
		secrets = []string{string(seal.NewKey())}
	}
	r := &ring{}
	for i, secret := range secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("HMAC secret %d has %d bytes; %d random ones are the least", i+1, len(secret), minSecret)
		}
		derive := func(purpose string) []byte { // RFC 5869
			key, err := hkdf.Key(sha256.New, []byte(secret), nil, "thv authorization server: "+purpose, seal.KeySize)
			if err != nil {
				panic(err) // the size is constant
			}
			return key
		}
		sealer, err := seal.New(derive("records"))
		if err != nil {
			return nil, err
		}
		r.records = append(r.records, sealer)
		r.vault = append(r.vault, derive("upstream tokens"))
		r.refresh = append(r.refresh, derive("refresh tokens"))
		r.clients = append(r.clients, derive("client secrets"))
	}
	return r, nil
}

// close seals with the first key.
func (r *ring) close(purpose string, plain []byte) string { return r.records[0].Close(purpose, plain) }

// open opens what any key sealed.
func (r *ring) open(purpose, text string) ([]byte, error) {
	for _, s := range r.records {
		if plain, err := s.Open(purpose, text); err == nil {
			return plain, nil
		}
	}
	return nil, seal.ErrNotOurs
}

// tag is the HMAC of a message; verifyTag compares it for each key.
func tag(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

func verifyTag(keys [][]byte, message string, got []byte) bool {
	return slices.ContainsFunc(keys, func(key []byte) bool { return hmac.Equal(tag(key, message), got) })
}
