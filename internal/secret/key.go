package secret

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Prefixes of keys in a Store, and of references in a Spec.
const (
	// WorkloadPrefix begins workload/NAME/KEY: what run keeps apart for a workload.
	WorkloadPrefix = "workload/"
	// OAuthPrefix begins the keys of sign-ins and registered clients.
	OAuthPrefix = "oauth/"
	// userPrefix begins user/NAME: what `thv secret set NAME` stores.
	userPrefix = "user/"
	// sharedPrefix begins a reference to a secret of the provider, secret/NAME.
	sharedPrefix = "secret/"
)

// keyPattern is a Store's key: a kind, and one to three parts.
var keyPattern = regexp.MustCompile(`^[a-z]{1,32}(/[A-Za-z0-9_.-]{1,255}){1,3}$`)

// CheckKey returns an error for text that cannot be a key of a Store.
func CheckKey(key string) error {
	if !keyPattern.MatchString(key) || strings.Contains(key, "..") {
		return fmt.Errorf("%q is not a reference to a secret", key)
	}
	return nil
}

// Ref is the reference of a workload's own secret, and its key in the Store.
func Ref(workload, key string) string { return WorkloadPrefix + workload + "/" + key }

// UserKey is the key in the Store of what the user named.
func UserKey(name string) string { return userPrefix + name }

// UserName is the inverse of UserKey.
func UserName(key string) (name string, ok bool) { return strings.CutPrefix(key, userPrefix) }

// SharedRef is the reference to a secret of the provider, by its name.
func SharedRef(name string) string { return sharedPrefix + name }

// SharedName returns the name in a reference to a secret of the provider.
func SharedName(ref string) (name string, ok bool) { return strings.CutPrefix(ref, sharedPrefix) }

// maxName bounds a name, in bytes.
const maxName = 256

// CheckName returns an error for text that no provider accepts as a name. A provider
// has rules of its own beside this: op://vault/item/field is a name in 1Password only.
func CheckName(name string) error {
	bad := name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.Contains(name, "..") ||
		strings.TrimSpace(name) != name || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") ||
		strings.ContainsFunc(name, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) })
	if bad {
		return fmt.Errorf("%.80q is not the name of a secret", name)
	}
	return nil
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(/[A-Za-z0-9_.-]{1,127})?$`)

// CheckPlainName returns an error for a name that is not of letters, digits, dots, dashes
// and underscores, with one slash at most: NAME/KEY is what a reference of an
// MCPExternalAuthConfig refers to. It is the rule of the providers without a syntax of their
// own.
func CheckPlainName(name string) error {
	if !plainName.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%.80q is not the name of a secret: use 1 to 128 letters, digits, dots, dashes and underscores, beginning with a letter, digit or underscore; or NAME/KEY", name)
	}
	return nil
}

// MaxValue bounds a value, in bytes.
const MaxValue = 1 << 20

// CheckValue returns an error for a value that cannot be stored.
func CheckValue(value string) error {
	switch {
	case value == "":
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value is longer than %d bytes", MaxValue)
	case !utf8.ValidString(value):
		return errors.New("the value is not text (UTF-8); encode it, for example with base64")
	}
	return nil
}

// Checked returns a value that a provider read, if it can be one.
func Checked(value string) (string, error) {
	if err := CheckValue(value); err != nil {
		return "", err
	}
	return value, nil
}
