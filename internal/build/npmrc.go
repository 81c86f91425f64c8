package build

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// maxNpmrc bounds npm's configuration file, in bytes.
const maxNpmrc = 1 << 20

// npmSettings is the part of a user's npm configuration that names registries and their
// credentials. An installation receives these settings and no others.
type npmSettings map[string]string

var (
	npmSetting  = regexp.MustCompile(`^(registry|@[A-Za-z0-9~][A-Za-z0-9._~-]*:registry|//[^\s=]+:(_authToken|_auth|username|_password))$`)
	npmVariable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// settings reads the user's npmrc and the environment, which takes precedence.
func (n npm) settings() (npmSettings, error) {
	s := npmSettings{}
	path := n.env.first("NPM_CONFIG_USERCONFIG", "npm_config_userconfig")
	if home := n.env.first("HOME", "USERPROFILE"); path == "" && home != "" {
		path = filepath.Join(home, ".npmrc")
	}
	if path != "" {
		if err := s.read(path, n.env); err != nil {
			return nil, err
		}
	}
	if own := n.env.first("NPM_CONFIG_REGISTRY", "npm_config_registry"); own != "" {
		s["registry"] = own
	}
	for _, key := range slices.Collect(maps.Keys(s)) {
		if !strings.HasSuffix(key, "registry") {
			continue
		}
		u, err := registryURL(s[key])
		if err != nil {
			return nil, err
		}
		// npm takes a password from its own key. In the address it would end up in
		// commands and messages.
		if u.User != nil {
			password, _ := u.User.Password()
			s[npmKey(u)+":_auth"] = base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
			u.User = nil
		}
		s[key] = u.String()
	}
	return s, nil
}

// read takes the settings of an npmrc file, which may be missing.
func (s npmSettings) read(path string, env func(string) string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read npm's settings: %w", err)
	}
	defer f.Close()
	text, err := netguard.ReadBounded(f, maxNpmrc)
	if err != nil {
		return fmt.Errorf("read npm's settings in %s: %w", path, err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.TrimSpace(key)
		if !npmSetting.MatchString(key) {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		value = npmVariable.ReplaceAllStringFunc(value, func(v string) string { return env(v[2 : len(v)-1]) })
		if value == "" || strings.ContainsFunc(value, unicode.IsControl) {
			return fmt.Errorf("%s gives %s no usable value (is a variable not set?)", path, key)
		}
		s[key] = value
	}
	return nil
}

// registry is where a package comes from.
func (s npmSettings) registry(name string) string {
	if scope, _, ok := strings.Cut(name, "/"); ok && s[scope+":registry"] != "" {
		return s[scope+":registry"]
	}
	if s["registry"] != "" {
		return s["registry"]
	}
	return npmRegistry
}

// npmKey is the beginning of the keys of a registry's credentials: its address
// without the scheme.
func npmKey(u *url.URL) string { return "//" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/") + "/" }

// authorization is the value of the Authorization header for a registry, "" when
// there is none. A credential of an address holds for what is below it.
func (s npmSettings) authorization(u *url.URL) string {
	for key := npmKey(u); len(key) > len("//"); key = key[:strings.LastIndex(key[:len(key)-1], "/")+1] {
		if token := s[key+":_authToken"]; token != "" {
			return "Bearer " + token
		}
		if basic := s[key+":_auth"]; basic != "" {
			return "Basic " + basic
		}
		user, password := s[key+":username"], s[key+":_password"]
		if plain, err := base64.StdEncoding.DecodeString(password); user != "" && err == nil {
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+string(plain)))
		}
	}
	return ""
}

// file is an npmrc of these settings; nil when there are none.
func (s npmSettings) file() []byte {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s=%q\n", key, s[key])
	}
	return b.Bytes()
}
