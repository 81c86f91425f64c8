package auth

import (
	"fmt"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

var benchmarked = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// benchmark is a validator that has its keys, and tokens for it with the claims
// of an RFC 9068 access token.
func benchmark(b *testing.B, alg jose.SignatureAlgorithm, tokens int) (*Validator, jose.JSONWebKey, []string) {
	p := newIssuer(b)
	s := newSigner(b, alg, "k1")
	p.publish(s)
	v := newValidator(b, p.provider("main"))
	made := make([]string, tokens)
	for i := range made {
		made[i] = s.sign(b, "at+jwt", p.claims(map[string]any{
			"jti": fmt.Sprintf("k3Jd8s-%08d", i), "iat": time.Now().Unix(), "client_id": "client-of-the-benchmark", "scope": "mcp-registry:read",
		}))
	}
	if _, err := v.Validate(b.Context(), made[0]); err != nil {
		b.Fatal(reasons(err))
	}
	return v, s.public(), made
}

// A token that was seen a moment ago: the target is 3 us.
func BenchmarkSeenToken(b *testing.B) {
	for _, alg := range benchmarked {
		v, _, tokens := benchmark(b, alg, 1)
		b.Run(string(alg), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Validate(b.Context(), tokens[0]); err != nil {
					b.Fatal(reasons(err))
				}
			}
		})
	}
}

// A new token beside the bare signature check by the same library, in turns of a
// batch each, so that both meet the same machine. The target is a rate of 90 % of
// the bare check's.
func BenchmarkNewToken(b *testing.B) {
	const batch = 256
	for _, alg := range benchmarked {
		v, key, tokens := benchmark(b, alg, batch)
		b.Run(string(alg), func(b *testing.B) {
			var bare, whole time.Duration
			rounds := 0
			for b.Loop() {
				start := time.Now()
				for _, token := range tokens {
					jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{alg})
					if err != nil {
						b.Fatal(err)
					}
					if _, err := jws.Verify(key.Key); err != nil {
						b.Fatal(err)
					}
				}
				bare += time.Since(start)
				v.accepted.InvalidateAll()
				start = time.Now()
				for _, token := range tokens {
					if _, err := v.Validate(b.Context(), token); err != nil {
						b.Fatal(reasons(err))
					}
				}
				whole += time.Since(start)
				rounds++
			}
			n := float64(rounds * batch)
			b.ReportMetric(0, "ns/op") // of a batch: it says nothing
			b.ReportMetric(float64(bare.Nanoseconds())/n, "bare-ns")
			b.ReportMetric(float64(whole.Nanoseconds())/n, "new-ns")
			b.ReportMetric(100*float64(bare)/float64(whole), "%-of-bare-rate")
		})
	}
}
