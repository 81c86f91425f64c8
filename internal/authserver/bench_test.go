package authserver

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/authserver/storage/memory"
	"github.com/toolhaven/toolhaven/internal/externalauth"
)

// countedStore counts what is stored.
type countedStore struct {
	*memory.Store
	stored *atomic.Int64
}

func (c countedStore) Put(ctx context.Context, key string, value []byte, lifetime time.Duration) error {
	c.stored.Add(1)
	return c.Store.Put(ctx, key, value, lifetime)
}

// benchServer is a server whose tokens key signs.
func benchServer(b *testing.B, key crypto.Signer, stored *atomic.Int64) *Server {
	b.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	s, err := New(Config{
		Spec: &externalauth.EmbeddedAuthServer{
			Issuer: "https://tools.example", SigningKeySecretRefs: []externalauth.SecretRef{{Name: "s", Key: "k"}},
			UpstreamProviders: []externalauth.UpstreamProvider{{Name: "main"}},
		},
		Resource: "https://tools.example/mcp", Store: countedStore{memory.New(memory.Options{}), stored}, Upstreams: []Upstream{&provider{name: "main"}},
		Secret: func(externalauth.SecretRef) (string, error) { return text, nil },
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// An access token beside the bare signature of the same claims by the same
// library, by turns. The target is a rate of 90 % of the bare signature's.
func BenchmarkIssue(b *testing.B) {
	es, errES := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, errRS := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, errEd := ed25519.GenerateKey(rand.Reader)
	if errES != nil || errRS != nil || errEd != nil {
		b.Fatal(errES, errRS, errEd)
	}
	for _, c := range []struct {
		alg string
		key crypto.Signer
	}{{"RS256", rs}, {"ES256", es}, {"EdDSA", ed}} {
		s := benchServer(b, c.key, new(atomic.Int64))
		current := &session{grant: grant{Client: strings.Repeat("c", 200), Scopes: []string{"tools"}, Providers: []string{"main"}, person: person{Subject: random(), At: time.Now().Unix()}}}
		id := random()
		keys, err := s.signing.get()
		if err != nil {
			b.Fatal(err)
		}
		answer, fault := s.tokens.issue(id, current, current.Scopes, "")
		if fault != nil {
			b.Fatal(fault)
		}
		_, claims := s.tokens.sessionOf(answer["access_token"].(string))
		payload, err := json.Marshal(claims)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.alg, func(b *testing.B) {
			var bare, whole []time.Duration
			for b.Loop() {
				start := time.Now()
				signed, err := keys.access.Sign(payload)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := signed.CompactSerialize(); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, time.Since(start))
				start = time.Now()
				if _, fault := s.tokens.issue(id, current, current.Scopes, ""); fault != nil {
					b.Fatal(fault)
				}
				whole = append(whole, time.Since(start))
			}
			// The first quartiles: a busy machine interrupts many.
			slices.Sort(bare)
			slices.Sort(whole)
			sign, issue := bare[len(bare)/4], whole[len(whole)/4]
			b.ReportMetric(0, "ns/op") // of both: it says nothing
			b.ReportMetric(float64(sign.Nanoseconds()), "bare-ns")
			b.ReportMetric(float64(issue.Nanoseconds()), "issue-ns")
			b.ReportMetric(100*float64(sign)/float64(issue), "%-of-bare-rate")
		})
	}
}

// Registrations of ever other addresses leave nothing behind: neither in the store nor in
// memory.
func BenchmarkRegister(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	var stored atomic.Int64
	handler := benchServer(b, key, &stored).Wrap(http.NotFoundHandler())
	register := func(i int) {
		body := fmt.Sprintf(`{"client_name":"client %d","redirect_uris":["https://app-%d.example/callback"]}`, i, i)
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, pathRegister, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16&255, i>>8&255, i&255)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			b.Fatalf("registration %d: %d %s", i, w.Code, w.Body)
		}
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for i := range 2 * limitedAddresses { // as many addresses as are remembered
		register(i)
	}
	before := heap()
	b.ResetTimer()
	for i := range b.N {
		register(i)
	}
	b.StopTimer()
	b.ReportMetric((heap()-before)/(1<<20), "grown-MiB")
	b.ReportMetric(float64(stored.Load()), "stored")
}
