package runflag

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/strictyaml"
	"github.com/toolhaven/toolhaven/internal/webhook"
)

// LoadWebhooks reads the files of --webhook-config, JSON if the name ends in .json, YAML
// otherwise. A webhook of a later file replaces one with the same name.
func LoadWebhooks(paths []string) (*webhook.Config, error) {
	var all webhook.Config
	for _, path := range paths {
		content, err := ReadFile(path, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("--webhook-config: %w", err)
		}
		var cfg webhook.Config
		if filepath.Ext(path) == ".json" {
			err = DecodeStrict(content, &cfg)
		} else {
			err = strictyaml.Decode(content, &cfg)
		}
		if err == nil && cfg.IsZero() {
			err = errors.New("it has no webhook; write validating or mutating")
		}
		if err == nil {
			err = cfg.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("--webhook-config %s: %w", path, err)
		}
		all = all.Merge(cfg)
	}
	return &all, nil
}
