package runflag

import (
	"fmt"
	"path/filepath"

	"github.com/toolhaven/toolhaven/internal/audit"
)

// LoadAudit reads the file of --audit-config, JSON. A relative logFile is relative to the
// current directory.
func LoadAudit(path string) (*audit.Config, error) {
	content, err := ReadFile(path, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("--audit-config: %w", err)
	}
	var cfg audit.Config
	err = DecodeStrict(content, &cfg)
	if err == nil && cfg.LogFile != "" {
		cfg.LogFile, err = filepath.Abs(cfg.LogFile)
	}
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("--audit-config %s: %w", path, err)
	}
	return &cfg, nil
}
