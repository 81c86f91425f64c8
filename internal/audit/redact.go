package audit

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// redacted replaces a secret.
const redacted = "[redacted]"

var (
	// secretKey matches the keys of members whose values are secrets.
	secretKey = regexp.MustCompile(`(?i)pass(word|wd|phrase)|secret|token|credential|authorization|cookie|api[-_]?key|private[-_]?key|access[-_]?key`)
	// secretText matches credentials within texts: the value after Bearer or Basic (RFC 6750,
	// RFC 7617), JWTs, PEM keys, user information in URLs, and tokens of widespread services.
	secretText = regexp.MustCompile(`(?i:\b(?:bearer|basic)\s+)[A-Za-z0-9\-._~+/]{8,}=*|\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?|://[^/\s:@"]*:[^/\s@"]+@|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA|AIza)[A-Za-z0-9_-]{10,}`)
)

// keptKeys are members of MCP whose names match secretKey and whose values are not secrets.
var keptKeys = map[string]bool{"progressToken": true}

// redact returns a JSON value without secrets, cut after limit bytes. Members whose key names a secret
// are replaced whole, and credentials within texts by their form. It cannot recognize a
// secret that has neither.
func redact(raw json.RawMessage, limit int) string {
	var value any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return redacted
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(redactValue(value)); err != nil {
		return redacted
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

func redactValue(v any) any {
	switch v := v.(type) {
	case string:
		return redactText(v)
	case []any:
		for i := range v {
			v[i] = redactValue(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if secretKey.MatchString(key) && !keptKeys[key] {
				v[key] = redacted
				continue
			}
			v[key] = redactValue(value)
		}
	}
	return v
}

// redactText replaces credentials within a text.
func redactText(s string) string { return secretText.ReplaceAllString(s, redacted) }
