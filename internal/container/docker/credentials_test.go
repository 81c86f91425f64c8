package docker

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type shown struct{ Username, Password, IdentityToken, ServerAddress string }

func decode(t *testing.T, header string) shown {
	t.Helper()
	var s shown
	if header == "" {
		return s
	}
	plain, err := base64.URLEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// helper puts a credential helper on the PATH.
func helper(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestCredentialsComeFromDockerLogin(t *testing.T) {
	dir := t.TempDir()
	helper(t, "good", `read server; [ "$1" = get ] && printf '{"ServerURL":"%s","Username":"kim","Secret":"from helper"}' "$server"`)
	helper(t, "token", `echo '{"Username":"<token>","Secret":"tok"}'`)
	helper(t, "empty", `echo 'credentials not found in native keychain'; exit 1`)
	helper(t, "locked", `echo 'the keychain is locked'; exit 1`)
	secret := base64.StdEncoding.EncodeToString([]byte("jo:pass:word"))
	write(t, filepath.Join(dir, ".docker/config.json"), `{"auths":{
		"r.example":{"auth":"`+secret+`"},
		"https://older.example/v1/":{"auth":"`+secret+`"},
		"https://index.docker.io/v1/":{"auth":"`+secret+`","identitytoken":"idt"},
		"bad.example":{"auth":"!"}, "good.example":{}, "empty.example":{"auth":"`+secret+`"}},
		"credHelpers":{"evil.example":"../../bin/sh","good.example":"good","token.example":"token","empty.example":"empty","locked.example":"locked","missing.example":"missing"}}`)
	env := envOf(map[string]string{"HOME": dir})

	for ref, want := range map[string]shown{
		"r.example/a:1":       {Username: "jo", Password: "pass:word", ServerAddress: "r.example"},
		"older.example/a:1":   {Username: "jo", Password: "pass:word", ServerAddress: "older.example"},
		"alpine":              {Username: "jo", Password: "pass:word", IdentityToken: "idt", ServerAddress: hubServer},
		"good.example/a:1":    {Username: "kim", Password: "from helper", ServerAddress: "good.example"},
		"token.example/a:1":   {IdentityToken: "tok", ServerAddress: "token.example"},
		"empty.example/a:1":   {Username: "jo", Password: "pass:word", ServerAddress: "empty.example"},
		"r.example:5000/a:1":  {},
		"notr.example/a:1":    {},
		"locked.example/a:1":  {},
		"missing.example/a:1": {},
	} {
		got, err := registryLogin(t.Context(), ref, env)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, decode(t, got.header)); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
		if trouble := ref == "locked.example/a:1" || ref == "missing.example/a:1"; trouble != (got.trouble != "") {
			t.Errorf("%s: trouble %q", ref, got.trouble)
		}
	}
	for ref, want := range map[string]string{"bad.example/a:1": "log in again", "evil.example/a:1": "not valid", "NOT AN IMAGE": "not an image reference"} {
		if got, err := registryLogin(t.Context(), ref, env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	write(t, filepath.Join(dir, ".docker/config.json"), `{`)
	if _, err := registryLogin(t.Context(), "alpine", env); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a broken configuration: %v", err)
	}
}

func TestAHelpersErrorIsReportedWhenThePullFails(t *testing.T) {
	dir := t.TempDir()
	helper(t, "locked", `echo 'the keychain is locked'; exit 1`)
	write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"locked"}`)
	e := connect(t, fakeEngine(map[string]http.HandlerFunc{"/images/create": responds(500, `{"message":"unauthorized"}`)}), "HOME", dir)
	err := e.Pull(t.Context(), "r.example/a:1", nil)
	if err == nil || !strings.Contains(err.Error(), "the keychain is locked") {
		t.Errorf("got %v", err)
	}
}

func TestAHelperThatNeverStopsTalkingIsRefused(t *testing.T) {
	dir := t.TempDir()
	helper(t, "loud", `exec yes`)
	write(t, filepath.Join(dir, ".docker/config.json"), `{"credsStore":"loud"}`)
	got, err := registryLogin(t.Context(), "r.example/a:1", envOf(map[string]string{"HOME": dir}))
	if err != nil || got.header != "" || !strings.Contains(got.trouble, "docker-credential-loud") || len(got.trouble) > 2*maxText {
		t.Errorf("%d bytes, %v", len(got.trouble), err)
	}
}
