package verify

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/toolhaven/toolhaven/internal/verify/verifytest"
)

// place is a sigstore instance and a registry with an image.
type place struct {
	t        *testing.T
	sigstore *verifytest.Sigstore
	root     string // trusted_root.json
	repo     name.Repository
	image    v1.Image
	desc     v1.Descriptor
}

// digest is the image's.
func (p *place) digest() string { return p.desc.Digest.String() }

func (p *place) ref() string { return p.repo.Name() + ":1" }

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newPlace(t *testing.T, options ...registry.Option) *place {
	t.Helper()
	server := httptest.NewServer(registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...))
	t.Cleanup(server.Close)
	return placeAt(t, server)
}

func placeAt(t *testing.T, server *httptest.Server) *place {
	t.Helper()
	p := &place{t: t, sigstore: must(verifytest.New())(t), root: filepath.Join(t.TempDir(), "trusted_root.json")}
	p.trust(time.Time{})
	p.repo = must(name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/example/server"))(t)
	p.image = must(random.Image(100, 1))(t)
	p.push("1", p.image)
	p.desc = *must(partial.Descriptor(p.image))(t)
	return p
}

// trust writes the trusted root.
func (p *place) trust(end time.Time) {
	p.t.Helper()
	if err := os.WriteFile(p.root, must(p.sigstore.TrustedRoot(end))(p.t), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// writeRoot writes the trusted root of an instance.
func writeRoot(t testing.TB, path string, s *verifytest.Sigstore) {
	t.Helper()
	if err := os.WriteFile(path, must(s.TrustedRoot(time.Time{}))(t), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *place) push(tag string, image remote.Taggable) {
	p.t.Helper()
	if err := remote.Push(p.repo.Tag(tag), image); err != nil {
		p.t.Fatal(err)
	}
}

// refer attaches a bundle to the image.
func (p *place) refer(bundle []byte) {
	p.t.Helper()
	if err := verifytest.Refer(p.repo, p.desc, bundle); err != nil {
		p.t.Fatal(err)
	}
}

// tag attaches a signature by its tag.
func (p *place) tag(suffix, mediaType string, content []byte, annotations map[string]string) {
	p.t.Helper()
	if err := verifytest.Tag(p.repo, p.digest(), suffix, mediaType, content, annotations); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) statement(predicateType string) []byte {
	p.t.Helper()
	predicate := map[string]any{"runDetails": map[string]any{"builder": map[string]any{"id": "https://builder.test/1"}}}
	return must(verifytest.Statement(p.digest(), predicateType, predicate))(p.t)
}

// bundle is a signature of cosign 3.
func (p *place) bundle(by verifytest.Signer) []byte {
	p.t.Helper()
	return must(p.sigstore.Bundle(by, p.statement(typeCosign)))(p.t)
}

// simple attaches a signature of cosign 2.
func (p *place) simple(by verifytest.Signer, digest string) {
	p.t.Helper()
	payload, annotations, err := p.sigstore.Simple(by, digest)
	if err != nil {
		p.t.Fatal(err)
	}
	p.tag(".sig", verifytest.SimpleType, payload, annotations)
}

// required is what the entry of a registry for the repository example/server requires.
func (p *place) required() *Requirement {
	p.t.Helper()
	req := must(FromProvenance(Provenance{
		SigstoreURL: "tuf-repo-cdn.sigstore.dev", RepositoryURI: "https://github.com/example/server",
		SignerIdentity: "/.github/workflows/release.yml", RunnerEnvironment: "github-hosted",
		CertIssuer: "https://token.actions.githubusercontent.com",
	}))(p.t)
	req.TrustedRoot = p.root
	return req
}

func (p *place) verify(req *Requirement) (Result, error) {
	p.t.Helper()
	return (&Verifier{}).Verify(p.t.Context(), Image{Ref: p.ref(), OS: "linux", Arch: "amd64"}, req)
}

func newKey(t testing.TB) (*ecdsa.PrivateKey, Key) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must(x509.MarshalPKIXPublicKey(private.Public()))(t)
	return private, must(ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "cosign.pub"))(t)
}

// Each form of signature that holds, and each that does not.
func TestVerify(t *testing.T) {
	workflow := verifytest.Workflow("example/server")
	other := verifytest.Workflow("evil/server")
	private, public := newKey(t)
	yes, no := true, false
	keys := func(p *place) *Requirement {
		return &Requirement{Origin: "the policy", Keys: []Key{public}, TrustedRoot: p.root}
	}
	for name, c := range map[string]struct {
		sign func(p *place)
		req  func(p *place) *Requirement // nil: place.required
		kind error                       // nil: it is verified
		want string                      // of the signer, or of the error
	}{
		"a bundle":                    {sign: func(p *place) { p.refer(p.bundle(workflow)) }, want: "https://github.com/example/server/.github/workflows/release.yml@refs/heads/main on github-hosted (issuer https://token.actions.githubusercontent.com)"},
		"a bundle of SLSA provenance": {sign: func(p *place) { p.refer(must(p.sigstore.Bundle(workflow, p.statement(typeSLSA1)))(p.t)) }},
		"a bundle of the manifest": {sign: func(p *place) {
			p.refer(must(p.sigstore.MessageBundle(workflow, must(p.image.RawManifest())(p.t)))(p.t))
		}},
		"a simple signature": {sign: func(p *place) { p.simple(workflow, p.digest()) }},
		"an older attestation": {sign: func(p *place) {
			content, annotations, err := p.sigstore.Envelope(workflow, p.statement(typeSLSA02))
			if err != nil {
				p.t.Fatal(err)
			}
			p.tag(".att", verifytest.EnvelopeType, content, annotations)
		}},
		"the second signature is right": {sign: func(p *place) { p.refer(p.bundle(other)); p.simple(workflow, p.digest()) }},

		"none":                       {sign: func(*place) {}, kind: ErrUnsigned, want: "no signature at its registry; the registry entry accepts https://github.com/example/server/.github/workflows/release.yml on github-hosted"},
		"another repository":         {sign: func(p *place) { p.refer(p.bundle(other)) }, kind: ErrSigner, want: "is signed by https://github.com/evil/server/"},
		"another repository, simple": {sign: func(p *place) { p.simple(other, p.digest()) }, kind: ErrSigner, want: "https://github.com/evil/server/"},
		"another workflow": {sign: func(p *place) {
			by := workflow
			by.Subject = strings.Replace(by.Subject, "release", "test", 1)
			p.refer(p.bundle(by))
		}, kind: ErrSigner, want: "test.yml"},
		"another issuer": {sign: func(p *place) { by := workflow; by.Issuer = "https://evil.test"; p.refer(p.bundle(by)) }, kind: ErrSigner, want: "https://evil.test"},
		"another runner": {sign: func(p *place) { by := workflow; by.Runner = "self-hosted"; p.refer(p.bundle(by)) }, kind: ErrSigner, want: "self-hosted"},
		"the repository in another's path": {sign: func(p *place) {
			by := workflow
			by.Subject = "https://evil.test/https://github.com/example/server/.github/workflows/release.yml"
			p.refer(p.bundle(by))
		}, kind: ErrSigner},
		"the path as user information": {sign: func(p *place) {
			by := workflow
			by.Subject = "https://github.com/example/server/.github/workflows/release.ymlx@evil.test/"
			p.refer(p.bundle(by))
		}, kind: ErrSigner},
		"a statement of another image": {sign: func(p *place) {
			p.refer(must(p.sigstore.Bundle(workflow, must(verifytest.Statement("sha256:"+strings.Repeat("1", 64), typeCosign, nil))(p.t)))(p.t))
		}, kind: ErrInvalid, want: "digest"},
		"a simple signature of another image": {sign: func(p *place) { p.simple(workflow, "sha256:"+strings.Repeat("1", 64)) }, kind: ErrInvalid, want: "of another image"},
		"a list of vulnerabilities": {sign: func(p *place) {
			p.refer(must(p.sigstore.Bundle(workflow, p.statement("https://cosign.sigstore.dev/attestation/vuln/v1")))(p.t))
		}, kind: ErrUnsigned, want: "no signature of the image"},
		"another instance": {sign: func(p *place) {
			p.refer(must(must(verifytest.New())(p.t).Bundle(workflow, p.statement(typeCosign)))(p.t))
		}, kind: ErrInvalid, want: "no authority of the trusted root"},
		"without the log":           {sign: func(p *place) { by := workflow; by.NoLog = true; p.refer(p.bundle(by)) }, kind: ErrInvalid, want: "log"},
		"without log and timestamp": {sign: func(p *place) { by := workflow; by.NoLog, by.NoTimestamp = true, true; p.refer(p.bundle(by)) }, kind: ErrInvalid},
		"expired, and no timestamp": {
			sign: func(p *place) {
				by := workflow
				by.From, by.NoLog, by.NoTimestamp = time.Now().Add(-50*time.Minute), true, true
				p.refer(p.bundle(by))
			},
			req: func(p *place) *Requirement { r := p.required(); r.Log = &no; return r }, kind: ErrInvalid, want: "expired at",
		},
		"signed after it expired": {sign: func(p *place) {
			by := workflow
			by.From, by.At, by.NoTimestamp = time.Now().Add(-50*time.Minute), time.Now(), true
			p.refer(p.bundle(by))
		}, kind: ErrInvalid},
		"the authority was revoked":   {sign: func(p *place) { p.refer(p.bundle(workflow)); p.trust(time.Now().Add(-4 * time.Hour)) }, kind: ErrInvalid, want: "ended or revoked"},
		"the trusted root is missing": {sign: func(p *place) { p.refer(p.bundle(workflow)); _ = os.Remove(p.root) }, kind: ErrUnreachable, want: "trusted_root.json"},
		"the trusted root is broken":  {sign: func(p *place) { p.refer(p.bundle(workflow)); _ = os.WriteFile(p.root, []byte("{"), 0o600) }, kind: ErrUnreachable, want: "cannot be read"},
		"an unknown instance": {sign: func(p *place) { p.refer(p.bundle(workflow)) }, req: func(p *place) *Requirement {
			r := p.required()
			r.TrustedRoot, r.Instance = "", "tuf.example.test"
			return r
		}, kind: ErrUnreachable, want: "tuf.example.test"},

		"a key":                                  {sign: func(p *place) { p.refer(p.bundle(verifytest.Signer{Key: private, NoLog: true, NoTimestamp: true})) }, req: keys, want: "the key cosign.pub"},
		"a key, simple":                          {sign: func(p *place) { p.simple(verifytest.Signer{Key: private, NoLog: true, NoTimestamp: true}, p.digest()) }, req: keys, want: "the key cosign.pub"},
		"a key, with a log that is not demanded": {sign: func(p *place) { p.simple(verifytest.Signer{Key: private}, p.digest()) }, req: keys},
		"a key, with the log":                    {sign: func(p *place) { p.simple(verifytest.Signer{Key: private}, p.digest()) }, req: func(p *place) *Requirement { r := keys(p); r.Log = &yes; return r }},
		"a key, with a timestamp":                {sign: func(p *place) { p.simple(verifytest.Signer{Key: private}, p.digest()) }, req: func(p *place) *Requirement { r := keys(p); r.Timestamp = true; return r }},
		"a key, without the log":                 {sign: func(p *place) { p.simple(verifytest.Signer{Key: private, NoLog: true}, p.digest()) }, req: func(p *place) *Requirement { r := keys(p); r.Log = &yes; return r }, kind: ErrSigner},
		"a key, without a timestamp":             {sign: func(p *place) { p.simple(verifytest.Signer{Key: private, NoTimestamp: true}, p.digest()) }, req: func(p *place) *Requirement { r := keys(p); r.Timestamp = true; return r }, kind: ErrSigner},
		"a key, of another image": {sign: func(p *place) {
			p.simple(verifytest.Signer{Key: private, NoLog: true}, "sha256:"+strings.Repeat("1", 64))
		}, req: keys, kind: ErrInvalid, want: "of another image"},
		"another key":                      {sign: func(p *place) { k, _ := newKey(p.t); p.refer(p.bundle(verifytest.Signer{Key: k, NoLog: true})) }, req: keys, kind: ErrSigner, want: "another key"},
		"a key, and identities are wanted": {sign: func(p *place) { p.refer(p.bundle(verifytest.Signer{Key: private, NoLog: true})) }, kind: ErrSigner, want: "a key without a certificate"},
		"an identity, and keys are wanted": {sign: func(p *place) { p.refer(p.bundle(workflow)) }, req: keys, kind: ErrSigner, want: "accepts the key cosign.pub"},

		"an e-mail address": {sign: func(p *place) {
			p.refer(p.bundle(verifytest.Signer{Subject: "a@example.test", Issuer: "https://login.test"}))
		}, req: func(p *place) *Requirement {
			return &Requirement{Origin: "the policy", TrustedRoot: p.root, Identities: []Identity{{Issuer: "https://login.test", Subject: "a@example.test"}}}
		}, want: "a@example.test (issuer https://login.test)"},
		"the address at another provider": {sign: func(p *place) {
			p.refer(p.bundle(verifytest.Signer{Subject: "a@example.test", Issuer: "https://other.test"}))
		}, req: func(p *place) *Requirement {
			return &Requirement{Origin: "the policy", TrustedRoot: p.root, Identities: []Identity{{Issuer: "https://login.test", Subject: "a@example.test"}}}
		}, kind: ErrSigner},

		"the builder":     {sign: func(p *place) { p.refer(must(p.sigstore.Bundle(workflow, p.statement(typeSLSA1)))(p.t)) }, req: attested(Attestation{Builder: "https://builder.test/1"})},
		"another builder": {sign: func(p *place) { p.refer(must(p.sigstore.Bundle(workflow, p.statement(typeSLSA1)))(p.t)) }, req: attested(Attestation{Builder: "https://builder.test/2"}), kind: ErrUnsigned, want: "by the builder"},
		"a type that is wanted": {sign: func(p *place) {
			p.refer(must(p.sigstore.Bundle(workflow, p.statement("https://example.test/scan")))(p.t))
		}, req: attested(Attestation{PredicateType: "https://example.test/scan"})},
		"not the type":   {sign: func(p *place) { p.refer(p.bundle(workflow)) }, req: attested(Attestation{PredicateType: typeSLSA1}), kind: ErrUnsigned, want: "an attestation of type"},
		"no attestation": {sign: func(p *place) { p.simple(workflow, p.digest()) }, req: attested(Attestation{}), kind: ErrUnsigned, want: "without an attestation"},
		"content":        {sign: func(p *place) { p.refer(must(p.sigstore.Bundle(workflow, p.statement(typeSLSA1)))(p.t)) }, req: attested(Attestation{Predicate: map[string]any{"runDetails": map[string]any{"builder": map[string]any{"id": "https://builder.test/1"}}}})},
		"other content":  {sign: func(p *place) { p.refer(must(p.sigstore.Bundle(workflow, p.statement(typeSLSA1)))(p.t)) }, req: attested(Attestation{Predicate: map[string]any{"x": 1.0}}), kind: ErrUnsigned, want: "other content"},

		"no bundle":            {sign: func(p *place) { p.refer([]byte("{}")) }, kind: ErrInvalid, want: "cannot be read"},
		"a bomb of brackets":   {sign: func(p *place) { p.refer(bytes.Repeat([]byte("["), 1<<20)) }, kind: ErrInvalid, want: "cannot be read"},
		"a bundle of 50 MB":    {sign: func(p *place) { p.refer(make([]byte, 50<<20)) }, kind: ErrUnreachable, want: "too large"},
		"a signature of 50 MB": {sign: func(p *place) { p.tag(".sig", verifytest.SimpleType, make([]byte, 50<<20), nil) }, kind: ErrUnreachable, want: "too large"},
		"no signature in it":   {sign: func(p *place) { p.tag(".sig", verifytest.SimpleType, []byte("{}"), nil) }, kind: ErrInvalid, want: "base64"},
		"no log entry in it": {sign: func(p *place) {
			p.tag(".sig", verifytest.SimpleType, []byte("{}"), map[string]string{annotationLog: "x"})
		}, kind: ErrInvalid, want: "transparency log"},
		"no certificate in it": {sign: func(p *place) {
			p.tag(".sig", verifytest.SimpleType, []byte("{}"), map[string]string{annotationCertificate: "x"})
		}, kind: ErrInvalid, want: "PEM"},
		"no timestamp in it": {sign: func(p *place) {
			p.tag(".sig", verifytest.SimpleType, []byte("{}"), map[string]string{annotationTimestamp: "x"})
		}, kind: ErrInvalid, want: "timestamp"},
		"no envelope":          {sign: func(p *place) { p.tag(".att", verifytest.EnvelopeType, []byte("x"), nil) }, kind: ErrInvalid, want: "envelope"},
		"an empty envelope":    {sign: func(p *place) { p.tag(".att", verifytest.EnvelopeType, []byte("{}"), nil) }, req: keys, kind: ErrSigner},
		"a layer of a program": {sign: func(p *place) { p.tag(".sig", "application/octet-stream", []byte("x"), nil) }, kind: ErrUnsigned},
	} {
		for _, api := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/referrers=%t", name, api), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, registry.WithReferrersSupport(api))
				c.sign(p)
				req := c.req
				if req == nil {
					req = (*place).required
				}
				got, err := p.verify(req(p))
				if c.kind == nil {
					if err != nil || got.Digest != p.digest() || !strings.Contains(got.Signer, c.want) {
						t.Errorf("got %+v, %v", got, err)
					}
					return
				}
				if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || got != (Result{}) {
					t.Errorf("got %+v, %v; want %v, with %q", got, err, c.kind, c.want)
				}
			})
		}
	}
}

func attested(a Attestation) func(p *place) *Requirement {
	return func(p *place) *Requirement {
		r := p.required()
		r.Attestation = &a
		return r
	}
}

// What is verified is the digest that the tag has, and it stays verified when the tag moves.
func TestVerify_TagThatMoves(t *testing.T) {
	p := newPlace(t, registry.WithReferrersSupport(true))
	p.refer(p.bundle(verifytest.Workflow("example/server")))
	p.push("1", must(random.Image(100, 1))(t))
	if got, err := p.verify(p.required()); !errors.Is(err, ErrUnsigned) {
		t.Errorf("the tag's new image: %+v, %v", got, err)
	}
	v := &Verifier{}
	got, err := v.Verify(t.Context(), Image{Ref: p.repo.Name() + ":1@" + p.digest()}, p.required())
	if err != nil || got.Digest != p.digest() {
		t.Errorf("the digest: %+v, %v", got, err)
	}
	// The engine has the image that was signed.
	got, err = v.Verify(t.Context(), Image{Ref: p.ref(), Local: []string{"sha256:" + strings.Repeat("2", 64), p.digest()}}, p.required())
	if err != nil || got.Digest != p.digest() {
		t.Errorf("the engine's digests: %+v, %v", got, err)
	}
}

// The index is signed, or the image of the engine's platform.
func TestVerify_Index(t *testing.T) {
	p := newPlace(t, registry.WithReferrersSupport(true))
	add := func(arch string, img v1.Image) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}}
	}
	workflow := verifytest.Workflow("example/server")
	poison := must(random.Image(100, 1))(t)
	index := mutate.AppendManifests(empty.Index, add("amd64", p.image), add("arm64", poison))
	p.push("1", index)
	p.refer(p.bundle(workflow)) // of the image for amd64
	got, err := p.verify(p.required())
	if err != nil || got.Digest != p.digest() {
		t.Errorf("the signed platform: %+v, %v", got, err)
	}
	arm := Image{Ref: p.ref(), OS: "linux", Arch: "arm64"}
	if got, err := (&Verifier{}).Verify(t.Context(), arm, p.required()); !errors.Is(err, ErrUnsigned) {
		t.Errorf("the poisoned platform: %+v, %v", got, err)
	}
	if got, err := (&Verifier{}).Verify(t.Context(), Image{Ref: p.ref(), OS: "linux", Arch: "s390x"}, p.required()); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a platform that is not there: %+v, %v", got, err)
	}
	p.desc = *must(partial.Descriptor(index))(t)
	p.refer(p.bundle(workflow))
	for _, arch := range []string{"amd64", "arm64"} {
		got, err := (&Verifier{}).Verify(t.Context(), Image{Ref: p.ref(), OS: "linux", Arch: arch}, p.required())
		if err != nil || got.Digest != p.digest() {
			t.Errorf("the signed index on %s: %+v, %v", arch, got, err)
		}
	}
	// One who can push replaces an image in the index: it is another index.
	p.push("1", mutate.AppendManifests(empty.Index, add("arm64", poison)))
	if got, err := (&Verifier{}).Verify(t.Context(), arm, p.required()); !errors.Is(err, ErrUnsigned) {
		t.Errorf("the index with another image: %+v, %v", got, err)
	}
}

// Registries that fail, refuse, send without end, or send elsewhere.
func TestVerify_Registry(t *testing.T) {
	respond := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		chunk := bytes.Repeat([]byte(" "), 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	var loop bytes.Buffer
	fmt.Fprint(&loop, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[`)
	for i := range 1000 {
		if i > 0 {
			loop.WriteByte(',')
		}
		fmt.Fprintf(&loop, `{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"application/vnd.dev.sigstore.bundle.v0.3+json","size":2,"digest":"sha256:%064d"}`, i)
	}
	loop.WriteString("]}")
	for name, c := range map[string]struct {
		path    string // which requests are answered so
		handler http.HandlerFunc
		kind    error
		want    string
	}{
		"it fails":             {"/referrers/", respond(500, "x"), ErrUnreachable, "status 500"},
		"it needs a login":     {"/referrers/", respond(403, "{}"), ErrUnreachable, "docker login"},
		"no JSON":              {"/referrers/", respond(200, "x"), ErrUnreachable, ""},
		"an endless list":      {"/referrers/", endless, ErrUnreachable, "too large"},
		"an endless manifest":  {".sig", endless, ErrUnreachable, "too large"},
		"a list without limit": {"/referrers/", respond(200, loop.String()), ErrUnreachable, "lists 1000 signatures"},
		"a redirect elsewhere": {"/referrers/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
		}, ErrUnreachable, "denied"},
		"a redirect to a private address": {"/referrers/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://10.0.0.1/", http.StatusTemporaryRedirect)
		}, ErrUnreachable, "denied"},
		"the tag": {"/manifests/1", respond(500, "x"), ErrUnreachable, "ask the registry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
			var armed atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if armed.Load() && strings.Contains(r.URL.Path, c.path) {
					c.handler(w, r)
					return
				}
				real.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			p := placeAt(t, server)
			armed.Store(true)
			got, err := p.verify(p.required())
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want %v with %q", got, err, c.kind, c.want)
			}
		})
	}
}

// A signature that holds counts although others cannot be fetched.
func TestVerify_BesideAFailure(t *testing.T) {
	p := newPlace(t, registry.WithReferrersSupport(true))
	p.refer(make([]byte, 50<<20))
	p.simple(verifytest.Workflow("example/server"), p.digest())
	if got, err := p.verify(p.required()); err != nil || got.Digest != p.digest() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestVerify_Unreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	p := &place{t: t, sigstore: must(verifytest.New())(t), root: "x"}
	p.repo = must(name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/a/b"))(t)
	server.Close()
	if _, err := p.verify(p.required()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("closed: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if _, err := (&Verifier{}).Verify(ctx, Image{Ref: p.ref()}, p.required()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("canceled: %v", err)
	}
	v := &Verifier{Login: func(context.Context, string) (Login, error) { return Login{}, errors.New("the helper failed") }}
	if _, err := v.Verify(t.Context(), Image{Ref: p.ref()}, p.required()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "the helper failed") {
		t.Errorf("the login: %v", err)
	}
}
