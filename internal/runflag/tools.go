package runflag

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolhaven/toolhaven/internal/toolset"
)

// maxToolsOverride bounds the file of --tools-override, in bytes.
const maxToolsOverride = 1 << 20

// LoadToolsOverride reads the file of --tools-override. Whether the names in it are valid is
// decided by workload.Validate.
func LoadToolsOverride(path string) (map[string]toolset.Override, error) {
	content, err := ReadFile(path, maxToolsOverride)
	if err != nil {
		return nil, fmt.Errorf("--tools-override: %w", err)
	}
	overrides, err := parseToolsOverride(content)
	if err != nil {
		return nil, fmt.Errorf("--tools-override %s: %w", path, err)
	}
	return overrides, nil
}

// parseToolsOverride reads the format
//
//	{"toolsOverride": {"<server's name>": {"name": "...", "description": "..."}}}
func parseToolsOverride(content []byte) (map[string]toolset.Override, error) {
	var file struct {
		ToolsOverride map[string]toolset.Override `json:"toolsOverride"`
	}
	if err := DecodeStrict(content, &file); err != nil {
		return nil, err
	}
	// encoding/json accepts keys in another case; of two such keys the last would win.
	var exact map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(content, &exact); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(exact)) {
		if key != "toolsOverride" {
			return nil, unknownKey(content, key, []string{"toolsOverride"})
		}
		for _, tool := range slices.Sorted(maps.Keys(exact[key])) {
			for _, member := range slices.Sorted(maps.Keys(exact[key][tool])) {
				switch member {
				case "name", "description":
				default:
					return nil, unknownKey(content, member, []string{"name", "description"})
				}
			}
		}
	}
	if file.ToolsOverride == nil {
		return nil, errors.New(`it has no key "toolsOverride"`)
	}
	return file.ToolsOverride, nil
}
