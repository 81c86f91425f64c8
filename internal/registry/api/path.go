package api

import (
	"errors"
	"net/url"
	"strings"
)

// checkPath refuses a path that a proxy before us, our router and a rule on
// public paths could read differently: dot segments and empty ones, backslashes,
// control characters, and percent-encoded separators. One place needs an encoded
// slash: the name of a server, which is one segment (registry API v0.1).
func checkPath(u *url.URL) error {
	raw := u.EscapedPath()
	if !strings.HasPrefix(raw, "/") {
		return errors.New("the path must begin with /")
	}
	segments := strings.Split(raw[1:], "/")
	for i, segment := range segments {
		if segment == "" && i < len(segments)-1 {
			return errors.New("the path has an empty segment")
		}
		text, err := url.PathUnescape(segment)
		if err != nil {
			return errors.New("the path is not percent-encoded properly")
		}
		if text == "." || text == ".." {
			return errors.New("the path has a dot segment")
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '%' || r == '\uFFFD' }) {
			return errors.New("the path has a character that is not allowed")
		}
		if strings.Contains(text, "/") && !isServerName(segments, i, text) {
			return errors.New("the path has an encoded separator")
		}
	}
	return nil
}

// isServerName: /registry/{registry}/v0.1/servers/{server}, and in it one slash
// with something on both sides that is no dot segment.
func isServerName(segments []string, i int, text string) bool {
	if i != 4 || segments[0] != "registry" || segments[2] != "v0.1" || segments[3] != "servers" {
		return false
	}
	namespace, name, _ := strings.Cut(text, "/")
	for _, part := range []string{namespace, name} {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "/") {
			return false
		}
	}
	return true
}
