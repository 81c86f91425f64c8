package runflag

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/strictyaml"
)

// maxPolicy bounds the file of --authz-config, in bytes.
const maxPolicy = 4 << 20

// authorization is the format of the file of --authz-config.
type authorization struct {
	Version string `json:"version"`
	Type    string `json:"type"`
	Cedar   *struct {
		policy.Config
		// PrimaryUpstream selects the token of an embedded authorization server.
		PrimaryUpstream string `json:"primary_upstream_provider,omitempty"`
	} `json:"cedar"`
	PDP any `json:"pdp,omitempty"`
}

// LoadPolicy reads the file of --authz-config: YAML if its name ends in .yaml or .yml, JSON
// otherwise. The policies in it are checked too.
func LoadPolicy(path string) (*policy.Config, error) {
	content, err := ReadFile(path, maxPolicy)
	if err != nil {
		return nil, err
	}
	cfg, err := ParsePolicy(content, filepath.Ext(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

// ParsePolicy reads the content of such a file with the extension of its name.
func ParsePolicy(content []byte, extension string) (*policy.Config, error) {
	var file authorization
	switch strings.ToLower(extension) {
	case ".yaml", ".yml":
		if err := strictyaml.Decode(content, &file); err != nil {
			return nil, err
		}
	default:
		if err := DecodeStrict(content, &file); err != nil {
			return nil, err
		}
	}
	switch {
	case file.Version != "1.0":
		return nil, fmt.Errorf("version %q: it must be \"1.0\"", file.Version)
	case file.Type == "httpv1" || file.PDP != nil:
		return nil, errors.New("type httpv1, a decision point over HTTP, is not available; use cedarv1")
	case file.Type != "cedarv1":
		return nil, fmt.Errorf("type %q: it must be cedarv1", file.Type)
	case file.Cedar == nil:
		return nil, errors.New("the key cedar is missing")
	case file.Cedar.PrimaryUpstream != "":
		return nil, errors.New("primary_upstream_provider needs an embedded authorization server, which workloads do not have")
	}
	cfg := file.Cedar.Config
	return &cfg, cfg.Validate()
}
