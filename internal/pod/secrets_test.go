package pod

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// mounted is a Secret as the kubelet mounts it: the files are symbolic links into a directory
// that is replaced as a whole.
type mounted struct {
	t   *testing.T
	dir string
}

func mount(t *testing.T, root, name string, values map[string]string) *mounted {
	m := &mounted{t, filepath.Join(root, name)}
	m.replace(values)
	for key := range values {
		if err := os.Symlink(filepath.Join("..data", key), filepath.Join(m.dir, key)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *mounted) replace(values map[string]string) {
	m.t.Helper()
	version, err := os.MkdirTemp(must(m.t, m.dir), "..2026_")
	if err != nil {
		m.t.Fatal(err)
	}
	for key, value := range values {
		writeFile(m.t, filepath.Join(version, key), value)
	}
	link := filepath.Join(m.dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(m.dir, "..data")); err != nil {
		m.t.Fatal(err)
	}
}

func must(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// echoing is an MCP server over HTTP with a tool that returns a header of its own request.
func echoing(name string) http.Handler {
	server := counting()
	sdk.AddTool(server, &sdk.Tool{Name: "header"}, func(_ context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		return text(strings.Join(r.Extra.Header.Values(name), "|")), nil, nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

func TestSecrets_ChangesReachTheServer(t *testing.T) {
	t.Parallel()
	ref := &externalauth.SecretRef{Name: "creds", Key: "value"}
	for name, row := range map[string]struct {
		header, prefix string
		set            func(*workload.Spec)
	}{
		"secret header": {"X-Key", "", func(s *workload.Spec) {
			s.Remote.SecretHeaders = map[string]string{"X-Key": "secret/creds/value"}
		}},
		"bearer token": {"Authorization", "Bearer ", func(s *workload.Spec) { s.Remote.BearerToken = "secret/creds/value" }},
		"headerInjection": {"X-Api-Key", "", func(s *workload.Spec) {
			s.ExternalAuth = &externalauth.Spec{Type: externalauth.TypeHeaderInjection, HeaderInjection: &externalauth.HeaderInjection{HeaderName: "X-Api-Key", ValueSecretRef: ref}}
		}},
		"bearerToken": {"Authorization", "Bearer ", func(s *workload.Spec) {
			s.ExternalAuth = &externalauth.Spec{Type: externalauth.TypeBearerToken, BearerToken: &externalauth.BearerToken{TokenSecretRef: ref}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote := httptest.NewServer(echoing(row.header))
			t.Cleanup(remote.Close)
			dir := t.TempDir()
			spec := remoteSpec(remote.URL)
			row.set(spec)
			p := startPod(t, spec, Config{SecretsDir: dir})
			eventually(t, "the log has the missing secret", func() bool { return strings.Contains(p.log.String(), "creds/value") })
			secret := mount(t, dir, "creds", map[string]string{"value": "first\n"})
			p.awaitReady(t, http.StatusOK)
			session := connect(t, p.url, sessionEra, nil)
			if got, want := mustCall(t, session, "header", nil), row.prefix+"first"; got != want {
				t.Errorf("the server received %q, want %q", got, want)
			}
			secret.replace(map[string]string{"value": "second"})
			// Every call succeeds meanwhile.
			eventually(t, "the server receives the second value", func() bool {
				return mustCall(t, session, "header", nil) == row.prefix+"second"
			})
		})
	}
}

func TestSecrets_ReachTheServersEnvironment(t *testing.T) {
	t.Parallel()
	dir, socket := t.TempDir(), socketPath(t)
	mount(t, dir, "creds", map[string]string{"value": "s3cret"})
	spec := stdioSpec()
	spec.Env, spec.SecretEnv = map[string]string{"PLAIN": "text"}, map[string]string{"TOKEN": "secret/creds/value"}
	startGuest(t, socket)
	p := startPod(t, spec, Config{GuestSocket: socket, SecretsDir: dir})
	p.awaitReady(t, http.StatusOK)
	session := connect(t, p.url, sessionEra, nil)
	for name, want := range map[string]string{"PLAIN": "text", "TOKEN": "s3cret"} {
		if got := mustCall(t, session, "env", map[string]any{"name": name}); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if strings.Contains(p.log.String(), "s3cret") {
		t.Error("the secret is in the log")
	}
}

// A bundle of authorities is replaced before the certificate of the server is.
func TestCABundle_ChangesAreUsed(t *testing.T) {
	t.Parallel()
	remote := httptest.NewTLSServer(echoing("X-Key"))
	t.Cleanup(remote.Close)
	bundle := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	dir := t.TempDir()
	ca := mount(t, dir, "ca", map[string]string{"ca.crt": bundle(anotherAuthority(t))})
	spec := remoteSpec(remote.URL)
	spec.CABundle = filepath.Join(dir, "ca", "ca.crt")
	p := startPod(t, spec, Config{})
	eventually(t, "the certificate is refused", func() bool { return strings.Contains(p.log.String(), "certificate") })
	ca.replace(map[string]string{"ca.crt": bundle(remote.Certificate().Raw)})
	p.awaitReady(t, http.StatusOK)
	if got := mustCall(t, connect(t, p.url, sessionEra, nil), "count", nil); got != "1" {
		t.Errorf("count is %s", got)
	}
}

// anotherAuthority is the certificate of an authority that certifies nothing.
func anotherAuthority(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestSecretFiles_HostileReferences(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "outside"), "no")
	inside := must(t, filepath.Join(dir, "secrets"))
	files := &secretFiles{dir: inside}
	writeFile(t, filepath.Join(inside, "creds", "empty"), "\n")
	for _, ref := range []string{
		"secret/../outside", "secret/creds/../../outside", "secret//etc/passwd", "secret/", "workload/x/KEY", "secret/creds/..data/x",
		"secret/creds/empty", "secret/creds/missing", "secret/creds", "",
	} {
		if value, err := files.value(ref); err == nil {
			t.Errorf("%q has the value %q", ref, value)
		}
	}
}

func TestLoad_Refuses(t *testing.T) {
	t.Parallel()
	valid, err := json.Marshal(stdioSpec())
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ config, want string }{
		"unknown field":   {strings.Replace(string(valid), `"schema"`, `"shema":1,"schema"`, 1), "shema"},
		"two values":      {string(valid) + "{}", "more than one"},
		"invalid":         {strings.Replace(string(valid), `"stdio"`, `"pigeon"`, 1), "pigeon"},
		"not JSON":        {"schema: x", "invalid character"},
		"a login":         {`{"schema":"toolhaven.dev/run/v1","name":"x","source":{"kind":"","ref":""},"remote":{"url":"https://x.example/mcp","auth":{}},"transport":"streamable-http","proxy":{"host":"0.0.0.0","port":8080,"mode":"streamable-http"}}`, "browser"},
		"pinned tools":    {strings.Replace(string(valid), `"proxy"`, `"tools":{"pin":true},"proxy"`, 1), "pin"},
		"larger than any": {strings.Repeat(" ", maxConfig+1), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(writeFile(t, filepath.Join(t.TempDir(), "c.json"), row.config))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
