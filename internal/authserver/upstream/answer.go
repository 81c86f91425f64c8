package upstream

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// answer is the response of a token endpoint.
type answer struct {
	// members are those of the response as the provider sent it.
	members map[string]any
}

// mapping is where the values of a token response are.
type mapping struct{ access, refresh, expires, scope path }

// newMapping returns nil for a provider that follows RFC 6749 section 5.1.
func newMapping(m *externalauth.TokenResponseMapping) *mapping {
	if m == nil {
		return nil
	}
	or := func(text, standard string) path {
		if text == "" {
			text = standard
		}
		return parsePath(text)
	}
	return &mapping{
		access: parsePath(m.AccessTokenPath), refresh: or(m.RefreshTokenPath, "refresh_token"),
		expires: or(m.ExpiresInPath, "expires_in"), scope: or(m.ScopePath, "scope"),
	}
}

// sender wraps a Sender for one token request: it notes the members of the response, and
// returns the response in the form of RFC 6749 section 5, which package oauth reads.
func (a *answer) sender(send oauth.Sender, m *mapping, refreshes bool) oauth.Sender {
	return func(r *http.Request) (*oauth.Response, error) {
		resp, err := send(r)
		if err != nil {
			return nil, err
		}
		members, err := members(resp)
		if err != nil {
			if resp.Status != http.StatusOK {
				return resp, nil // a refusal without a reason
			}
			return nil, err
		}
		a.members = members
		standard := members
		if m != nil {
			standard = m.standard(members, refreshes)
		}
		body, err := json.Marshal(standard)
		if err != nil {
			return nil, errNotObject
		}
		return &oauth.Response{Status: resp.Status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	}
}

// standard is a response with the names of RFC 6749 sections 5.1 and 5.2.
func (m *mapping) standard(members map[string]any, refreshes bool) map[string]any {
	if refreshes && text(m.access.in(members)) == "" {
		// The answer to a refresh has one token and may be plain where the first one
		// was not.
		m = &mapping{path{"access_token"}, path{"refresh_token"}, path{"expires_in"}, path{"scope"}}
	}
	out := map[string]any{"token_type": "Bearer"}
	for name, value := range map[string]any{
		"access_token": m.access.in(members), "refresh_token": m.refresh.in(members),
		"expires_in": m.expires.in(members), "scope": scopeText(m.scope.in(members)),
		"error": members["error"], "error_description": members["error_description"],
	} {
		switch v := value.(type) {
		case string:
			if v != "" {
				out[name] = v
			}
		case json.Number:
			if name == "expires_in" {
				out[name] = v
			}
		}
	}
	return out
}

// scopeText is a list of scopes in one text.
func scopeText(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	var scopes []string
	for _, s := range list {
		if text(s) == "" {
			return nil
		}
		scopes = append(scopes, text(s))
	}
	return strings.Join(scopes, " ")
}

// members decodes a response: JSON, or a form, as some providers answer though Accept names
// JSON.
func members(resp *oauth.Response) (map[string]any, error) {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if media != "application/x-www-form-urlencoded" && (media != "text/plain" || strings.HasPrefix(strings.TrimSpace(string(resp.Body)), "{")) {
		return decode(resp.Body)
	}
	form, err := url.ParseQuery(string(resp.Body))
	if err != nil || len(form) == 0 {
		return nil, errors.New("the answer is neither a JSON object nor a form")
	}
	out := make(map[string]any, len(form))
	for name, values := range form {
		if len(values) > 1 {
			return nil, errors.New("the answer has a parameter twice")
		}
		out[name] = values[0]
	}
	return out, nil
}

// splitScopes separates scopes (RFC 6749 section 3.3). Some providers separate them by
// commas: GitHub, Slack. A comma may also be part of a scope, which is then among those
// requested.
func splitScopes(scope string, requested []string) []string {
	comma := func(s string) bool { return strings.Contains(s, ",") }
	if comma(scope) && !slices.ContainsFunc(requested, comma) {
		scope = strings.ReplaceAll(scope, ",", " ")
	}
	fields := strings.Fields(scope)
	if len(fields) > maxScopes {
		fields = fields[:maxScopes]
	}
	return fields
}

// maxScopes bounds the scopes of a response.
const maxScopes = 500
