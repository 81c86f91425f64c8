// Package externalauthtest has the rules of package externalauth as cases, for the tests of
// all that apply them: the command line, the API server and the admission webhook.
package externalauthtest

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is a file with a resource, and a part of what is reported of it; "" for one that is
// valid.
type Rule struct{ Text, Want string }

const ref = "{name: s, key: k}"

func document(spec string) string {
	return "apiVersion: toolhaven.dev/v1beta1\nkind: MCPExternalAuthConfig\nmetadata: {name: x}\nspec: " + spec + "\n"
}

func server(more string) string {
	return document("{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'https://a.example', " + more + "}}")
}

const oneUpstream = "upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]"

func upstream(more string) string {
	return server("upstreamProviders: [{name: a, " + more + "}]")
}

func oauth2(more string) string {
	return upstream("type: oauth2, oauth2Config: {authorizationEndpoint: 'https://i.example/a', tokenEndpoint: 'https://i.example/t', " + more + "}")
}

func redis(more string) string {
	return server(oneUpstream + ", storage: {type: redis, redis: {aclUserConfig: {passwordSecretRef: " + ref + "}, " + more + "}}")
}

func exchange(more string) string {
	return document("{type: tokenExchange, tokenExchange: {tokenUrl: 'https://i.example/t', audience: b, " + more + "}}")
}

func sts(more string) string {
	return document("{type: awsSts, awsSts: {" + more + "}}")
}

func manyUpstreams(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "{name: a%d, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}, ", i)
	}
	return all.String()
}

const role = "arn:aws:iam::123456789012:role/reader"

// Rules are the cases, one or more for each rule.
func Rules() []Rule {
	return slices.Concat(fields(), unions(), patterns(), bounds(), files())
}

// fields are what each field requires by itself, and with others.
func fields() []Rule {
	return []Rule{
		{document("{type: unauthenticated}"), ""},
		{document("{}"), "spec.type: is required; choose one of tokenExchange, "},
		{document("{type: obo}"), `spec.type: "obo" is not one of tokenExchange, `},
		{document("{type: bearerToken}"), "spec.bearerToken: is required, because type is bearerToken"},
		{document("{type: unauthenticated, upstreamInject: {providerName: a}}"), "spec.upstreamInject: must be absent, because type is unauthenticated"},
		{document("{type: bearerToken, bearerToken: {}}"), "spec.bearerToken.tokenSecretRef: is required"},
		{document("{type: bearerToken, bearerToken: {tokenSecretRef: {name: a}}}"), "spec.bearerToken.tokenSecretRef.key: is required"},
		{document("{type: upstreamInject, upstreamInject: {}}"), "spec.upstreamInject.providerName: is required"},
		{document("{type: headerInjection, headerInjection: {headerName: x, valueSecretRef: " + ref + "}}"), ""},
		{document("{type: headerInjection, headerInjection: {headerName: Cookie, valueSecretRef: " + ref + "}}"), "spec.headerInjection.headerName: Cookie is set by the gateway"},
		{document("{type: headerInjection, headerInjection: {headerName: mcp-session-id, valueSecretRef: " + ref + "}}"), "Mcp-Session-Id is set by the gateway"},
		{document("{type: headerInjection, headerInjection: {headerName: 'a b', valueSecretRef: " + ref + "}}"), `"a b" is not a name of a header`},

		{exchange(""), ""},
		{exchange("subjectTokenType: 'urn:ietf:params:oauth:token-type:jwt'"), ""},
		{exchange("subjectTokenType: saml2"), `spec.tokenExchange.subjectTokenType: "saml2" is not`},
		{exchange("clientSecretRef: " + ref), "spec.tokenExchange.clientId: is required with clientSecretRef"},
		{exchange("externalTokenHeaderName: Host"), "Host is set by the gateway"},
		{exchange("externalTokenHeaderName: x-forwarded-for"), "X-Forwarded-For is set by the gateway"},
		{exchange("scopes: ['a b']"), `spec.tokenExchange.scopes[0]: "a b" is not a scope`},
		{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'http://i.example/t', audience: b}}"), "http:// is for loopback only"},
		{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'http://127.0.0.1:1/t', audience: b}}"), ""},
		{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'file:///t', audience: b}}"), "is not a URL with a host"},
		{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'https://me:pw@i.example/t', audience: b}}"), "without user information"},
		{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'https://i.example/t'}}"), "spec.tokenExchange.audience: is required"},

		{sts("region: eu-central-1, fallbackRoleArn: '" + role + "'"), ""},
		{sts("region: eu-central-1"), "spec.awsSts: at least one of fallbackRoleArn and roleMappings is required"},
		{sts("fallbackRoleArn: '" + role + "'"), "spec.awsSts.region: is required"},
		{sts("region: Europe, fallbackRoleArn: '" + role + "'"), `spec.awsSts.region: "Europe" is not a region`},
		{sts("region: eu-central-1, fallbackRoleArn: 'arn:aws:iam::1:role/x'"), "is not the ARN of a role"},
		{sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', claim: a, matcher: b}]"), "spec.awsSts.roleMappings[0]: claim and matcher exclude each other"},
		{sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "'}]"), "spec.awsSts.roleMappings[0]: one of claim and matcher is required"},
		{sts("region: eu-central-1, roleMappings: [{claim: a}]"), "spec.awsSts.roleMappings[0].roleArn: is required"},
		{sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', claim: a, priority: -1}]"), "spec.awsSts.roleMappings[0].priority: is -1"},
		{sts("region: eu-central-1, fallbackRoleArn: '" + role + "', sessionDuration: 899"), "spec.awsSts.sessionDuration: is 899; it must be 900 to 43200 seconds"},
		{sts("region: eu-central-1, fallbackRoleArn: '" + role + "', sessionDuration: 43201"), "is 43201"},

		{server(oneUpstream), ""},
		{server("upstreamProviders: [" + manyUpstreams(32) + "]"), ""},
		{server("upstreamProviders: [" + manyUpstreams(33) + "]"), "has 33 providers; at most 32 are possible"},
		{server("upstreamProviders: []"), "spec.embeddedAuthServer.upstreamProviders: at least one is required"},
		{document("{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'https://a.example/', " + oneUpstream + "}}"), "spec.embeddedAuthServer.issuer: \"https://a.example/\" must not end in a slash"},
		{document("{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'http://a.example', " + oneUpstream + "}}"), "http:// is for loopback only"},
		{document("{type: embeddedAuthServer, embeddedAuthServer: {issuer: 'http://localhost:8080', " + oneUpstream + "}}"), ""},
		{server(oneUpstream + ", authorizationEndpointBaseUrl: 'https://b.example?x'"), "spec.embeddedAuthServer.authorizationEndpointBaseUrl: "},
		{server(oneUpstream + ", baselineClientScopes: ['a\"']"), "is not a scope"},
		{server(oneUpstream + ", baselineClientScopes: [a, b, c, d, e, f, g, h, i, j, k]"), "has 11 scopes; at most 10 are possible"},
		{server(oneUpstream + ", signingKeySecretRefs: [{name: a}]"), "spec.embeddedAuthServer.signingKeySecretRefs[0].key: is required"},
		{server(oneUpstream + ", signingKeySecretRefs: [" + strings.Repeat(ref+", ", 6) + "]"), "has 6 keys; at most 5"},
		{server(oneUpstream + ", hmacSecretRefs: [{key: a}]"), "spec.embeddedAuthServer.hmacSecretRefs[0].name: is required"},
		{server(oneUpstream + ", primaryUpstreamProvider: b"), `there is no upstream provider "b"`},
		{server(oneUpstream + ", tokenLifespans: {accessTokenLifespan: 30s}"), "spec.embeddedAuthServer.tokenLifespans.accessTokenLifespan: is 30s; it must be 1m to 24h"},
		{server(oneUpstream + ", tokenLifespans: {refreshTokenLifespan: 7d}"), `"7d" is not a duration`},
		{server(oneUpstream + ", tokenLifespans: {refreshTokenLifespan: 721h}"), "it must be 1h to 720h"},
		{server(oneUpstream + ", tokenLifespans: {authCodeLifespan: 11m}"), "it must be 30s to 10m"},
		{server(oneUpstream + ", tokenLifespans: {authCodeLifespan: -1m}"), "is not a duration"},

		{server(oneUpstream + ", storage: {type: disk}"), `spec.embeddedAuthServer.storage.type: "disk" is not one of memory, redis`},
		{server(oneUpstream + ", storage: {type: redis}"), "spec.embeddedAuthServer.storage.redis: is required, because type is redis"},
		{server(oneUpstream + ", storage: {redis: {addr: 'a:1', aclUserConfig: {passwordSecretRef: " + ref + "}}}"), "must be absent, because type is memory"},
		{redis("addr: 'a:1'"), ""},
		{redis("addr: a"), `"a" is not host:port`},
		{redis("dialTimeout: 1s"), "one of addr and sentinelConfig is required"},
		{redis("addr: 'a:1', sentinelConfig: {masterName: m, sentinelAddrs: ['b:2']}"), "addr and sentinelConfig exclude each other"},
		{redis("clusterMode: true, sentinelConfig: {masterName: m, sentinelAddrs: ['b:2']}"), "spec.embeddedAuthServer.storage.redis.clusterMode: needs addr"},
		{redis("addr: 'a:1', sentinelTls: {}"), "sentinelTls: needs sentinelConfig"},
		{redis("sentinelConfig: {masterName: m}"), "one of sentinelAddrs and sentinelService is required"},
		{redis("sentinelConfig: {masterName: m, sentinelAddrs: ['b:2'], sentinelService: {name: s}}"), "sentinelAddrs and sentinelService exclude each other"},
		{redis("sentinelConfig: {sentinelService: {port: 0}}"), "sentinelConfig.masterName: is required"},
		{redis("sentinelConfig: {masterName: m, sentinelService: {name: s, port: 65536}}"), "is 65536; it must be 1 to 65535"},
		{redis("addr: 'a:1', readTimeout: 0s"), "readTimeout: is 0s; it must be 1ms to 10m"},
		{server(oneUpstream + ", storage: {type: redis, redis: {addr: 'a:1'}}"), "aclUserConfig: is required"},

		{upstream("type: saml"), `spec.embeddedAuthServer.upstreamProviders[0].type: "saml" is not one of oidc, oauth2`},
		{upstream("type: oidc"), "oidcConfig: is required, because type is oidc"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}, oauth2Config: {authorizationEndpoint: 'https://i.example/a', tokenEndpoint: 'https://i.example/t', clientId: c}"), "oauth2Config: must be absent, because type is oidc"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'http://localhost', clientId: c}"), `"http://localhost" must begin with https://`},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example'}"), "oidcConfig.clientId: is required"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, additionalAuthorizationParams: {prompt: consent, state: x}}"), "state is set by the gateway, and cannot be given"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, additionalAuthorizationParams: {prompt: consent, request_uri: x}}"), "request_uri is set by the gateway, and cannot be given"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, subjectClaim: 'a.b'}"), `"a.b" is not a name of a claim`},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, redirectUri: 'javascript:x'}"), "is not a URL with a host"},
		{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, userInfoOverride: {endpointUrl: 'http://i.example/u'}}"), "http:// is for loopback only"},
		{server("upstreamProviders: [{name: A, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]"), `"A" is not a name of a provider`},
		{server("upstreamProviders: [" + strings.Repeat("{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}, ", 2) + "]"), `"a" is the name of another provider`},

		{oauth2("clientId: c"), ""},
		{oauth2("scopes: [a]"), "one of clientId and dcrConfig is required"},
		{oauth2("clientId: c, dcrConfig: {discoveryUrl: 'https://i.example/d'}"), "clientId and dcrConfig exclude each other"},
		{oauth2("clientSecretRef: " + ref + ", dcrConfig: {discoveryUrl: 'https://i.example/d'}"), "clientSecretRef: must be absent with dcrConfig"},
		{oauth2("dcrConfig: {}"), "one of discoveryUrl and registrationEndpoint is required"},
		{oauth2("dcrConfig: {discoveryUrl: 'https://i.example/d', registrationEndpoint: 'https://i.example/r'}, scopes: [a]"), "discoveryUrl and registrationEndpoint exclude each other"},
		{oauth2("dcrConfig: {registrationEndpoint: 'https://i.example/r'}"), "scopes: is required with dcrConfig.registrationEndpoint"},
		{oauth2("dcrConfig: {discoveryUrl: 'http://127.0.0.1/d'}"), "must begin with https://"},
		{oauth2("dcrConfig: {discoveryUrl: 'https://i.example/" + strings.Repeat("d", 2048) + "'}"), "characters; at most 2048 are possible"},
		{oauth2("dcrConfig: {discoveryUrl: 'https://i.example/d', softwareStatement: abc}"), "softwareStatement: is not a signed JWT"},
		{oauth2("clientId: c, identityFromToken: {namePath: a}"), "identityFromToken.subjectPath: is required"},
		{oauth2("clientId: c, identityFromToken: {subjectPath: a..b}"), `"a..b" is not a path`},
		{oauth2("clientId: c, tokenResponseMapping: {scopePath: a}"), "tokenResponseMapping.accessTokenPath: is required"},
		{oauth2("clientId: c, userInfo: {endpointUrl: 'https://i.example/u', httpMethod: PUT}"), `httpMethod: "PUT" is not one of GET, POST`},
		{oauth2("clientId: c, userInfo: {endpointUrl: 'https://i.example/u', additionalHeaders: {Accept: application/json}}"), ""},
		{oauth2("clientId: c, userInfo: {endpointUrl: 'https://i.example/u', additionalHeaders: {authorization: x}}"), "has the token, and cannot be set"},
		{oauth2("clientId: c, userInfo: {endpointUrl: 'https://i.example/u', additionalHeaders: {X-A: \"a\\r\\nb\"}}"), "its value has control characters"},
	}
}

// files are about the text, and not the resource in it.
func files() []Rule {
	return []Rule{
		{"", "it has no resource"},
		{"apiVersion: v1\nkind: Secret\nmetadata: {}\nspec: {type: unauthenticated}\n", `kind: "Secret" is not MCPExternalAuthConfig`},
		{document("{type: unauthenticated, typ: x}"), `line 4: spec.typ: there is no such setting; did you mean "type"?`},
		{document("{type: awsSts, awsSts: {region: a, sessionDuration: long}}"), `line 4: spec.awsSts.sessionDuration: it must be a whole number of 32 bits, not "long"`},
		{document("{type: unauthenticated}") + "---\n" + document("{type: x}"), `x: spec.type: "x" is not one of`},
	}
}

// Server is a file with an authorization server that has one upstream provider.
func Server() string { return server(oneUpstream) }
