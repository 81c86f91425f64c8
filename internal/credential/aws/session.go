package aws

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The length of a session name (AWS STS API reference, AssumeRoleWithWebIdentity,
// RoleSessionName: 2 to 64 characters of [\w+=,.@-]).
const (
	minSessionName = 2
	maxSessionName = 64
)

// sessionName makes the value of a claim a legal session name: each other character becomes
// a dash, and it is cut. AWS records it with the requests of the session, so it identifies the
// caller there; two callers whose names differ only in such characters look alike.
func sessionName(claim string, claims map[string]any) (string, error) {
	var value string
	switch v := claims[claim].(type) {
	case nil:
		return "", fmt.Errorf("the token has no claim %q", claim)
	case string:
		value = v
	case json.Number:
		value = v.String()
	default:
		return "", fmt.Errorf("the claim %q is not text", claim)
	}
	if value == "" {
		return "", fmt.Errorf("the claim %q is empty", claim)
	}
	var b strings.Builder
	for _, r := range value {
		if b.Len() == maxSessionName {
			break
		}
		if !inSessionName(r) {
			r = '-'
		}
		b.WriteRune(r)
	}
	for b.Len() < minSessionName {
		b.WriteByte('-')
	}
	return b.String(), nil
}

func inSessionName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_+=,.@-", r)
}
