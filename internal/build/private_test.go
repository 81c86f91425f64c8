//go:build integration

package build

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// privateRegistry serves npm packages and a Python package over HTTPS, with a
// certificate of an authority that no system trusts, to clients with the password. It
// returns its address as containers see it, with the password, and the
// authority's file.
func privateRegistry(t *testing.T, password string) (address, ca string) {
	t.Helper()
	host := bridgeAddress(t)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	own := "https://" + ln.Addr().String()
	wheel := wheelArchive(t)
	digest := sha256.Sum256(wheel)
	const wheelName = "thv_private-1.0-py3-none-any.whl"
	files := map[string][]byte{
		"/simple/thv-private/": fmt.Appendf(nil, `{"meta":{"api-version":"1.0"},"name":"thv-private","files":[{"filename":%q,"url":%q,"hashes":{"sha256":%q}}]}`, wheelName, own+"/"+wheelName, hex.EncodeToString(digest[:])),
		"/" + wheelName:        wheel,
	}
	for name, more := range map[string]string{
		"thv-private":   `"bin":"x.js"`,
		"thv-endless":   `"bin":"x.js","scripts":{"preinstall":"sleep 3600"}`,
		"thv-ambiguous": `"bin":{"one":"x.js","two":"package.json"}`,
	} {
		manifest := fmt.Sprintf(`{"name":%q,"version":"1.0.0",%s`, name, more)
		tgz := npmArchive(t, manifest+"}")
		integrity := sha512.Sum512(tgz)
		files["/npm/"+name+".tgz"] = tgz
		files["/npm/"+name] = fmt.Appendf(nil, `{"name":%q,"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":%s,"hasInstallScript":true,"dist":{"tarball":%q,"integrity":"sha512-%s"}}}}`,
			name, manifest, own+"/npm/"+name+".tgz", base64.StdEncoding.EncodeToString(integrity[:]))
	}
	cert, ca := issue(t, host)
	s := &httptest.Server{Listener: ln, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		switch _, given, _ := r.BasicAuth(); {
		case given != password:
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		case !ok:
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/simple/") {
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		} else if !strings.HasSuffix(r.URL.Path, ".whl") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write(text)
	})}}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(own, "https://", "https://me:"+password+"@", 1), ca
}

// bridgeAddress is this machine as containers on the engine's bridge see it.
func bridgeAddress(t *testing.T) string {
	t.Helper()
	bridge, err := net.InterfaceByName("docker0")
	if err != nil {
		t.Fatalf("the engine's bridge is not here: %v", err)
	}
	addresses, err := bridge.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			return prefix.Addr().String()
		}
	}
	t.Fatalf("the engine's bridge has no IPv4 address: %v", addresses)
	return ""
}

// issue makes an authority and a certificate of it for an IP address.
func issue(t *testing.T, host string) (tls.Certificate, string) {
	t.Helper()
	make := func(c, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a private authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, rootKey := make(root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, IPAddresses: []net.IP{net.ParseIP(host)}}
	leafDER, leafKey := make(leaf, root, rootKey)
	path := filepath.Join(t.TempDir(), "private-ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}, path
}

func npmArchive(t *testing.T, manifest string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for name, text := range map[string]string{
		"package/package.json": manifest,
		"package/x.js":         "#!/usr/bin/env node\nconsole.log(require('os').userInfo().username)\n",
	} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func wheelArchive(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	const info = "thv_private-1.0.dist-info/"
	for name, text := range map[string]string{
		"thv_private.py":          "import getpass\ndef main():\n    print(getpass.getuser())\n",
		info + "METADATA":         "Metadata-Version: 2.1\nName: thv-private\nVersion: 1.0\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": "[console_scripts]\nthv-private = thv_private:main\n",
		info + "RECORD":           "thv_private.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "entry_points.txt,,\n" + info + "RECORD,,\n",
	} {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// danglingImages are those without a name.
func danglingImages(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "-q", "--no-trunc", "-f", "dangling=true").Output()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for id := range strings.FieldsSeq(string(out)) {
		ids[id] = true
	}
	return ids
}

// images are the ids of those with a name.
func images(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "-q", "--no-trunc", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

func TestAPrivateRegistryBehindAPrivateAuthority(t *testing.T) {
	t.Parallel()
	const password = "verysecretpassword"
	address, ca := privateRegistry(t, password)
	env := map[string]string{"NPM_CONFIG_REGISTRY": address + "/npm/", "PIP_INDEX_URL": address + "/simple"}
	secrets := []string{password, base64.StdEncoding.EncodeToString([]byte("me:" + password))}
	for _, c := range []struct{ arg, base string }{
		{"npx://thv-private", "thv-test/node:22"}, {"uvx://thv-private", "thv-test/python:bookworm"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			b := builder(t, t.TempDir())
			b.cfg.Env = func(k string) string { return env[k] }
			r := ref(t, c.arg)
			r.RuntimeImage = c.base
			if res, err := b.Build(t.Context(), r); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Fatalf("without the authority: %+v, %v", res, err)
			}
			r.CACert = ca
			before := danglingImages(t)
			res := mustBuild(t, b, r)
			for id := range danglingImages(t) {
				if before[id] {
					continue
				}
				// One that is gone by now was of another test, which has removed it.
				if out, err := exec.CommandContext(t.Context(), "docker", "history", "--no-trunc", id).Output(); err == nil && bytes.Contains(out, []byte("thv-private")) {
					t.Errorf("the build left an image behind: %s %s", id, out)
				}
			}
			out, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network=none", res.Image).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "app" {
				t.Errorf("the server takes itself for %q, %v", out, err)
			}
			image, err := exec.CommandContext(t.Context(), "docker", "save", res.Image).Output()
			if err != nil || len(image) < 1<<20 {
				t.Fatalf("%d bytes, %v", len(image), err)
			}
			for _, secret := range secrets {
				if bytes.Contains(image, []byte(secret)) {
					t.Errorf("the image holds %q", secret)
				}
			}
		})
	}
}

func TestSeveralExecutablesAreListed(t *testing.T) {
	address, ca := privateRegistry(t, "x")
	b := builder(t, t.TempDir())
	b.cfg.Env = func(k string) string { return map[string]string{"NPM_CONFIG_REGISTRY": address + "/npm/"}[k] }
	r := ref(t, "npx://thv-ambiguous")
	r.RuntimeImage, r.CACert = "thv-test/node:22", ca
	res, err := b.Build(t.Context(), r)
	if err == nil || !strings.HasSuffix(err.Error(), "declares several executables and none has its name: one, two") {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestAnInstallationThatIsStoppedLeavesNothing(t *testing.T) {
	address, ca := privateRegistry(t, "x")
	b := builder(t, t.TempDir())
	b.cfg.Env = func(k string) string { return map[string]string{"NPM_CONFIG_REGISTRY": address + "/npm/"}[k] }
	r := ref(t, "npx://thv-endless")
	r.RuntimeImage, r.CACert = "thv-test/node:22", ca
	// await polls what containers run until it is as wanted.
	await := func(running bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			out, err := exec.CommandContext(t.Context(), "docker", "ps", "-a", "--no-trunc", "--format", "{{.State}} {{.Command}}").CombinedOutput()
			if err == nil && strings.Contains(string(out), "thv-endless@1.0.0") == running {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("waiting for running=%v: %s, %v", running, out, err)
			}
		}
	}
	before := map[string]bool{} // of a build that was killed, or of another package's
	for _, id := range images(t, "thv.local/stage") {
		before[id] = true
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := b.Build(ctx, r)
		done <- err
	}()
	await(true)
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	await(false)
	if left := images(t, "thv.local/npx/thv-endless"); len(left) > 0 {
		t.Errorf("images are left: %v", left)
	}
	// A stage that another package's test makes meanwhile is gone when that is built.
	for _, id := range images(t, "thv.local/stage") {
		for deadline := time.Now().Add(5 * time.Minute); !before[id] && slices.Contains(images(t, "thv.local/stage"), id); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the stage %s is left", id)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(b.cfg.StateDir, "builds")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a record was kept: %v", err)
	}
}
