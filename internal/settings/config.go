package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v4"
)

// Config is the tool's own configuration, config.yaml in the configuration
// directory. The zero Config is what holds without a file.
type Config struct {
	// Registry is the catalog that names are looked up in: the URL of an API or
	// of a file, or a file's path. "" is the built-in catalog.
	Registry string `yaml:"registry,omitempty"`
	// CACert is a PEM file trusted by image builds when --ca-cert is not given.
	CACert string `yaml:"caCert,omitempty"`
}

// Key is one setting, as `thv config` shows it.
type Key struct {
	Name, Meaning string
	field         func(*Config) *string
	check         func(string) error
}

// Keys are the settings, in the order they are shown.
func Keys() []Key {
	return []Key{
		{"registry", "catalog of servers: URL of an API or of a JSON file, or a file's path", func(c *Config) *string { return &c.Registry }, checkRegistry},
		{"caCert", "PEM file of a certificate authority that image builds trust", func(c *Config) *string { return &c.CACert }, checkFile},
	}
}

func checkRegistry(v string) error {
	if u, err := url.Parse(v); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.Host == "" || u.User != nil {
			return fmt.Errorf("registry %q: a URL needs a host, and must not hold a password", v)
		}
		return nil
	}
	if strings.Contains(v, "://") {
		return fmt.Errorf("registry %q: use an http(s) URL or a file's path", v)
	}
	return checkFile(v)
}

func checkFile(v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q: use an absolute path", v)
	}
	_, err := os.Stat(v)
	return err
}

func (d Dirs) configFile() string { return filepath.Join(d.Config, "config.yaml") }

// maxConfig bounds the configuration file, in bytes.
const maxConfig = 1 << 20

// Load reads the configuration. A file that is not there is the zero Config; an
// unknown key or a second document is an error with its line.
func Load(d Dirs) (Config, error) {
	content, err := readConfig(d)
	if err != nil {
		return Config{}, err
	}
	c, _, err := parseConfig(content)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", d.configFile(), err)
	}
	return c, nil
}

// readConfig is what the file holds; nothing when it is not there.
func readConfig(d Dirs) ([]byte, error) {
	f, err := os.Open(d.configFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(content) > maxConfig {
		return nil, fmt.Errorf("configuration %s: larger than %d bytes", d.configFile(), maxConfig)
	}
	return content, nil
}

// parseConfig reads the one document that a configuration file holds. doc is nil
// when there is nothing in it but comments.
func parseConfig(content []byte) (c Config, doc *yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	doc = &yaml.Node{}
	var rest yaml.Node
	if err := dec.Decode(doc); errors.Is(err, io.EOF) {
		return c, nil, nil
	} else if err != nil {
		return c, nil, oneLine(err)
	}
	switch err := dec.Decode(&rest); {
	case err == nil:
		return c, nil, fmt.Errorf("line %d: there is more than one document", rest.Line)
	case !errors.Is(err, io.EOF):
		return c, nil, oneLine(err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return c, nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return c, nil, fmt.Errorf("line %d: it is not a list of settings such as \"registry: URL\"", root.Line)
	}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		if _, err := findKey(key.Value); err != nil {
			return c, nil, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	if err := doc.Decode(&c); err != nil {
		return Config{}, nil, oneLine(err)
	}
	return c, doc, nil
}

// oneLine keeps the YAML library's message, which may be a list, in one line.
func oneLine(err error) error {
	return errors.New(strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: "))
}

// findKey finds a setting; its error lists those there are.
func findKey(name string) (Key, error) {
	all := Keys()
	names := make([]string, len(all))
	for i, k := range all {
		if k.Name == name {
			return k, nil
		}
		names[i] = k.Name
	}
	if near := Nearest(name, names); near != "" {
		return Key{}, fmt.Errorf("there is no setting %q; did you mean %s?", name, near)
	}
	return Key{}, fmt.Errorf("there is no setting %q; there are: %s", name, strings.Join(names, ", "))
}

// Change sets one key, or unsets it when value is "", and leaves what else is in
// the file, comments and order too, as it is. Concurrent changes lose nothing.
func Change(d Dirs, key, value string) error {
	k, err := findKey(key)
	if err != nil {
		return err
	}
	if value != "" {
		if err := k.check(value); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.Config, 0o700); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	lock := flock.New(d.configFile() + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	defer lock.Unlock()
	content, err := readConfig(d)
	if err != nil {
		return err
	}
	if content, err = edit(content, k, value); err != nil {
		return fmt.Errorf("configuration %s: %w", d.configFile(), err)
	}
	if err := WriteAtomic(d.configFile(), content, 0o600); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// Value is the setting's value in c.
func (k Key) Value(c Config) string { return *k.field(&c) }
