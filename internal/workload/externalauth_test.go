package workload

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/toolhaven/toolhaven/internal/externalauth"
)

const role = "arn:aws:iam::123456789012:role/reader"

// outgoing is a remote server with authenticated clients and a resource.
func outgoing(x externalauth.Spec) *Spec {
	s := remoteSpec("a")
	s.Auth = &Auth{IssuerURL: "https://idp.example", Audience: "https://a.example/mcp"}
	s.ExternalAuth = &x
	return s
}

func awsSTS(change func(*externalauth.AWSSTS)) externalauth.Spec {
	x := &externalauth.AWSSTS{Region: "eu-central-1", FallbackRoleARN: role}
	if change != nil {
		change(x)
	}
	return externalauth.Spec{Type: externalauth.TypeAWSSTS, AWSSTS: x}
}

func TestValidate_ExternalAuth(t *testing.T) {
	t.Parallel()
	inject := externalauth.Spec{Type: externalauth.TypeUpstreamInject, UpstreamInject: &externalauth.UpstreamInject{ProviderName: "okta"}}
	for _, c := range []struct {
		name string
		spec func() *Spec
		want string
	}{
		{"awsSts", func() *Spec { return outgoing(awsSTS(nil)) }, ""},
		{"awsSts without authenticated clients", func() *Spec {
			s := outgoing(awsSTS(nil))
			s.Auth = nil
			return s
		}, "give --oidc-issuer too"},
		{"awsSts at a stdio server", func() *Spec {
			s := outgoing(awsSTS(nil))
			s.Transport = Stdio
			return s
		}, "a stdio server receives no HTTP requests"},
		{"awsSts beside a header of the signature", func() *Spec {
			s := outgoing(awsSTS(nil))
			s.Remote.Headers = map[string]string{"x-amz-date": "x"}
			return s
		}, "both set the header X-Amz-Date"},
		{"a matcher that is no expression", func() *Spec {
			return outgoing(awsSTS(func(x *externalauth.AWSSTS) {
				x.RoleMappings = []externalauth.RoleMapping{{RoleARN: role, Matcher: "claims.sub =="}}
			}))
		}, "--auth: spec.awsSts.roleMappings[0].matcher: line 1"},
		{"awsSts of an upstream provider", func() *Spec {
			return outgoing(awsSTS(func(x *externalauth.AWSSTS) { x.SubjectProviderName = "okta" }))
		}, `spec.awsSts.subjectProviderName: there is no embedded authorization server, and so no upstream provider "okta"`},
		{"upstreamInject", func() *Spec { return outgoing(inject) }, `spec.upstreamInject.providerName: there is no embedded authorization server`},
		{"tokenExchange of an upstream provider", func() *Spec {
			return outgoing(externalauth.Spec{Type: externalauth.TypeTokenExchange, TokenExchange: &externalauth.TokenExchange{
				TokenURL: "https://sts.example", Audience: "a", SubjectProviderName: "okta",
			}})
		}, `spec.tokenExchange.subjectProviderName: there is no embedded authorization server`},
	} {
		err := Validate(c.spec())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What is sent to the server is each caller's own with three types of resources.
func TestPerCaller(t *testing.T) {
	t.Parallel()
	for want, specs := range map[bool][]*Spec{
		true: {
			outgoing(awsSTS(nil)),
			outgoing(externalauth.Spec{UpstreamInject: &externalauth.UpstreamInject{}}),
			outgoing(externalauth.Spec{TokenExchange: &externalauth.TokenExchange{}}),
			{TokenExchange: &TokenExchange{}},
		},
		false: {remoteSpec("a"), outgoing(externalauth.Spec{BearerToken: &externalauth.BearerToken{}})},
	} {
		for i, s := range specs {
			if PerCaller(s) != want {
				t.Errorf("%d: not %v", i, want)
			}
		}
	}
}

// The credential of a valid Spec can be made; one of a provider needs the providers.
func TestCredentials_AWS(t *testing.T) {
	secrets := func(string) (string, error) { return "", nil }
	log := slog.New(slog.DiscardHandler)
	t.Setenv(envSTS, "")
	if all, err := outgoing(awsSTS(nil)).Credentials(secrets, nil, nil, log); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	t.Setenv(envSTS, "http://sts.example")
	if _, err := outgoing(awsSTS(nil)).Credentials(secrets, nil, nil, log); err == nil || !strings.Contains(err.Error(), "endpoint of STS") {
		t.Errorf("%v", err)
	}
	t.Setenv(envSTS, "")
	if _, err := outgoing(awsSTS(func(x *externalauth.AWSSTS) { x.SubjectProviderName = "okta" })).Credentials(secrets, nil, nil, log); err == nil {
		t.Error("there are no tokens of okta")
	}
}
