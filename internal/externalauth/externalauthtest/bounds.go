package externalauthtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// members has a valid member of each type.
var members = map[string]string{
	"tokenExchange":      "{tokenUrl: 'https://i.example/t', audience: b}",
	"headerInjection":    "{headerName: X-A, valueSecretRef: " + ref + "}",
	"bearerToken":        "{tokenSecretRef: " + ref + "}",
	"embeddedAuthServer": "{issuer: 'https://a.example', " + oneUpstream + "}",
	"awsSts":             "{region: eu-central-1, fallbackRoleArn: '" + role + "'}",
	"upstreamInject":     "{providerName: a}",
}

// values has a case for each value of a field: the good ones, and the bad ones.
func values(document func(value string) string, good, bad []string, want string) []Rule {
	var rules []Rule
	for _, v := range good {
		rules = append(rules, Rule{document(v), ""})
	}
	for _, v := range bad {
		rules = append(rules, Rule{document(v), want})
	}
	return rules
}

// unions: each type with its member, without it, and with another one beside it.
func unions() []Rule {
	rules := []Rule{
		{upstream("type: oauth2"), "oauth2Config: is required, because type is oauth2"},
		{upstream("type: oauth2, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}, oauth2Config: {authorizationEndpoint: 'https://i.example/a', tokenEndpoint: 'https://i.example/t', clientId: c}"), "oidcConfig: must be absent, because type is oauth2"},
		{server(oneUpstream + ", storage: {}"), ""},
		{server(oneUpstream + ", storage: {type: memory}"), ""},
		{server(oneUpstream + ", storage: {type: memory, redis: {addr: 'a:1', aclUserConfig: {passwordSecretRef: " + ref + "}}}"), "must be absent, because type is memory"},
		{redis("addr: 'a:1', clusterMode: true"), ""},
		{redis("sentinelConfig: {masterName: m, sentinelAddrs: ['b:2', 'c:3']}, sentinelTls: {}"), ""},
		{redis("sentinelConfig: {masterName: m, sentinelAddrs: []}"), "one of sentinelAddrs and sentinelService is required"},
		{redis("sentinelConfig: {masterName: m, sentinelAddrs: ['b']}"), `"b" is not host:port`},
		{redis("sentinelConfig: {masterName: m, sentinelService: {}}"), "sentinelService.name: is required"},
		{redis("sentinelConfig: {masterName: m, sentinelService: {name: s, namespace: redis}}"), ""},
		{oauth2("dcrConfig: {discoveryUrl: 'https://i.example/d'}"), ""},
		{oauth2("dcrConfig: {registrationEndpoint: 'https://i.example/r'}, scopes: [a]"), ""},
		{oauth2("clientId: ''"), "one of clientId and dcrConfig is required"},
		{oauth2("clientId: c, clientSecretRef: " + ref + ", tokenResponseMapping: {accessTokenPath: a.b}"), ""},
		{sts("region: eu-central-1, roleMappings: []"), "at least one of fallbackRoleArn and roleMappings is required"},
		{sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', claim: a}]"), ""},
		{sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', matcher: '\"a\" in claims.groups'}]"), ""},
	}
	types := slices.Sorted(maps.Keys(members))
	for i, t := range types {
		other := types[(i+1)%len(types)]
		rules = append(rules,
			Rule{document("{type: " + t + ", " + t + ": " + members[t] + "}"), ""},
			Rule{document("{type: " + t + "}"), "spec." + t + ": is required, because type is " + t},
			Rule{document("{type: " + t + ", " + t + ": " + members[t] + ", " + other + ": " + members[other] + "}"), "spec." + other + ": must be absent, because type is " + t},
			Rule{document("{type: unauthenticated, " + t + ": " + members[t] + "}"), "spec." + t + ": must be absent, because type is unauthenticated"},
		)
	}
	return rules
}

// Matchers are cases whose expressions are compiled, which package credential/aws does.
func Matchers() []Rule {
	matcher := func(expression string) string {
		return sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', matcher: '" + expression + "'}]")
	}
	return []Rule{
		{matcher(`"a" in claims.groups`), ""},
		{matcher(`claims.admin`), ""},
		{matcher(`"a" in`), "spec.awsSts.roleMappings[0].matcher: line 1, column "},
		{matcher(`groups == "a"`), "spec.awsSts.roleMappings[0].matcher: line 1, column "},
		{matcher(`"a"`), "spec.awsSts.roleMappings[0].matcher: its result is string, and has to be bool"},
	}
}

// patterns: for each, what it just permits and what it just does not.
func patterns() []Rule {
	var rules []Rule
	try := func(document func(value string) string, good, bad []string, want string) {
		rules = append(rules, values(document, good, bad, want)...)
	}
	const account = "123456789012"
	arns := []string{"arn:aws:iam::" + account + ":role/a", "arn:aws-cn:iam::" + account + ":role/a", "arn:aws-us-gov:iam::" + account + ":role/path/a+=,.@-_"}
	noARNs := []string{
		"arn:aws-eu:iam::" + account + ":role/a", "arn:aws:iam::12345678901:role/a", "arn:aws:iam::1234567890123:role/a", "arn:aws:iam::" + account + ":user/a",
		"arn:aws:iam::" + account + ":role/", "arn:aws:iam::" + account + ":role/a b", " arn:aws:iam::" + account + ":role/a", "arn:aws:sts::" + account + ":role/a",
	}
	try(func(v string) string { return sts("region: eu-central-1, fallbackRoleArn: '" + v + "'") }, arns, noARNs, "fallbackRoleArn: ")
	try(func(v string) string {
		return sts("region: eu-central-1, roleMappings: [{claim: a, roleArn: '" + v + "'}]")
	}, arns, noARNs, "roleMappings[0].roleArn: ")
	try(func(v string) string { return sts("region: '" + v + "', fallbackRoleArn: '" + role + "'") },
		[]string{"us-gov-west-1", "ap-southeast-12"}, []string{"us-east", "us-1", "US-east-1", "usa-east-1", "us-east-1a", "us_east-1", " us-east-1"}, "region: ")

	urls, noURLs := []string{"https://a.example", "https://a.example/b/c", "https://ab", "http://localhost:8080", "http://127.0.0.1"},
		[]string{"https://a.example/", "https://a.example?b", "https://a.example#b", "https://a", "https:/a.example", "ftp://a.example", "https://a .example", "a.example", "HTTPS://a.example"}
	try(func(v string) string {
		return document("{type: embeddedAuthServer, embeddedAuthServer: {issuer: '" + v + "', " + oneUpstream + "}}")
	}, urls, noURLs, "embeddedAuthServer.issuer: ")
	try(func(v string) string { return server(oneUpstream + ", authorizationEndpointBaseUrl: '" + v + "'") }, urls, noURLs, "authorizationEndpointBaseUrl: ")
	secure, insecure := []string{"https://i.example/d", "https://ab"}, []string{"http://localhost/d", "https://i.example/d/", "https://i.example/d?e", "https://i.example/d#e", "https://a"}
	try(func(v string) string { return oauth2("dcrConfig: {discoveryUrl: '" + v + "'}") }, secure, insecure, "dcrConfig.discoveryUrl: ")
	try(func(v string) string { return oauth2("scopes: [a], dcrConfig: {registrationEndpoint: '" + v + "'}") }, secure, insecure, "dcrConfig.registrationEndpoint: ")
	endpoints, noEndpoints := []string{"https://i.example/a?b=c", "http://[::1]:1/a", "https://i.example/"}, []string{"", "ftp://i.example/a", "//i.example/a", "http://i.example/a", "https://i.example/a#b"}
	try(func(v string) string {
		return upstream("type: oauth2, oauth2Config: {clientId: c, authorizationEndpoint: '" + v + "', tokenEndpoint: 'https://i.example/t'}")
	}, endpoints, noEndpoints, "oauth2Config.authorizationEndpoint: ")
	try(func(v string) string {
		return upstream("type: oauth2, oauth2Config: {clientId: c, tokenEndpoint: '" + v + "', authorizationEndpoint: 'https://i.example/a'}")
	}, endpoints, noEndpoints, "oauth2Config.tokenEndpoint: ")
	try(func(v string) string { return oauth2("clientId: c, userInfo: {endpointUrl: '" + v + "'}") }, endpoints, noEndpoints, "userInfo.endpointUrl: ")
	try(func(v string) string {
		return document("{type: tokenExchange, tokenExchange: {audience: b, tokenUrl: '" + v + "'}}")
	}, endpoints, noEndpoints, "tokenExchange.tokenUrl: ")
	try(func(v string) string {
		return upstream("type: oidc, oidcConfig: {clientId: c, issuerUrl: '" + v + "'}")
	}, []string{"https://i.example/", "https://i.example/realm"}, []string{"http://127.0.0.1", "https:i.example", "", "https://"}, "oidcConfig.issuerUrl: ")

	labels, noLabels := []string{"a", "a-b", "0", strings.Repeat("a", 63)}, []string{"A", "-a", "a-", "a_b", "a.b", "a b", strings.Repeat("a", 64)}
	try(func(v string) string {
		return document("{type: upstreamInject, upstreamInject: {providerName: '" + v + "'}}")
	}, labels[:1], noLabels, "providerName: ")
	try(func(v string) string {
		return server("upstreamProviders: [{name: '" + v + "', type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c}}]")
	}, labels, append(noLabels, ""), "upstreamProviders[0].name: ")
	try(func(v string) string { return exchange("subjectProviderName: '" + v + "'") }, labels[:1], noLabels, "subjectProviderName: ")
	try(func(v string) string {
		return sts("region: eu-central-1, fallbackRoleArn: '" + role + "', subjectProviderName: '" + v + "'")
	}, labels[:1], noLabels, "subjectProviderName: ")

	var kinds, noKinds []string
	for _, kind := range []string{"access_token", "id_token", "jwt"} {
		kinds = append(kinds, kind, "urn:ietf:params:oauth:token-type:"+kind)
	}
	for _, kind := range []string{"refresh_token", "saml2", "Jwt", "jwt "} {
		noKinds = append(noKinds, kind, "urn:ietf:params:oauth:token-type:"+kind)
	}
	try(func(v string) string { return exchange("subjectTokenType: '" + v + "'") }, append(kinds, ""), noKinds, "subjectTokenType: ")
	try(func(v string) string { return exchange("scopes: ['" + v + "']") }, []string{"a", "https://a.example/b.c", "!~#[]"}, []string{"", "a b", `a"b`, `a\b`, "é"}, "scopes[0]: ")
	try(func(v string) string {
		return document("{type: headerInjection, headerInjection: {headerName: '" + v + "', valueSecretRef: " + ref + "}}")
	}, []string{"X-Api-Key", "Authorization", "x_y"}, []string{"", "X Api", "X:", "Host", "content-length", "Transfer-Encoding", "Connection", "Mcp-Session-Id", "Cookie"}, "headerName: ")
	for _, name := range []string{"response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method", "nonce"} {
		param := "additionalAuthorizationParams: {audience: a, " + name + ": x}"
		rules = append(rules,
			Rule{oauth2("clientId: c, " + param), name + " is set by the gateway"},
			Rule{upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, " + param + "}"), name + " is set by the gateway"})
	}
	return append(rules, Rule{oauth2("clientId: c, additionalAuthorizationParams: {prompt: consent, resource: r, login_hint: l, State: x}"), ""})
}

// bounds: for each, the last value within it and the first beyond it.
func bounds() []Rule {
	var rules []Rule
	try := func(document func(value string) string, good, bad []string, want string) {
		rules = append(rules, values(document, good, bad, want)...)
	}
	lifespan := func(name string) func(string) string {
		return func(v string) string { return server(oneUpstream + ", tokenLifespans: {" + name + ": '" + v + "'}") }
	}
	noDurations := []string{"1d", "60", "1 h", "+1h", "1.h", ".5h", "h"}
	try(lifespan("accessTokenLifespan"), []string{"1m", "24h", "60000ms", "1.5h", "1h30m15s"}, append(noDurations, "59s", "24h1s", "-1h"), "accessTokenLifespan: ")
	try(lifespan("refreshTokenLifespan"), []string{"1h", "720h"}, append(noDurations, "59m59s", "720h1ms", "1000000000h"), "refreshTokenLifespan: ")
	try(lifespan("authCodeLifespan"), []string{"30s", "10m"}, append(noDurations, "29999ms", "10m1ns"), "authCodeLifespan: ")
	for _, name := range []string{"dialTimeout", "readTimeout", "writeTimeout"} {
		try(func(v string) string { return redis("addr: 'a:1', " + name + ": '" + v + "'") }, []string{"1ms", "10m", "1000µs"}, append(noDurations, "999us", "601s"), name+": ")
	}
	session := func(v string) string {
		return sts("region: eu-central-1, fallbackRoleArn: '" + role + "', sessionDuration: " + v)
	}
	try(session, []string{"900", "43200"}, []string{"899", "43201", "0", "-900"}, "sessionDuration: ")
	try(func(v string) string {
		return sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', claim: a, priority: " + v + "}]")
	}, []string{"0", "2147483647"}, []string{"-1"}, "priority: ")
	try(func(v string) string {
		return redis("sentinelConfig: {masterName: m, sentinelService: {name: s, port: " + v + "}}")
	}, []string{"1", "65535"}, []string{"0", "65536", "-1"}, "sentinelService.port: ")
	try(func(v string) string {
		return redis("sentinelConfig: {masterName: m, sentinelAddrs: ['a:1'], db: " + v + "}")
	}, []string{"0", "15"}, []string{"-1"}, "sentinelConfig.db: ")

	a := func(n int) string { return strings.Repeat("a", n) }
	const discovery = "https://i.example/"
	try(func(v string) string { return oauth2("dcrConfig: {discoveryUrl: '" + discovery + v + "'}") }, []string{a(2048 - len(discovery))}, []string{a(2049 - len(discovery))}, "discoveryUrl: ")
	try(func(v string) string {
		return oauth2("scopes: [a], dcrConfig: {registrationEndpoint: '" + discovery + v + "'}")
	}, []string{a(2048 - len(discovery))}, []string{a(2049 - len(discovery))}, "registrationEndpoint: ")
	dcr := func(field string) func(string) string {
		return func(v string) string {
			return oauth2("dcrConfig: {discoveryUrl: 'https://i.example/d', " + field + ": '" + v + "'}")
		}
	}
	try(dcr("softwareId"), []string{a(255), strings.Repeat("é", 255)}, []string{a(256)}, "softwareId: ")
	try(dcr("softwareStatement"), []string{"a.b." + a(16380)}, []string{"a.b." + a(16381)}, "softwareStatement: ")
	try(func(v string) string {
		return oauth2("clientId: c, identityFromToken: {subjectPath: s, namePath: '" + v + "'}")
	}, []string{a(256)}, []string{a(257)}, "namePath: ")
	try(func(v string) string {
		return oauth2("clientId: c, identityFromToken: {subjectPath: s, emailPath: '" + v + "'}")
	}, []string{a(256)}, []string{a(257)}, "emailPath: ")
	try(func(v string) string { return oauth2("clientId: c, identityFromToken: {subjectPath: '" + v + "'}") }, []string{"a", a(256)}, []string{"", a(257)}, "subjectPath: ")
	for _, name := range []string{"refreshTokenPath", "expiresInPath", "scopePath"} {
		try(func(v string) string {
			return oauth2("clientId: c, tokenResponseMapping: {accessTokenPath: a, " + name + ": '" + v + "'}")
		}, []string{a(256)}, []string{a(257)}, name+": ")
	}
	try(func(v string) string {
		return oauth2("clientId: c, tokenResponseMapping: {accessTokenPath: '" + v + "'}")
	}, []string{"a", a(256)}, []string{"", a(257)}, "accessTokenPath: ")
	try(func(v string) string {
		return upstream("type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, subjectClaim: '" + v + "'}")
	}, []string{"", "_a0", a(128)}, []string{"0a", "a-b", a(129)}, "subjectClaim: ")
	try(func(v string) string {
		return sts("region: eu-central-1, roleMappings: [{roleArn: '" + role + "', matcher: 'true || \"" + v + "\" == \"\"'}]")
	}, []string{a(4096 - len(`true || "" == ""`))}, []string{a(4097 - len(`true || "" == ""`))}, "matcher: ")

	items := func(n int, item string) string { return "[" + strings.Repeat(item+", ", n) + "]" }
	params := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "p%d: x, ", i)
		}
		return "{" + all.String() + "}"
	}
	mapping := "{roleArn: '" + role + "', claim: a}"
	scopes := "[a, b, c, d, e, f, g, h, i, j]"
	return append(rules,
		Rule{server(oneUpstream + ", signingKeySecretRefs: " + items(5, ref)), ""},
		Rule{server(oneUpstream + ", hmacSecretRefs: " + items(9, ref)), ""},
		Rule{server("upstreamProviders: [{name: a, type: oidc, oidcConfig: {issuerUrl: 'https://i.example', clientId: c, scopes: " + scopes + "}}], baselineClientScopes: " + scopes), ""},
		Rule{oauth2("clientId: c, additionalAuthorizationParams: " + params(16)), ""},
		Rule{oauth2("clientId: c, additionalAuthorizationParams: " + params(17)), "has 17 parameters; at most 16"},
		Rule{sts("region: eu-central-1, roleMappings: " + items(500, mapping)), ""},
		Rule{sts("region: eu-central-1, roleMappings: " + items(501, mapping)), "has 501 mappings; at most 500"},
		Rule{document("{type: bearerToken, bearerToken: {tokenSecretRef: {name: '', key: k}}}"), "tokenSecretRef.name: is required"},
		Rule{document("{type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: ''}}}"), "tokenSecretRef.key: is required"},
		Rule{document("{type: tokenExchange, tokenExchange: {tokenUrl: 'https://i.example/t', audience: ''}}"), "audience: is required"},
	)
}
