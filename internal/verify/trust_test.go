package verify

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/verify/verifytest"
)

// tufRepository are the files of a repository of TUF with one target, and its root.json.
func tufRepository(t *testing.T, target []byte, expires time.Time) (files map[string][]byte, anchor []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := must(metadata.KeyFromPublicKey(public))(t)
	signer := must(signature.LoadSigner(private, crypto.Hash(0)))(t)
	files = map[string][]byte{}
	root := metadata.Root(time.Now().Add(time.Hour))
	for _, role := range []string{"root", "timestamp", "snapshot", "targets"} {
		if err := root.Signed.AddKey(key, role); err != nil {
			t.Fatal(err)
		}
	}
	targets := metadata.Targets(expires)
	targets.Signed.Targets["trusted_root.json"] = must(metadata.TargetFile().FromBytes("trusted_root.json", target))(t)
	snapshot, timestamp := metadata.Snapshot(expires), metadata.Timestamp(expires)
	sign := func(sign func(signature.Signer) (*metadata.Signature, error), text func(bool) ([]byte, error), name string) {
		t.Helper()
		must(sign(signer))(t)
		files[name] = must(text(true))(t)
	}
	sign(root.Sign, root.ToBytes, "/1.root.json")
	sign(targets.Sign, targets.ToBytes, "/1.targets.json")
	sign(snapshot.Sign, snapshot.ToBytes, "/1.snapshot.json")
	sign(timestamp.Sign, timestamp.ToBytes, "/timestamp.json")
	sum := sha256.Sum256(target)
	files["/targets/"+hex.EncodeToString(sum[:])+".trusted_root.json"] = target
	return files, files["/1.root.json"]
}

// The root of the public instance is fetched when it is first needed, kept, and used while
// the instance does not answer. What is not signed as the anchor demands is refused.
func TestVerify_FetchedRoot(t *testing.T) {
	p := newPlace(t, registry.WithReferrersSupport(true))
	p.refer(p.bundle(verifytest.Workflow("example/server")))
	req := p.required()
	req.TrustedRoot = ""
	text := must(p.sigstore.TrustedRoot(time.Time{}))(t)
	for name, c := range map[string]struct {
		expires time.Time
		change  func(files map[string][]byte)
		want    string // "": it is verified
	}{
		"as it should be":  {time.Now().Add(time.Hour), func(map[string][]byte) {}, ""},
		"nothing there":    {time.Now().Add(time.Hour), func(files map[string][]byte) { clear(files) }, "give a trusted_root.json"},
		"an old timestamp": {time.Now().Add(-time.Minute), func(map[string][]byte) {}, "expired"},
		"another root":     {time.Now().Add(time.Hour), func(files map[string][]byte) { changeTarget(t, files) }, "trusted_root.json"},
		"another list": {time.Now().Add(time.Hour), func(files map[string][]byte) {
			other, _ := tufRepository(t, text, time.Now().Add(time.Hour))
			files["/1.targets.json"] = other["/1.targets.json"]
		}, "targets"},
		"an endless timestamp": {time.Now().Add(time.Hour), func(files map[string][]byte) { files["/timestamp.json"] = make([]byte, 20<<20) }, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			files, anchor := tufRepository(t, text, c.expires)
			c.change(files)
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				content, there := files[r.URL.Path]
				if !there {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(content)
			}))
			defer server.Close()
			client := must(netguard.Client(netguard.Options{AllowLoopback: true}))(t)
			v := &Verifier{CacheDir: t.TempDir(), instance: &tufInstance{url: server.URL, root: anchor, http: client}}
			verify := func() error {
				_, err := v.Verify(t.Context(), Image{Ref: p.ref(), OS: "linux", Arch: "amd64"}, req)
				return err
			}
			err := verify()
			if c.want != "" {
				if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil || requests.Load() == 0 {
				t.Fatalf("after %d requests: %v", requests.Load(), err)
			}
			first := requests.Load()
			if err := verify(); err != nil || requests.Load() != first {
				t.Errorf("the second time: %d requests more, %v", requests.Load()-first, err)
			}
			server.Close()
			// It would ask again now, because when it did last is not known.
			for _, note := range must(filepath.Glob(filepath.Join(v.CacheDir, "tuf", "*.json")))(t) {
				if err := os.Remove(note); err != nil {
					t.Fatal(err)
				}
			}
			if err := verify(); err != nil {
				t.Errorf("without the instance: %v", err)
			}
			v.CacheDir = t.TempDir()
			if err := verify(); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "give a trusted_root.json") {
				t.Errorf("without the instance and without a copy: %v", err)
			}
		})
	}
	// An image that is not signed needs no root.
	unsigned := newPlace(t)
	v := &Verifier{CacheDir: t.TempDir(), instance: &tufInstance{url: "http://127.0.0.1:1", http: http.DefaultClient}}
	if _, err := v.Verify(t.Context(), Image{Ref: unsigned.ref()}, req); !errors.Is(err, ErrUnsigned) {
		t.Errorf("unsigned: %v", err)
	}
}

// changeTarget exchanges the trusted root for another instance's, under the same name.
func changeTarget(t *testing.T, files map[string][]byte) {
	t.Helper()
	for name := range files {
		if strings.HasPrefix(name, "/targets/") {
			files[name] = must(must(verifytest.New())(t).TrustedRoot(time.Time{}))(t)
			return
		}
	}
	t.Fatal("there is no target")
}
