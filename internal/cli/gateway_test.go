package cli_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	registryclient "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/toolhaven/toolhaven/internal/cli/clitest"
)

// The init container of a pod finds the program of an image that needs a password, with the pull
// secret that is mounted, and shows the password nowhere.
func TestGatewayEntryPoint(t *testing.T) {
	t.Parallel()
	const password = "p4ssw0rd"
	handler := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	image, err := mutate.Config(empty.Image, v1.Config{Entrypoint: []string{"/server"}, Cmd: []string{"--serve"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/team/server:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := registryclient.Write(ref, image, registryclient.WithAuth(&authn.Basic{Username: "robot", Password: password})); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "creds")
	if err := os.MkdirAll(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("robot:"+password)))
	if err := os.WriteFile(filepath.Join(secret, ".dockerconfigjson"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "program")
	args := []string{"gateway", "entry-point", "--allow-loopback", "--image", ref.String(), "--to", to}
	app := clitest.App(t)
	if out, text, code := clitest.Run(t, app, args...); code == 0 || !strings.Contains(text, "requires a login") || !strings.Contains(text, "give spec.command") {
		t.Errorf("without the password: %d %s %s", code, out, text)
	}
	args = append(args, "--pull-secrets", dir)
	for _, row := range []struct {
		more []string
		want string
	}{{nil, `["/server","--serve"]`}, {[]string{"--with-arguments"}, `["/server"]`}} {
		out, text, code := clitest.Run(t, app, append(args, row.more...)...)
		content, err := os.ReadFile(to)
		if code != 0 || err != nil || string(content) != row.want {
			t.Errorf("%v: %d %s %s\n%s, %v; want %s", row.more, code, out, text, content, err, row.want)
		}
		if strings.Contains(out+text, password) {
			t.Error("the password is shown")
		}
	}
}
