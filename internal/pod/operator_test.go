package pod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The operator's ConfigMaps, as its own tests expect them, are run configurations for a pod.
func TestLoad_WhatTheOperatorRenders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../operator/render/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, after, ok := strings.Cut(string(text), "  workload.json: |-\n")
			if !ok {
				t.Fatal("there is no workload.json")
			}
			var config strings.Builder
			for line := range strings.Lines(after) {
				inner, ok := strings.CutPrefix(line, "    ")
				if !ok {
					break
				}
				config.WriteString(inner)
			}
			if _, err := Load(writeFile(t, filepath.Join(t.TempDir(), "workload.json"), config.String())); err != nil {
				t.Error(err)
			}
		})
	}
}
