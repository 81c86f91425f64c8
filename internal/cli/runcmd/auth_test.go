package runcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/secret"
	"github.com/toolhaven/toolhaven/internal/workload"
)

// parseAuth parses flags of client authentication.
func parseAuth(t *testing.T, args ...string) (*workload.Auth, *authOptions, error) {
	t.Helper()
	var o authOptions
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	addAuthFlags(f, &o)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	a, err := o.parse(f.Changed)
	return a, &o, err
}

func TestAuthFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, _, err := parseAuth(t); a != nil || err != nil {
		t.Errorf("without flags: %+v, %v", a, err)
	}
	for args, want := range map[string]workload.Auth{
		"--oidc-issuer=https://i":                  {IssuerURL: "https://i", Scopes: []string{"openid"}},
		"--oidc-audience=x":                        {Audience: "x", Scopes: []string{"openid"}},
		"--oidc-client-id=x":                       {ClientID: "x", Scopes: []string{"openid"}},
		"--oidc-jwks-url=https://i/k":              {JWKSURL: "https://i/k", Scopes: []string{"openid"}},
		"--oidc-introspection-url=https://i/i":     {IntrospectionURL: "https://i/i", Scopes: []string{"openid"}},
		"--oidc-scopes=a,b --oidc-scopes=c":        {Scopes: []string{"a", "b", "c"}},
		"--oidc-insecure-allow-http":               {AllowHTTP: true, Scopes: []string{"openid"}},
		"--jwks-allow-private-ip":                  {AllowPrivateIP: true, Scopes: []string{"openid"}},
		"--jwks-auth-token-file=" + file:           {AuthTokenFile: file, Scopes: []string{"openid"}},
		"--resource-url=https://t/mcp":             {ResourceURL: "https://t/mcp", Scopes: []string{"openid"}},
		"--oidc-client-id=x --oidc-client-secret=": {ClientID: "x", Scopes: []string{"openid"}},
	} {
		got, _, err := parseAuth(t, strings.Fields(args)...)
		if err != nil || got == nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if d := cmp.Diff(want, *got); d != "" {
			t.Errorf("%s: %s", args, d)
		}
	}
	for args, want := range map[string]string{
		"--oidc-client-secret=s":          "--oidc-client-secret needs --oidc-client-id",
		"--jwks-auth-token-file=/nowhere": "--jwks-auth-token-file: ",
	} {
		if _, _, err := parseAuth(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// The client secret is kept apart: the Spec has a reference.
func TestClientSecret_IsKeptApart(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		return map[string]string{"THV_OIDC_CLIENT_SECRET": "from the environment"}[name]
	}
	for _, c := range []struct{ flag, want string }{{"from the flag", "from the flag"}, {"", "from the environment"}} {
		a, o, err := parseAuth(t, "--oidc-client-id=x", "--oidc-client-secret="+c.flag)
		if err != nil {
			t.Fatal(err)
		}
		d := &draft{spec: &workload.Spec{Name: "a", Auth: a}, secrets: map[string]string{}}
		all := &options{app: &base.App{Env: env}, auth: *o, server: noServerFlags()}
		d.keepSecrets(all.secretValue)
		if d.secrets[workload.ClientSecretKey] != c.want || a.ClientSecret != secret.Ref("a", workload.ClientSecretKey) {
			t.Errorf("%q: %v, %+v", c.flag, d.secrets, a)
		}
	}
	// Without a client the environment's variable is not for this workload.
	d := &draft{spec: &workload.Spec{Name: "a", Auth: &workload.Auth{IssuerURL: "https://i"}}, secrets: map[string]string{}}
	d.keepSecrets(func(string) string { return "x" })
	if len(d.secrets) > 0 || d.spec.Auth.ClientSecret != "" {
		t.Errorf("%v, %+v", d.secrets, d.spec.Auth)
	}
}

// noServerFlags are the options of a command line without flags for the server's credentials.
func noServerFlags() serverOptions {
	var o serverOptions
	addServerFlags(pflag.NewFlagSet("run", pflag.ContinueOnError), &o)
	return o
}

func TestRecoverClientSecret(t *testing.T) {
	t.Parallel()
	broken := errors.New("the store is broken")
	for _, c := range []struct {
		name, inFile, given string
		stored              func(key, ref string) (string, error)
		want, fault         string
	}{
		{"of the command line", "workload/a/oidc-client-secret", "given", nil, "given", ""},
		{"of the same workload", "workload/a/oidc-client-secret", "", func(string, string) (string, error) { return "stored", nil }, "stored", ""},
		{"in clear in the file", "in clear", "", nil, "in clear", ""},
		{"missing", "workload/a/oidc-client-secret", "", func(string, string) (string, error) { return "", nil }, "", "--oidc-client-secret or in THV_OIDC_CLIENT_SECRET"},
		{"of a broken store", "workload/a/oidc-client-secret", "", func(string, string) (string, error) { return "", broken }, "", broken.Error()},
		{"none", "", "", nil, "", ""},
	} {
		d := &draft{spec: &workload.Spec{Name: "b", Auth: &workload.Auth{ClientID: "x", ClientSecret: c.inFile}}, secrets: map[string]string{}}
		d.hideSecrets()
		err := d.recoverSecretFields(nil, func(string) string { return c.given }, c.stored)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := d.secrets[workload.ClientSecretKey]; got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
		if got := d.spec.Auth.ClientSecret; c.want != "" && got != "workload/b/oidc-client-secret" {
			t.Errorf("%s: the reference is %q", c.name, got)
		}
	}
}

func TestDecodeExport_ToolHiveAuthentication(t *testing.T) {
	t.Parallel()
	file := func(more string) []byte {
		return []byte(`{"schema_version":"v0.1.0","name":"a","remote_url":"https://x.example/mcp","transport":"streamable-http","host":"127.0.0.1","port":12345,` + more + `}`)
	}
	s, _, err := decodeExport(file(`"oidc_config":{"Issuer":"https://idp.example","Audience":"x","JWKSURL":"","ClientID":"c","ClientSecret":"s","CACertPath":"","AuthTokenFile":"/t",
		"AllowPrivateIP":true,"InsecureAllowHTTP":true,"IntrospectionURL":"https://idp.example/i","ResourceURL":"https://t.example/mcp","Scopes":["openid"]},"thv_ca_bundle":"/ca.pem"`))
	if err != nil {
		t.Fatal(err)
	}
	want := &workload.Auth{
		IssuerURL: "https://idp.example", Audience: "x", IntrospectionURL: "https://idp.example/i", ClientID: "c", ClientSecret: "s",
		Scopes: []string{"openid"}, AllowHTTP: true, AllowPrivateIP: true, AuthTokenFile: "/t", ResourceURL: "https://t.example/mcp",
	}
	if d := cmp.Diff(want, s.Auth); d != "" || s.CABundle != "/ca.pem" {
		t.Errorf("%s %s", d, s.CABundle)
	}
	// The client is used for introspection only.
	s, _, err = decodeExport(file(`"oidc_config":{"Issuer":"https://idp.example","Audience":"x","ClientID":"c","ClientSecret":"s","CACertPath":"/idp.pem"}`))
	if err != nil || s.Auth.ClientID != "" || s.Auth.ClientSecret != "" || s.CABundle != "/idp.pem" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := workload.Validate(s); err != nil {
		t.Error(err)
	}
	if s, _, err := decodeExport(file(`"oidc_config":{}`)); err != nil || s.Auth != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if _, _, err := decodeExport(file(`"oidc_config":{"Isuer":"x"}`)); err == nil {
		t.Error("an unknown key was ignored")
	}
}
