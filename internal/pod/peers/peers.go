// Package peers passes requests between the replicas of one workload's gateway.
//
// A session lives in the replica that began it; its id, which is sealed, has the address of
// that replica ([sessions]). A replica that receives a request of another's session passes it
// on, with the stream of the response, over TLS. All replicas have the same key pair, derived
// from the key that they share, and both sides require it: a request, with the access token of
// its client, reaches no one but a replica of the same workload, also when the address was
// given to another pod meanwhile. A request that came from a replica is never passed on.
//
// [sessions]: github.com/toolhaven/toolhaven/internal/gateway/sessions
package peers

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"time"
)

const (
	// goneTime is how long a replica that could not be connected to is not tried again.
	goneTime = 5 * time.Second
	// maxGone bounds the addresses that are remembered for that.
	maxGone = 1000
)

// Network connects this replica with the others.
type Network struct {
	self  string
	tls   *tls.Config
	links links
	log   *slog.Logger

	mu   sync.Mutex
	gone map[string]time.Time // until when
}

// New returns the Network of a workload's replica that the others reach at self, "ip:port".
// key is the key that the replicas share.
func New(key []byte, workload, self string, log *slog.Logger) (*Network, error) {
	certificate, err := certificate(key, workload)
	if err != nil {
		return nil, fmt.Errorf("the replicas' certificate: %w", err)
	}
	public := certificate.PrivateKey.(ed25519.PrivateKey).Public().(ed25519.PublicKey)
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAnyClientCert,
		MinVersion:   tls.VersionTLS13,
		// Nothing is sent on a connection without a request ([alive]).
		SessionTicketsDisabled: true,
		// A message in one record, which is one packet of the system.
		DynamicRecordSizingDisabled: true,
		// No authority and no name: VerifyConnection requires the replicas' own key.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 {
				return errNotPeer
			}
			if theirs, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !bytes.Equal(theirs, public) {
				return errNotPeer
			}
			return nil
		},
	}
	return &Network{self: self, tls: config, links: links{tls: config, idle: map[string][]*link{}}, log: log, gone: map[string]time.Time{}}, nil
}

// errNotPeer: whoever is at the address has another key.
var errNotPeer = errors.New("it is not a replica of this workload")

// Self is this replica's address.
func (n *Network) Self() string { return n.self }

// Listener accepts connections of replicas only.
func (n *Network) Listener(l net.Listener) net.Listener { return tls.NewListener(l, n.tls) }

// Close closes the connections that no request uses.
func (n *Network) Close() { n.links.close() }

// certificate is the key pair of all replicas, in a certificate that nothing but its key is
// read of.
func certificate(key []byte, workload string) (tls.Certificate, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, "thv replicas\x00"+workload, ed25519.SeedSize)
	if err != nil {
		return tls.Certificate{}, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// isGone reports whether a replica could not be connected to a moment ago.
func (n *Network) isGone(address string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Before(n.gone[address])
}

func (n *Network) markGone(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.gone) >= maxGone {
		clear(n.gone)
	}
	n.gone[address] = time.Now().Add(goneTime)
}
